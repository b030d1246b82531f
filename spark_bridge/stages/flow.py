"""Rows on their way through a chain: what each operator's readers make of them.

Rows stay a plan until something needs them: an output, a sink, or two readers. So a chain costs one Spark job per
batch, or two where rows are both sent on and worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flykka.actors.machines.attempt.output_routes import OutputRoutes, address, first_holder, is_split
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import StagedOutput
from flykka.messages.tasks.stage import StageOutput
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.diagnosis.origins import Made
from flykka.spark_bridge.errors import ChainError, OperatorFailedError
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.code import KeyByCode, LocalWindowCode, SinkCode, TransformCode
from flykka.spark_bridge.program.prototype import has_event_time
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.materialise import (
    Materialised,
    Slices,
    estimated_bytes,
    materialise,
    together,
)
from flykka.spark_bridge.rows.partitioning import KeyGroups, materialise_slices
from flykka.spark_bridge.stages.windows import MICROS_PER_MS, local_state, start_numbers

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.attempt.services import Services
    from flykka.spark_bridge.connectors.sink import SinkWriter
    from flykka.spark_bridge.diagnosis.origins import Origins
    from flykka.spark_bridge.rows.batches import Blocks
    from flykka.spark_bridge.stages.chain import Chain, Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of rows: batches sent, what each sink has staged, and how many rows left the chain."""

    outputs: tuple[StageOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()
    rows: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(
            outputs=self.outputs + other.outputs, staged=self.staged + other.staged, rows=self.rows + other.rows
        )


class Flow:
    """Moves rows through the chain of one attempt. Safe to use for two stages at once."""

    def __init__(
        self,
        chain: Chain,
        descriptor: TaskDeploymentDescriptor,
        scope: AttemptScope,
        services: Services,
        writers: Mapping[OperatorId, SinkWriter],
        origins: Origins,
    ) -> None:
        self._chain = chain
        self._descriptor = descriptor
        self._scope = scope
        self._store = services.store
        self._registry = services.registry
        self._writers = writers
        self._origins = origins
        self._holder = f"{descriptor.attempt} stage"
        self._lock = Lock()
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def move(self, link: Link, rows: Slices, stage: int, before: Slices = ()) -> Moved:
        """Take the rows that the operator of `link` has made, of those `before`, to everything that reads it."""
        if rows:
            self._origins.note(link.uid, Made(before=before, after=rows))
        whole = tuple(output for output in link.outputs if not is_split(output))
        split = tuple(output for output in link.outputs if is_split(output))
        if not whole and len(link.readers) + len(split) < 2:
            return self._hand_on(link, rows, split, stage)
        made = materialise(self._scope, together(rows), self._numbers(link, rows[0]))
        own = self._ref(made, BatchId(f"{self._descriptor.attempt}/{stage}/{link.uid}.own"), made.rows)
        outputs, batches = self._whole(whole, made, link, stage)
        kept = Batch(ref=own, frame=made.frame, holder=self._holder)
        self._put(made.blocks, [kept, *batches])
        try:
            return Moved(outputs=outputs, rows=made.rows * len(whole)) + self._hand_on(
                link, (made.frame,), split, stage
            )
        finally:
            self._store.release((own.batch_id,), self._holder)

    def move_late(self, windows: Link, rows: DataFrame | None, stage: int) -> Moved:
        """Take the late rows of windows to what reads these; None are none."""
        moved = Moved()
        if rows is not None:
            for reader in windows.late_readers:
                moved += self.move(reader, (rows,), stage)
        return moved

    def _hand_on(self, link: Link, rows: Slices, split: tuple[ResultPartitionDescriptor, ...], stage: int) -> Moved:
        moved = Moved()
        for output in split:
            moved += self._send_split(link, output, together(rows), stage)
        for reader in link.readers:
            moved += self.read(reader, rows, stage)
        return moved

    def read(self, reader: Link, rows: Slices, stage: int) -> Moved:
        """Let an operator read rows, and take on what it makes of them."""
        match reader.code:
            case TransformCode(function=function):
                made = tuple(self._applied(reader, function, part) for part in rows)
                return self.move(reader, made, stage, rows)
            case LocalWindowCode(window=window):
                return self.move(reader, tuple(local_state(window, part) for part in rows), stage, rows)
            case SinkCode():
                return self._stage(reader, together(rows))
            case _:
                raise ChainError(f"{reader.uid!r} cannot stand behind another operator")

    def _applied(self, link: Link, function: Callable[[DataFrame], DataFrame], rows: DataFrame) -> DataFrame:
        try:
            return applied(function, rows)
        except (Exception, SystemExit) as raised:
            written = self._registry.written(link.uid)
            raise OperatorFailedError(f"operator {self._registry.describe(link.uid)}", written) from raised

    def _stage(self, sink: Link, rows: DataFrame) -> Moved:
        self._scope.check()
        operator_id = sink.operator.operator_id
        staged = self._writers[operator_id].stage(rows)
        if not staged.rows:
            return Moved()
        named = StagedOutput(operator_id=operator_id, names=staged.names, rows=staged.rows)
        return Moved(staged=(named,), rows=staged.rows)

    def _numbers(self, link: Link, rows: DataFrame) -> dict[str, Column]:
        """What to count of an operator's rows beside their number."""
        if isinstance(link.code, LocalWindowCode):
            return start_numbers()
        time = self._chain.event_time
        if time is None or not has_event_time(rows, time):
            # It was left out, or another column has its name.
            return {}
        return {"first_micros": _in_micros(F.min(time)), "last_micros": _in_micros(F.max(time))}

    def _whole(
        self, outputs: tuple[ResultPartitionDescriptor, ...], made: Materialised, link: Link, stage: int
    ) -> tuple[tuple[StageOutput, ...], list[Batch]]:
        """What is sent of rows that are not split; of no rows nothing is sent."""
        sent: list[StageOutput] = []
        batches: list[Batch] = []
        for output in outputs if made.rows else ():
            for subpartition in self._receivers(output):
                batch_id = self._routes.batch_id(stage, output, subpartition)
                ref = self._ref(made, batch_id, made.rows, subpartition, self._last_in_pane(link))
                batches.append(_batch(ref, made.frame, output))
                sent.append(StageOutput(output=output.output, batch=ref))
        return tuple(sent), batches

    def _receivers(self, output: ResultPartitionDescriptor) -> range:
        with self._lock:
            return self._routes.receivers(output)

    def _send_split(self, link: Link, output: ResultPartitionDescriptor, rows: DataFrame, stage: int) -> Moved:
        keys = self._keys(link, output)
        if output.key_by is not None and not isinstance(link.code, LocalWindowCode):
            self._origins.note(output.key_by.uid, Made(before=(rows,), after=(rows,), columns=keys))
        groups = KeyGroups(keys=keys, max_parallelism=output.max_parallelism)
        made = materialise_slices(self._scope, rows, groups, output.subpartitions, self._numbers(link, rows))
        last = self._last_in_pane(link)
        batches = [
            _batch(
                self._ref(made.materialised, self._routes.batch_id(stage, output, index), count, index, last),
                frame,
                output,
            )
            for index, (frame, count) in enumerate(zip(made.slices, made.rows, strict=True))
            if count
        ]
        self._put(made.materialised.blocks, batches)
        outputs = tuple(StageOutput(output=output.output, batch=batch.ref) for batch in batches)
        return Moved(outputs=outputs, rows=made.materialised.rows)

    def _keys(self, link: Link, output: ResultPartitionDescriptor) -> tuple[Column | str, ...]:
        if isinstance(link.code, LocalWindowCode):
            # State has key columns of its own: the user's expressions are over columns that are gone.
            return link.code.window.plan.keys
        assert output.key_by is not None, f"output {output.output} of {link.uid!r} is split and has no keys"
        code = self._registry.resolve(output.key_by)
        assert isinstance(code, KeyByCode), f"{output.key_by.uid!r} is no key_by"
        return code.columns

    def _put(self, blocks: Blocks, batches: list[Batch]) -> None:
        self._store.put(blocks, batches, producer=self._descriptor.attempt)

    def _ref(
        self, made: Materialised, batch_id: BatchId, rows: int, subpartition: int = 0, last_in_pane: int = 0
    ) -> BatchRef:
        first, last = made.numbers.get("first_micros"), made.numbers.get("last_micros")
        return BatchRef(
            batch_id=batch_id,
            rows=rows,
            size_bytes=estimated_bytes(made.frame.schema, rows),
            event_time_min=None if first is None else first // MICROS_PER_MS,
            event_time_max=None if last is None else last // MICROS_PER_MS + last_in_pane,
            subpartition=subpartition,
        )

    @staticmethod
    def _last_in_pane(link: Link) -> int:
        """What is to be added to the start of a pane for its last millisecond, at most; 0 for rows."""
        return link.code.window.windows.slide_ms - 1 if isinstance(link.code, LocalWindowCode) else 0


def _in_micros(time: Column) -> Column:
    return F.unix_micros(time.cast("timestamp"))


def _batch(ref: BatchRef, frame: DataFrame, output: ResultPartitionDescriptor) -> Batch:
    """A batch on its way to a subpartition of an output."""
    return Batch(ref=ref, frame=frame, address=address(output, ref.subpartition), holder=first_holder(output))
