"""Keyed batches on Spark: each batch is one job, which the reader of the emitted rows runs.

A Python worker looks up the state of the batch's keys in segments, processes the batch, writes the changes as a
segment, and emits rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField

from flykka.actors.machines.state.segments import Reading
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.operators.emitted_rows import computed_by_reader, computed_once, emitted_type, main_rows
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator, KeyedOutcome, KeyedResult
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator, TimerFiring
from flykka.spark_bridge.operators.operator import Element
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.local_rows import local_rows, rows_of_table
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.rows.prepared import Prepared, StableColumns
from flykka.spark_bridge.session.interpretation import are_few
from flykka.spark_bridge.session.session import has_one_machine
from flykka.spark_bridge.state.segment_files import FileStateBackend, StateRows
from flykka.spark_bridge.worker.process_batch import BatchFunction, KeyedWork, ProcessDueKeys, ProcessKeyedBatch
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER, NEXT_PROCESSING_TIMER, POSITION, CleanUp
from flykka.spark_bridge.worker.segments import CONTROL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.state.handles import StateSchema
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.program.side_output import SideOutput


@runtime_checkable
class KeyedCode(Protocol):
    """The columns of a `KeyedBatchOperator`: its keys, its state, and the rows that it reads and emits."""

    @property
    def key_fields(self) -> tuple[StructField, ...]: ...

    @property
    def state_fields(self) -> tuple[StructField, ...]: ...

    @property
    def state_schema(self) -> StateSchema | None:
        """The schema of state, with the names that users know."""

    @property
    def emitted(self) -> tuple[StructField, ...]: ...

    @property
    def side(self) -> tuple[SideOutput, ...]: ...

    def keyed(self, rows: DataFrame) -> DataFrame:
        """Return the key columns, and the columns of rows that the function needs."""

    def results(self, emitted: DataFrame) -> DataFrame:
        """Return the rows that leave the operator."""


class TableCode(KeyedCode, Protocol):
    def function(self, watermark_ms: int) -> BatchFunction:
        """Return the function that a worker applies to a batch after a watermark."""

    def clean_up(self, watermark_ms: int) -> CleanUp | None:
        """Return the clean-up that removes state which is not needed after a watermark; None if all state is needed."""


class TimedTableCode(TableCode, Protocol):
    """A function of all rows of a batch, and a function of event-time timers."""

    @property
    def emits_with_batches(self) -> bool:
        """False if processing a batch only changes state."""

    def firing(self, due_ms: int) -> BatchFunction:
        """Return the function that a worker applies to the keys with timers up to `due_ms`."""


Readings = Sequence[Reading[StateRows]]


_TIMERS = {TimeDomain.EVENT_TIME: NEXT_EVENT_TIMER, TimeDomain.PROCESSING_TIME: NEXT_PROCESSING_TIMER}


def keyed_batch_operator(context: OperatorContext, code: TableCode) -> KeyedBatchOperator[Slices, StateRows]:
    batches = SparkKeyedTables(context, code)
    return KeyedBatchOperator(context.operator_id, batches, batches.backend)


def keyed_table_operator(context: OperatorContext, code: TimedTableCode) -> KeyedProcessOperator[Slices, StateRows]:
    function = SparkTimedTables(context, code)
    return KeyedProcessOperator(context.operator_id, function, function.backend)


def with_keys(rows: DataFrame, key_fields: Sequence[StructField], keys: Sequence[Column | str]) -> DataFrame:
    pairs = zip(key_fields, keys, strict=True)
    columns = {field: F.col(key) if isinstance(key, str) else key for field, key in pairs}
    return rows.withColumns({each.name: normalised_column(key, each.dataType) for each, key in columns.items()})


WorkerFunction = TypeVar("WorkerFunction")


class SparkKeyedBatches(Generic[WorkerFunction]):
    def __init__(
        self,
        context: OperatorContext,
        code: KeyedCode,
        function: Callable[[Element[Slices]], WorkerFunction],
        *,
        is_ours: bool = False,
    ) -> None:
        """`function` creates the function that a worker applies to a batch.

        If it `is_ours`, and calls no code of the user, the driver applies it to few rows, without a Spark job.
        """
        self.backend = FileStateBackend(
            code.key_fields,
            code.state_fields,
            context.storage,
            context.in_background,
            clean_up=self.clean_up,
            state_schema=code.state_schema,
        )
        self._context = context
        self._code = code
        self._function = function
        self._report_columns = (*self.report_columns, StructField(CONTROL, ArrayType(LongType())))
        self._emitted_type = emitted_type(code.emitted, code.side, self._report_columns)
        self._emitted_columns = StableColumns()
        self._prepared_keys = Prepared(self.keyed)
        self._works_here = is_ours and not code.side and has_one_machine(context.scope.session)
        self._prepared_results = Prepared(self._main)
        self._main_type = emitted_type(code.emitted, (), ())
        self._prepared_results_here = Prepared(self.results)

    @cached_property
    def _groups(self) -> KeyGroups:
        # Created lazily: columns are created in the JVM, but operators are created in an actor's turn.
        keys = tuple(F.col(field.name) for field in self._code.key_fields)
        return KeyGroups(keys=keys, max_parallelism=self._context.descriptor.vertex.max_parallelism)

    @property
    def report_columns(self) -> tuple[StructField, ...]:
        """Additional columns in which workers report values to the driver."""
        return ()

    def on_report(self, numbers: Mapping[str, Any]) -> None: ...

    @property
    def has_several_readers(self) -> bool:
        """True if the rows that workers emit may be read several times."""
        return bool(self._code.side)

    @property
    def emits_with_batches(self) -> bool:
        """False if only timers emit rows: then a batch is computed at once, and not by a reader."""
        return True

    @property
    def has_plan_of_columns(self) -> bool:
        """True if the plan of the results depends only on the columns of the emitted rows."""
        return True

    def results(self, emitted: DataFrame) -> DataFrame:
        return self._code.results(emitted)

    def _main(self, emitted: DataFrame) -> DataFrame:
        others = [*(each.column for each in self._code.side), *(each.name for each in self._report_columns)]
        return self.results(main_rows(emitted, others))

    def clean_up(self) -> CleanUp | None:
        """The clean-up that removes unneeded state when segments are merged; None if all state is always needed."""
        return None

    def processed(self, element: Element[Slices], readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        assert element.batch is not None, "keyed rows must come from an input gate"
        (rows,) = element.rows
        return self._worked(
            self._prepared_keys(rows),
            self.work,
            self._function(element),
            readings,
            version,
            emits=self.emits_with_batches,
        )

    @property
    def work(self) -> Callable[..., KeyedWork]:
        return ProcessKeyedBatch

    def keyed(self, rows: DataFrame) -> DataFrame:
        return self._code.keyed(rows).withColumn(POSITION, self._groups.position())

    def _fired(
        self, firing: TimerFiring, function: WorkerFunction, readings: Readings, version: int
    ) -> KeyedResult[Slices, StateRows]:
        due = partial(
            ProcessDueKeys,
            timer=_TIMERS[firing.domain],
            due_ms=firing.due_ms,
            after_ms=firing.after_ms,
            after_version=firing.after_version,
        )
        return self._worked(self._context.scope.session.range(1), due, function, readings, version)

    def _worked(
        self,
        rows: DataFrame,
        work: Callable[..., KeyedWork],
        function: WorkerFunction,
        readings: Readings,
        version: int,
        *,
        emits: bool = True,
    ) -> KeyedResult[Slices, StateRows]:
        target = self.backend.new_name()
        process = work(
            folder=self.backend.folder,
            segments=self.backend.read(readings).names,
            target=target,
            version=version,
            schema=self.backend.arrow_schema,
            function=function,
        )
        if self._works_here and are_few(rows):
            return self._worked_here(rows, process, target, emits=emits)
        processed = self._emitted_columns.of(exactly_named(rows.coalesce(1)).mapInArrow(process, self._emitted_type))
        aggregates = {field.name: F.max(field.name) for field in self._report_columns}
        # Computing these rows changes state, so they must be computed only once.
        emitted = (
            computed_once(self._context, processed, target, aggregates)
            if self.has_several_readers or not emits
            else computed_by_reader(processed, aggregates)
        )
        results = self._prepared_results if self.has_plan_of_columns else self._main
        return KeyedResult(
            rows=(results(emitted.rows),) if emits else None,
            side=emitted.of_side(self._code.side),
            outcome=lambda: self._outcome(target, emitted.numbers()),
        )

    def _worked_here(
        self, rows: DataFrame, process: KeyedWork, target: str, *, emits: bool
    ) -> KeyedResult[Slices, StateRows]:
        """Process few rows in the driver, in less time than a Spark job takes."""
        local = local_rows(rows)
        table = rows.toArrow() if local is None else local.table()
        self._context.scope.check()
        emitted = pa.Table.from_batches(process(iter(table.to_batches())))
        reported = emitted.column(CONTROL).is_valid()
        names = [each.name for each in self._report_columns]
        (numbers_by_name,) = emitted.filter(reported).select(names).to_pylist()
        main = emitted.filter(pc.invert(reported)).drop_columns(names)
        outcome = partial(self._outcome, target, numbers_by_name)
        if not emits:
            return KeyedResult(rows=None, outcome=outcome)
        results = self._prepared_results_here if self.has_plan_of_columns else self.results
        frame = self._emitted_columns.of(rows_of_table(rows.sparkSession, main, self._main_type))
        return KeyedResult(rows=(results(frame),), outcome=outcome)

    def _outcome(self, target: str, numbers_by_name: Mapping[str, Any]) -> KeyedOutcome[StateRows]:
        *segment_numbers, next_timer_ms, late_rows = numbers_by_name[CONTROL]
        segment = self.backend.written(target, *segment_numbers)
        self.on_report(numbers_by_name)
        return KeyedOutcome(segment=segment, next_timer_ms=next_timer_ms, late_rows=late_rows)


class SparkKeyedTables(SparkKeyedBatches[BatchFunction]):
    """Batches of a function that depends on the watermark."""

    def __init__(self, context: OperatorContext, code: TableCode) -> None:
        super().__init__(context, code, self._processing)
        self._table_code = code
        self._watermark_ms = WATERMARK_MIN

    def clean_up(self) -> CleanUp | None:
        """The clean-up of state that was not needed any more when the last batch arrived."""
        return self._table_code.clean_up(self._watermark_ms)

    def _processing(self, element: Element[Slices]) -> BatchFunction:
        self._watermark_ms = element.watermark_ms
        return self._table_code.function(element.watermark_ms)


class SparkTimedTables(SparkKeyedTables):
    sees_watermarks = False

    def __init__(self, context: OperatorContext, code: TimedTableCode) -> None:
        super().__init__(context, code)
        self._timed_code = code

    @property
    def emits_with_batches(self) -> bool:
        return self._timed_code.emits_with_batches

    def fired(self, firing: TimerFiring, readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        return self._fired(firing, self._timed_code.firing(firing.due_ms), readings, version)
