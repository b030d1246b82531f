"""Rows on their way through a chain of one attempt with Spark: what each operator's readers make of them.

Rows stay a plan until something needs them: an output, a sink, or two readers. So a chain costs one Spark job per
batch, or two where rows are both sent on and worked on. A few readers of files of columns read them by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from threading import Lock
from typing import TYPE_CHECKING

from flykka.actors.machines.attempt.batches import OutputRoutes, address, first_holder, is_split
from flykka.messages.attempt.values import StagedOutput, StageOutput
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.diagnosis.origins import Made
from flykka.spark_bridge.functions.times import in_ms
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.operators.operator_chain import BatchResult
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.materialise import Materialised, Slices, estimated_bytes, materialise, together
from flykka.spark_bridge.rows.partitioning import KeyGroups, materialise_slices

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.attempt.services import Services
    from flykka.spark_bridge.diagnosis.origins import Origins
    from flykka.spark_bridge.operators.bound_chain import BoundChain, Link
    from flykka.spark_bridge.rows.batches import Storage
    from flykka.spark_bridge.rows.lazy_rows import LazyRows


_READ_AGAIN = 3
"""For no more readers than these, rows that files hold by columns are read once for each: they are not kept."""


class Flow:
    """Moves rows through the chain of one attempt. Safe to use for two stages at once."""

    def __init__(
        self,
        chain: BoundChain,
        descriptor: TaskDeploymentDescriptor,
        scope: AttemptScope,
        services: Services,
        operators: Mapping[OperatorId, Operator[Slices]],
        origins: Origins,
    ) -> None:
        self._chain = chain
        self._descriptor = descriptor
        self._scope = scope
        self._store = services.store
        self._registry = services.registry
        self._operators = operators
        self._origins = origins
        self._holder = f"{descriptor.attempt} stage"
        self._lock = Lock()
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def emit(self, link: Link, output: Output[Slices], stage: int, before: Slices = ()) -> BatchResult:
        """Take what the operator of `link` emits, of the rows `before`, to everything that reads it."""
        result = BatchResult()
        if output.staged_rows:
            staged = StagedOutput(operator_id=link.operator_id, names=output.staged, rows=output.staged_rows)
            result += BatchResult(staged=(staged,), rows=output.staged_rows)
        if output.rows is not None:
            result += self._move(link, output, stage, before)
        for name, rows in output.side.items():
            for reader in link.readers_of(name):
                result += self._read(reader, rows, stage)
        return result

    def hand_on(self, link: Link, rows: LazyRows, stage: int) -> BatchResult:
        """Send rows to the stage that reads them, the only reader of what the operator of `link` emits."""
        (output,) = link.outputs
        outputs: list[StageOutput] = []
        for subpartition in self._receivers(output) if rows.rows else ():
            ref = BatchRef(
                batch_id=self._routes.batch_id(stage, output, subpartition),
                rows=rows.rows,
                size_bytes=rows.size_bytes,
                event_time_max=rows.event_time_max,
                subpartition=subpartition,
            )
            self._put(rows, [_batch(ref, rows, output)])
            outputs.append(StageOutput(output=output.output, batch=ref))
        return BatchResult(outputs=tuple(outputs), rows=rows.rows)

    def _move(self, link: Link, output: Output[Slices], stage: int, before: Slices) -> BatchResult:
        rows = output.rows or ()
        if rows:
            self._origins.note(link.uid, Made(before=before, after=rows))
        whole = tuple(output for output in link.outputs if not is_split(output))
        split = tuple(output for output in link.outputs if is_split(output))
        readers = link.readers_of(None)
        if not whole and len(readers) + len(split) <= (_READ_AGAIN if output.read_again else 1):
            return self._hand_on(link, rows, split, stage)
        made = materialise(self._scope, together(rows), self._times(link, rows[0]))
        own = self._ref(made, BatchId(f"{self._descriptor.attempt}/{stage}/{link.uid}.own"), made.rows)
        outputs, batches = self._whole(whole, made, stage)
        kept = Batch(ref=own, rows=made.frame, holder=self._holder)
        self._put(made.blocks, [kept, *batches])
        try:
            sent = BatchResult(outputs=outputs, rows=made.rows * len(whole))
            return sent + self._hand_on(link, (made.frame,), split, stage)
        finally:
            self._store.release((own.batch_id,), self._holder)

    def _hand_on(
        self, link: Link, rows: Slices, split: tuple[ResultPartitionDescriptor, ...], stage: int
    ) -> BatchResult:
        result = BatchResult()
        for output in split:
            result += self._send_split(link, output, together(rows), stage)
        for reader in link.readers_of(None):
            result += self._read(reader, rows, stage)
        return result

    def _read(self, reader: Link, rows: Slices, stage: int) -> BatchResult:
        """Let an operator of the chain process rows, and take on what it emits."""
        output = self._operators[reader.operator_id].process_batch(Element(rows=rows, stage=stage))
        result = self.emit(reader, output, stage, rows)
        if output.on_emitted is not None:
            output.on_emitted()
        return result

    def _times(self, link: Link, rows: DataFrame) -> Mapping[str, Column]:
        return link.code.batch_times(rows, self._chain.event_time)

    def _whole(
        self, outputs: tuple[ResultPartitionDescriptor, ...], made: Materialised, stage: int
    ) -> tuple[tuple[StageOutput, ...], list[Batch]]:
        """Send rows that are not split; of no rows nothing is sent."""
        sent: list[StageOutput] = []
        batches: list[Batch] = []
        for output in outputs if made.rows else ():
            for subpartition in self._receivers(output):
                batch_id = self._routes.batch_id(stage, output, subpartition)
                ref = self._ref(made, batch_id, made.rows, subpartition)
                batches.append(_batch(ref, made.frame, output))
                sent.append(StageOutput(output=output.output, batch=ref))
        return tuple(sent), batches

    def _receivers(self, output: ResultPartitionDescriptor) -> range:
        with self._lock:
            return self._routes.receivers(output)

    def _send_split(self, link: Link, output: ResultPartitionDescriptor, rows: DataFrame, stage: int) -> BatchResult:
        assert output.key_by is not None, f"output {output.output} of {link.uid!r} is split and has no keys"
        keyed = self._registry.keys(output.key_by)
        if not keyed.of_state:
            self._origins.note(output.key_by.uid, Made(before=(rows,), after=(rows,), columns=keyed.columns))
        groups = KeyGroups(keys=keyed.columns, max_parallelism=output.max_parallelism)
        made = materialise_slices(self._scope, rows, groups, output.subpartitions, self._times(link, rows))
        batches = [
            _batch(
                self._ref(made.materialised, self._routes.batch_id(stage, output, index), count, index),
                frame,
                output,
            )
            for index, (frame, count) in enumerate(zip(made.slices, made.rows, strict=True))
            if count
        ]
        self._put(made.materialised.blocks, batches)
        outputs = tuple(StageOutput(output=output.output, batch=batch.ref) for batch in batches)
        return BatchResult(outputs=outputs, rows=made.materialised.rows)

    def _put(self, storage: Storage, batches: list[Batch]) -> None:
        self._store.put(storage, batches, producer=self._descriptor.attempt)

    def _ref(self, made: Materialised, batch_id: BatchId, rows: int, subpartition: int = 0) -> BatchRef:
        first, last = made.numbers.get("first_micros"), made.numbers.get("last_micros")
        return BatchRef(
            batch_id=batch_id,
            rows=rows,
            size_bytes=estimated_bytes(made.frame.schema, rows),
            event_time_min=None if first is None else in_ms(first),
            event_time_max=None if last is None else in_ms(last),
            subpartition=subpartition,
        )


def _batch(ref: BatchRef, rows: DataFrame | LazyRows, output: ResultPartitionDescriptor) -> Batch:
    """A batch on its way to a subpartition of an output."""
    return Batch(ref=ref, rows=rows, address=address(output, ref.subpartition), holder=first_holder(output))
