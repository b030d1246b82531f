"""The head of a source's chain: reads splits, and records them for the next checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.actors.machines.attempt.batches import is_read_once
from flykka.messages.attempt.commands import StagedOutput
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.emitted_rows import computed_once
from flykka.spark_bridge.operators.operator import Operator, Output
from flykka.spark_bridge.operators.source_reader import SourceNumbers, SourceReader, SourceRows
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.program.accumulators import LongCounter
from flykka.spark_bridge.program.row_wise import works_row_by_row
from flykka.spark_bridge.rows.batches import LazyRows
from flykka.spark_bridge.rows.materialise import Slices, together

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from flykka.messages.tasks.source import SourceSplit
    from flykka.spark_bridge.operators.code import Link, OperatorContext
    from flykka.spark_bridge.program.source import Source


NUM_RECORDS_IN_ERRORS = "numRecordsInErrors"
"""The name of Flink's metric for the number of rows that a source cannot read."""


class SourceOperator(Operator[Slices]):
    def __init__(self, context: OperatorContext, code: SourceCode) -> None:
        super().__init__(context.operator_id)
        self._context = context
        self._code = code
        self._reader: SourceReader | None = None
        # For a source that is notified of checkpoints: splits read since the last barrier, and before each barrier.
        self._read: dict[str, SourceSplit] = {}
        self._to_notify: dict[int, list[SourceSplit]] = {}
        link = context.link
        self._only_forwards = not link.readers and len(link.outputs) == 1 and is_read_once(link.outputs[0])

    def count(self, numbers: SourceNumbers) -> None:
        if numbers.corrupt:
            name = f"{self._context.link.name}.{NUM_RECORDS_IN_ERRORS}"
            spark = self._context.scope.session.sparkContext
            self._context.accumulators.get_or_add(name, LongCounter, spark).add(numbers.corrupt)

    @property
    def commits(self) -> bool:
        return self._code.source.is_notified_of_checkpoints

    @property
    def reads_columns(self) -> bool:
        """True if each reader of the source's rows reads only the columns that it needs."""
        return self._code.source.reads_columns

    def record_read(self, splits: tuple[SourceSplit, ...]) -> tuple[StagedOutput, ...]:
        if not self.commits:
            return ()
        self._read |= {split.split_id: split for split in splits}
        return (StagedOutput(operator_id=self.operator_id, names=tuple(split.split_id for split in splits), rows=0),)

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> None:
        self._to_notify[checkpoint_id] = [self._read.pop(name) for name in names]

    def commit_checkpoint(self, checkpoint_id: int) -> tuple[str, ...]:
        due = sorted(each for each in self._to_notify if each <= checkpoint_id)
        splits = [split for each in due for split in self._to_notify.pop(each)]
        if splits:
            self._code.source.notify_checkpoint_complete(checkpoint_id, splits)
        return ()

    def open(self) -> None:
        """Create the reader of the source, unless another subtask has done so."""
        vertex_id = self._context.descriptor.vertex.vertex_id
        self._reader = self._context.readers.reader(vertex_id, self._new_reader)

    def _new_reader(self, session: SparkSession) -> SourceReader:
        code, link = self._code, self._context.link
        schema = code.source.prototype(session).schema
        functions = [each.code.function for each in link.walk() if isinstance(each.code, TransformCode)]
        return SourceReader(
            uid=link.uid,
            session=session,
            source=code.source,
            schema=schema,
            in_slices=_only_aggregates(link) and works_row_by_row(session, schema, functions),
            punctuation=code.punctuation,
            watches_order=code.watches_order,
        )

    def read(self, splits: tuple[SourceSplit, ...]) -> SourceRows:
        assert self._reader is not None, "the source is not open"
        return self._reader.read(splits)

    def output(self, rows: SourceRows, stage: int) -> Output[Slices]:
        """Return the output for rows that the source has read. Rejected rows go to a side output."""
        aside = self._code.source.side_output
        if aside is None:
            return Output(rows=rows.slices, read_again=self.reads_columns)
        # Two outputs read the rows, but the external system must be read only once.
        name = f"{self._context.descriptor.attempt}/{stage}/{self._context.link.uid}.read"
        emitted = computed_once(self._context, together(rows.slices), name, {})
        main, side = emitted.parted([aside])
        return Output(rows=(main,), side=side, on_emitted=emitted.numbers)

    def lazy_rows(self, splits: tuple[SourceSplit, ...]) -> LazyRows | None:
        """Return rows of splits that the next stage can read itself; None if this stage should read them."""
        assert self._reader is not None, "the source is not open"
        is_on = self._only_forwards and self._context.readers.lazy_reading
        return self._reader.lazy_rows(splits) if is_on else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCode(OperatorCode):
    """Reads splits. `watermark_delay_ms` bounds the out-of-orderness of event time; None disables watermarks.

    `watches_order` is set if rows must arrive in order. If only some rows mark watermarks, `punctuation` is true for
    these rows.
    """

    kind = OperatorKind.SOURCE
    is_head = True

    source: Source
    watermark_delay_ms: int | None = None
    watches_order: bool = False
    punctuation: Column | str | None = None

    @property
    def fingerprint(self) -> str:
        """The source's format, without the location of its rows, which may change between two runs."""
        return f"source({self.source.format})"

    @property
    def side_outputs(self) -> tuple[str, ...]:
        return () if self.source.side_output is None else (self.source.side_output.tag,)

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return SourceOperator(context, self)


def _only_aggregates(link: Link) -> bool:
    """Return True if all rows go to one aggregation, which is computed slice by slice.

    Then the source may be read slice by slice, unless a function before the aggregation needs whole batches.
    """
    if link.code.aggregates_slices:
        return True
    passes_on = isinstance(link.code, SourceCode | TransformCode)
    return passes_on and not link.outputs and len(link.readers) == 1 and _only_aggregates(link.readers[0])
