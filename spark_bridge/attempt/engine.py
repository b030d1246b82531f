"""The engine of one execution attempt on Spark: carries out the commands of the attempt's machine on its own threads.

Operators process rows and state. The engine opens and closes them, moves the rows that they emit, and reports failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any

from flykka.actors.machines.attempt.batches import OutputRoutes, address, first_holder, is_split
from flykka.messages.attempt.answers import ChannelStateWritten, EngineFailed, WorkFailed
from flykka.messages.attempt.commands import StagedOutput, StageOutput
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.runtime.errors import serialized
from flykka.spark_bridge.attempt.attempt_work import AttemptWork, read_progress, read_work
from flykka.spark_bridge.attempt.end import AttemptEnd
from flykka.spark_bridge.attempt.failures import AttemptFailures
from flykka.spark_bridge.attempt.stage_executor import StageExecutor
from flykka.spark_bridge.diagnosis.origins import Derivation, Origins
from flykka.spark_bridge.functions.times import in_ms
from flykka.spark_bridge.operators.bound_chain import bound_chain
from flykka.spark_bridge.operators.broadcast_variables import BroadcastVariables
from flykka.spark_bridge.operators.code import OperatorContext
from flykka.spark_bridge.operators.keyed_store import KeyedOperator
from flykka.spark_bridge.operators.lifecycle import OperatorLifecycle
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.operators.operator_chain import BatchResult, OperatorChain
from flykka.spark_bridge.operators.source import SourceOperator
from flykka.spark_bridge.program.accumulators import AccumulatorRegistry
from flykka.spark_bridge.rows.batches import IN_DRIVER, Batch, slices_of
from flykka.spark_bridge.rows.materialise import (
    Materialised,
    Slices,
    estimated_bytes,
    few_rows,
    joined,
    materialise,
    together,
)
from flykka.spark_bridge.rows.partitioning import KeyGroups, materialise_slices
from flykka.spark_bridge.rows.prepared import StableColumns, with_columns_of
from flykka.spark_bridge.session.attempt_scope import AttemptScope
from flykka.spark_bridge.session.interpretation import INTERPRETED_ROWS, interpreted
from flykka.spark_bridge.state.attempt_storage import AttemptStorage, ManagedMemory
from flykka.spark_bridge.state.in_flight import InFlightStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.attempt.answers import ChainClosed, ChainOpened, SnapshotWritten, StageResult, WorkProgress
    from flykka.messages.attempt.commands import (
        AdvanceProcessingTime,
        AdvanceWatermark,
        ChannelStateRead,
        CloseChain,
        Command,
        HoldBatches,
        Lane,
        OpenChain,
        ProcessBatch,
        ReadSplits,
        ReleaseBatches,
        SnapshotState,
        WriteChannelState,
        WriteSnapshot,
    )
    from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
    from flykka.runtime.dispatch.dispatcher import Pipe
    from flykka.spark_bridge.attempt.services import JobServices
    from flykka.spark_bridge.operators.bound_chain import BoundChain
    from flykka.spark_bridge.operators.code import Link
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.program.sink import SinkJob
    from flykka.spark_bridge.rows.batches import LazyRows, Storage, StoredRows

_READ_AGAIN = 3
"""Maximum number of readers that each read columnar files again, without caching."""


@dataclass(frozen=True, slots=True)
class _OnLane:
    workers: StageExecutor
    lane: Lane
    number: int
    what: str

    def run_blocking(self, work: Pipe[Any]) -> None:
        self.workers.run(self.lane, self.number, self.what, work)


class SparkEngine(OperatorChain[Slices]):
    outside_state = True

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        services: JobServices,
        sinks: SinkJob,
        *,
        report: Callable[[EngineFailed], object],
        predecessor: SparkEngine | None,
    ) -> None:
        """`report` is called from any thread. `predecessor` is the subtask's previous attempt."""
        self._files = services.files
        self._filesystem = services.filesystem
        self._store = services.store
        self._report = report
        subtask = f"{descriptor.job_id}/{descriptor.vertex.vertex_id}/{descriptor.subtask}"
        label = f"({descriptor.subtask + 1}/{descriptor.vertex.parallelism})#{descriptor.attempt_number}"
        self._scope = AttemptScope(services.session, descriptor.attempt, pool=subtask, label=label)
        storage = AttemptStorage(
            descriptor=descriptor,
            scope=self._scope,
            store=services.store,
            filesystem=services.filesystem,
            local_states=services.local_states,
            memory=ManagedMemory(descriptor.managed_memory_bytes),
            merges_in_background=services.background_merges,
        )
        self._chain = bound_chain(descriptor, services.registry)
        self._links = {link.operator_id: link for link in self._chain.head.walk()}
        accumulators = AccumulatorRegistry()
        self._variables = BroadcastVariables(descriptor.vertex, services.session)
        super().__init__(
            descriptor,
            {
                operator_id: link.code.operator(
                    OperatorContext(
                        link=link,
                        descriptor=descriptor,
                        scope=self._scope,
                        storage=storage,
                        readers=services.readers,
                        sinks=sinks,
                        aggregates=services.aggregates,
                        resources=replace(
                            services.files.resources,
                            broadcast_variables=self._variables.by_name if link is self._chain.head else {},
                        ),
                        accumulators=accumulators,
                        in_background=self._run_in_background,
                    )
                )
                for operator_id, link in self._links.items()
            },
        )
        self._columns = StableColumns()
        self._origins = Origins()
        self._failures = AttemptFailures(self._chain, self._origins, services)
        self._lifecycle = OperatorLifecycle(self.operators.values(), self._scope, accumulators, self._variables)
        self._workers = StageExecutor(self._scope)
        self.end: AttemptEnd = AttemptEnd(
            descriptor,
            self._scope,
            self._workers,
            self._lifecycle,
            services.store,
            patience_seconds=services.cancellation_timeout_seconds,
            report=report,
            predecessor=None if predecessor is None else predecessor.end,
        )
        self._flow = Flow(self._chain, storage, services.registry, self.operators, self._origins)
        self._in_flight = InFlightStore(storage, lambda edge: services.registry.keys(edge).columns)

    @property
    def has_state(self) -> bool:
        return super().has_state or bool(self._variables)

    def lane(self, command: Command, piece: int, what: str) -> _OnLane:
        return _OnLane(self._workers, self.lane_of(command), piece, what)

    def fail(self, error: Exception) -> None:
        """Thread-safe."""
        self._report(EngineFailed(cause=serialized(error)))

    def open_chain(self, command: OpenChain) -> ChainOpened:
        self.end.await_predecessor()
        self._files.distribute(self._scope.session)
        self.restore(self._variables.restore(command.restore))
        if isinstance(self.head, KeyedOperator) and self.head.has_to_read:
            self._run_in_background(f"reading the state of {self._chain.name!r}", self.head.read_restored)
        if not self._variables:
            self._lifecycle.open()
        return self.opened(command.recover, self._chain.name)

    def _run_in_background(self, what: str, work: Callable[[], None]) -> None:
        self._workers.run_in_background(
            what, work, lambda raised: self._report(EngineFailed(cause=self._failures.of_attempt(what, raised)))
        )

    def recover(self, read: ChannelStateRead) -> BatchRef | None:
        return self._in_flight.read(read)

    # Stages

    def read_splits(self, command: ReadSplits) -> StageResult:
        source = self.head
        assert isinstance(source, SourceOperator), "the operator is not a source, so it cannot read splits"
        read = BatchResult(staged=source.record_read(command.splits))
        lazy = source.lazy_rows(command.splits)
        if lazy is not None:
            result = self._flow.forward(self._chain.head, lazy, command.stage) + read
            return self.result(command.stage, result, rows_in=lazy.rows, event_time_max=lazy.event_time_max)
        rows = source.read(command.splits)
        output = source.output(rows, command.stage)
        result = self.emit(source, output, command.stage) + read
        numbers = rows.numbers() if self._chain.computes else rows.known
        source.count(numbers)
        if output.on_emitted is not None:
            output.on_emitted()
        return self.result(
            command.stage,
            result,
            rows_in=numbers.rows or 0,
            event_time_max=numbers.event_time_max,
            event_time_min=numbers.event_time_min,
            partition_times=numbers.partition_times,
        )

    def processed(self, command: ProcessBatch) -> StageResult:
        """Process batches. Batches of a broadcast variable come first and are added to the variable."""
        if not self._variables.is_gate(command.gate):
            self._lifecycle.open()
            return super().processed(command)
        batches = command.batches
        self._variables.add(command.gate, together(self.claim(batches)))
        return self.result(command.stage, BatchResult(), rows_in=sum(batch.rows for batch in batches))

    def advance_watermark(self, command: AdvanceWatermark) -> StageResult:
        """Emit the results that the watermark completes.

        Functions that read broadcast variables are opened by the first command after the variables are complete.
        """
        self._lifecycle.open()
        return super().advance_watermark(command)

    def advance_processing_time(self, command: AdvanceProcessingTime) -> StageResult:
        self._lifecycle.open()
        return super().advance_processing_time(command)

    def snapshot_state(self, command: SnapshotState) -> StageResult:
        if self.has_state:
            self._lifecycle.open()
        return super().snapshot_state(command)

    def write_snapshot(self, command: WriteSnapshot) -> SnapshotWritten:
        snapshot = super().write_snapshot(command)
        return replace(snapshot, operators=self._variables.added_to(snapshot.operators))

    def result(self, stage: int, result: BatchResult, **fields: Any) -> StageResult:
        return replace(super().result(stage, result, **fields), accumulators=self._lifecycle.accumulators())

    def emit(
        self, operator: Operator[Slices], output: Output[Slices], stage: int, read: Slices | None = None
    ) -> BatchResult:
        return self._flow.emit(self._links[operator.operator_id], output, stage, read or ())

    def claim(self, batches: Sequence[BatchRef]) -> Slices:
        claimed = list(slices_of(self._store.claim(each.batch_id, self.descriptor.attempt) for each in batches))
        for source, slices in claimed:
            if source not in (None, IN_DRIVER):
                self._origins.record(source, Derivation(before=(), after=slices))
        rows = tuple(each for _, slices in claimed for each in slices)
        if len(rows) != 1:
            # Each batch has its own small partitions: a Spark task for each would take longer than processing its rows.
            rows = (joined(claimed, self._scope.session.sparkContext.defaultParallelism),)
        elif claimed[0][0] in (None, IN_DRIVER):
            rows = (self._columns.of(rows[0]),)
        # Operators that store their batches unchanged may read many of them together later.
        stores_batches = not self.descriptor.vertex.operators[0].kind.coalesces
        are_few = sum(each.rows for each in batches) <= INTERPRETED_ROWS
        return (
            tuple(with_columns_of(interpreted(each), each) for each in rows) if are_few and not stores_batches else rows
        )

    # Snapshots

    def check(self) -> None:
        self._scope.check()

    def delete_from_savepoint(self, savepoint: str) -> None:
        """Delete all files of the subtask in a savepoint, and the folder if it is then empty.

        The coordinator that aborted the savepoint has deleted the folder, but possibly before the subtask wrote to it.
        """
        filesystem = self._filesystem
        for part in filesystem.list(savepoint):
            if part.name.startswith(f"{self.descriptor.attempt}-"):
                filesystem.delete(part.path)
        filesystem.delete_if_empty(savepoint)

    # Batches

    def hold_batches(self, command: HoldBatches) -> None:
        self._store.hold(command.batch_ids, command.holder)

    def write_channel_state(self, command: WriteChannelState) -> ChannelStateWritten:
        folders = self._in_flight.write(command.parts)
        return ChannelStateWritten(checkpoint_id=command.checkpoint_id, folders=folders)

    def release_batches(self, command: ReleaseBatches) -> None:
        if command.batch_ids is None:
            self._store.release_held_by(command.holder)
        else:
            self._store.release(command.batch_ids, command.holder)

    # Failures, progress and the end

    def failed(self, command: Command, what: str, raised: BaseException) -> WorkFailed:
        """Describe the failure. If the session was stopped, this starts a new session, which may take a second."""
        if self._scope.is_cancelled:
            # No component waits for this failure, and the resources that would explain it may be gone.
            cause = SerializedThrowable(type_name=type(raised).__name__, message=what)
            return WorkFailed(command=command, cause=cause)
        if command.survivable and isinstance(raised, Exception):
            declined = self._failures.of_snapshot(what, raised)
            if declined is not None:
                return WorkFailed(command=command, cause=declined, ends_attempt=False)
        return WorkFailed(command=command, cause=self._failures.of_attempt(what, raised))

    def progress(self, at_least_ms: int = 0) -> tuple[WorkProgress, ...]:
        """May block on a call to Spark."""
        return read_progress(self._scope, self._workers.running(), at_least_ms)

    def last_work(self) -> AttemptWork:
        """Return the recent work by stage. Blocks on a call to Spark."""
        return read_work(self._scope, self._workers)

    def cancel_work(self) -> None:
        self.end.stop(cancel=True)

    def interrupt_work(self) -> None:
        self._workers.interrupt()

    def close_chain(self, command: CloseChain) -> ChainClosed:
        """Block until the threads have ended or the cancellation timeout has passed."""
        return self.end.wait_closed(cancel=command.cancel)

    def close(self) -> None:
        """Cancel the attempt because its bridge has ended. Does nothing if the attempt has ended."""
        self.end.end_in_background(cancel=True)


class Flow:
    """Moves rows through the operator chain of one attempt. Two stages may use it at once.

    Rows stay a lazy plan until an output, a sink or two readers need them. So a chain costs one Spark job per batch, or
    two if rows are both sent and processed further. If there are only a few readers of columnar files, each reads the
    files.
    """

    def __init__(
        self,
        chain: BoundChain,
        storage: AttemptStorage,
        registry: CodeRegistry,
        operators: Mapping[OperatorId, Operator[Slices]],
        origins: Origins,
    ) -> None:
        self._chain = chain
        self._descriptor = descriptor = storage.descriptor
        self._scope = storage.scope
        self._store = storage.store
        self._registry = registry
        self._operators = operators
        self._origins = origins
        self._holder = f"{descriptor.attempt} stage"
        self._lock = Lock()
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def emit(self, link: Link, output: Output[Slices], stage: int, before: Slices = ()) -> BatchResult:
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

    def forward(self, link: Link, rows: LazyRows, stage: int) -> BatchResult:
        """Send unread rows to the next stage, which reads them and is the only reader of the operator of `link`."""
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
            self._origins.record(link.uid, Derivation(before=before, after=rows))
        whole = tuple(output for output in link.outputs if not is_split(output))
        split = tuple(output for output in link.outputs if is_split(output))
        readers = link.readers_of(None)
        if not whole and len(readers) + len(split) <= (_READ_AGAIN if output.read_again else 1):
            return self._forward(link, rows, split, stage)
        frame, times = together(rows), self._times(link, rows[0])
        few = None if self._are_stored(link, link.outputs) else few_rows(self._scope, frame, times)
        materialised = few or materialise(self._scope, frame, times)
        own = self._ref(materialised, BatchId(f"{self._descriptor.attempt}/{stage}/{link.uid}.own"), materialised.rows)
        outputs, batches = self._whole(whole, materialised, stage)
        retained = Batch(ref=own, rows=materialised.content, holder=self._holder)
        self._put(materialised.blocks, [retained, *batches])
        try:
            sent = BatchResult(outputs=outputs, rows=materialised.rows * len(whole))
            return sent + self._forward(link, (materialised.frame,), split, stage)
        finally:
            self._store.release((own.batch_id,), self._holder)

    def _forward(
        self, link: Link, rows: Slices, split: tuple[ResultPartitionDescriptor, ...], stage: int
    ) -> BatchResult:
        result = BatchResult()
        for output in split:
            result += self._send_split(link, output, together(rows), stage)
        for reader in link.readers_of(None):
            result += self._read(reader, rows, stage)
        return result

    def _read(self, reader: Link, rows: Slices, stage: int) -> BatchResult:
        output = self._operators[reader.operator_id].process_batch(Element(rows=rows, stage=stage))
        result = self.emit(reader, output, stage, rows)
        if output.on_emitted is not None:
            output.on_emitted()
        return result

    def _are_stored(self, link: Link, outputs: Sequence[ResultPartitionDescriptor]) -> bool:
        """Return True if rows are stored for longer than the next stage, so they must not fill the driver's memory."""
        is_result = any(each.partition_type is ResultPartitionType.BLOCKING for each in outputs)
        return is_result or link.code.is_stored_by_reader

    def _times(self, link: Link, rows: DataFrame) -> Mapping[str, Column]:
        return link.code.batch_times(rows, self._chain.event_time)

    def _whole(
        self, outputs: tuple[ResultPartitionDescriptor, ...], materialised: Materialised, stage: int
    ) -> tuple[tuple[StageOutput, ...], list[Batch]]:
        sent: list[StageOutput] = []
        batches: list[Batch] = []
        for output in outputs if materialised.rows else ():
            for subpartition in self._receivers(output):
                batch_id = self._routes.batch_id(stage, output, subpartition)
                ref = self._ref(materialised, batch_id, materialised.rows, subpartition)
                batches.append(_batch(ref, materialised.content, output))
                sent.append(StageOutput(output=output.output, batch=ref))
        return tuple(sent), batches

    def _receivers(self, output: ResultPartitionDescriptor) -> range:
        with self._lock:
            return self._routes.receivers(output)

    def _send_split(self, link: Link, output: ResultPartitionDescriptor, rows: DataFrame, stage: int) -> BatchResult:
        assert output.key_by is not None, (
            f"output {output.output} of {link.uid!r} is split by key group, but has no keys"
        )
        keyed = self._registry.keys(output.key_by)
        if not keyed.of_state:
            self._origins.record(output.key_by.uid, Derivation(before=(rows,), after=(rows,), columns=keyed.columns))
        groups = KeyGroups(keys=keyed.columns, max_parallelism=output.max_parallelism)
        sliced = materialise_slices(
            self._scope,
            rows,
            groups,
            output.subpartitions,
            self._times(link, rows),
            keeps_order=keyed.keeps_order,
            are_stored=self._are_stored(link, [output]),
        )
        batches = [
            _batch(
                self._ref(sliced.materialised, self._routes.batch_id(stage, output, index), count, index),
                frame,
                output,
            )
            for index, (frame, count) in enumerate(zip(sliced.slices, sliced.rows, strict=True))
            if count
        ]
        self._put(sliced.materialised.blocks, batches)
        outputs = tuple(StageOutput(output=output.output, batch=batch.ref) for batch in batches)
        return BatchResult(outputs=outputs, rows=sliced.materialised.rows)

    def _put(self, storage: Storage, batches: list[Batch]) -> None:
        self._store.put(storage, batches, producer=self._descriptor.attempt)

    def _ref(self, materialised: Materialised, batch_id: BatchId, rows: int, subpartition: int = 0) -> BatchRef:
        first, last = materialised.numbers.get("first_micros"), materialised.numbers.get("last_micros")
        return BatchRef(
            batch_id=batch_id,
            rows=rows,
            size_bytes=estimated_bytes(materialised.frame.schema, rows),
            event_time_min=None if first is None else in_ms(first),
            event_time_max=None if last is None else in_ms(last),
            subpartition=subpartition,
        )


def _batch(ref: BatchRef, rows: StoredRows, output: ResultPartitionDescriptor) -> Batch:
    return Batch(ref=ref, rows=rows, address=address(output, ref.subpartition), holder=first_holder(output))
