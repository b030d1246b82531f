"""The operators of one attempt as a chain (Flink's OperatorChain), independent of the engine that moves rows.

It calls the operators in the order that their interface promises, and collects their results. The state machine of the
attempt decides when.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from flykka.messages.attempt.answers import (
    ChainOpened,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
)
from flykka.messages.attempt.commands import (
    AdvanceProcessingTime,
    AdvanceWatermark,
    ChannelStateRead,
    Command,
    CommitCheckpoint,
    DiscardSnapshot,
    HandleOperatorEvents,
    Lane,
    PrepareCommit,
    ProcessBatch,
    ReleaseBatches,
    SnapshotState,
    StagedOutput,
    StageOutput,
    UpdateState,
    WriteSnapshot,
)
from flykka.messages.checkpointing.checkpoint import SnapshotType
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.operator_event import SentByFunction
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.operators.operator import Element, Operator, Output, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """Results of operators: sent batches, the files staged by each sink, and the number of rows that left the chain.

    `sent` contains the events and updates that functions have sent to coordinators.
    """

    outputs: tuple[StageOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()
    rows: int = 0
    sent: tuple[SentByFunction, ...] = ()

    def __add__(self, other: BatchResult) -> BatchResult:
        return BatchResult(
            outputs=self.outputs + other.outputs,
            staged=self.staged + other.staged,
            rows=self.rows + other.rows,
            sent=self.sent + other.sent,
        )


Emitted = Sequence[tuple[Operator[Rows], Output[Rows]]]


class OperatorChain(ABC, Generic[Rows]):
    """The base class of an engine, which implements the part of the `Engine` interface that calls operators."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, operators: Mapping[OperatorId, Operator[Rows]]) -> None:
        """`operators` are in chain order, the head first."""
        self.descriptor = descriptor
        self.operators = operators
        self._stateful = tuple(each for each in operators.values() if each.keeps_state)
        self._committing = tuple(each for each in operators.values() if each.commits)
        self._deferred: dict[int, tuple[int, Emitted[Rows]]] = {}
        # The batches of stages that have not updated the state yet.
        self._reading: dict[int, tuple[BatchId, ...]] = {}

    @property
    def head(self) -> Operator[Rows]:
        return next(iter(self.operators.values()))

    @property
    def has_state(self) -> bool:
        return bool(self._stateful)

    @abstractmethod
    def emit(self, operator: Operator[Rows], output: Output[Rows], stage: int, read: Rows | None = None) -> BatchResult:
        """Pass an operator's output to all its readers. `read` are the rows from which the operator computed it."""

    @abstractmethod
    def claim(self, batches: Sequence[BatchRef]) -> Rows:
        """Return the rows of batches, which the attempt holds from now on."""

    @abstractmethod
    def release_batches(self, command: ReleaseBatches) -> None: ...

    @abstractmethod
    def recover(self, read: ChannelStateRead) -> BatchRef | None:
        """Restore in-flight rows of a checkpoint as a batch; None if no row belongs to this subtask."""

    @abstractmethod
    def delete_from_savepoint(self, savepoint: str) -> None:
        """Delete all files that the attempt has written for a failed savepoint."""

    def lane_of(self, command: Command) -> Lane:
        """Return the lane of the command. A barrier that records no state does not wait for a thread."""
        return Lane.AT_ONCE if isinstance(command, SnapshotState) and not self.has_state else command.lane

    def restore(self, restore: TaskStateSnapshot | None) -> None:
        states: dict[OperatorId, list[OperatorSubtaskState]] = {}
        for state in restore.operators if restore is not None else ():
            states.setdefault(state.operator_id, []).append(state)
        for operator in self.operators.values():
            operator.restore(states.get(operator.operator_id, ()))

    def opened(self, recover: tuple[ChannelStateRead, ...], name: str = "") -> ChainOpened:
        return ChainOpened(
            is_ordered=any(operator.is_ordered for operator in self.operators.values()),
            has_state=self.has_state,
            has_sinks=bool(self._committing),
            recovered=tuple(self.recover(read) for read in recover),
            name=name,
        )

    # Stages

    def process_batch(self, command: ProcessBatch) -> StageResult:
        """Process the input batches of the command, and release them unless the state must be updated first."""
        result = self.processed(command)
        self._reading[command.stage] = tuple(batch.batch_id for batch in command.batches)
        if not result.updates_state:
            self._release(command.stage)
        return result

    def processed(self, command: ProcessBatch) -> StageResult:
        """Pass batches through the chain. State changes of operators wait for `update_state`."""
        batches = command.batches
        self.head.record_aggregates(command.aggregates)
        element = Element(
            rows=self.claim(batches),
            stage=command.stage,
            gate=command.gate,
            batch=command.batch,
            watermark_ms=command.watermark_ms,
            processing_time_ms=command.processing_time_ms,
        )
        output = self.head.process_batch(element)
        result = self._emitted([(self.head, output)], command.stage, element.rows)
        latest = max((batch.event_time_max for batch in batches if batch.event_time_max is not None), default=None)
        earliest_ms, latest_ms = (None, latest) if output.event_times is None else output.event_times()
        return self.result(
            command.stage,
            result,
            rows_in=sum(batch.rows for batch in batches),
            event_time_max=latest_ms,
            event_time_min=earliest_ms,
            late_rows=0 if output.late_rows is None else output.late_rows(),
            updates_state=output.updates_state,
        )

    def update_state(self, command: UpdateState) -> None:
        for operator in self._stateful:
            operator.update_state(command.stage)
        self._release(command.stage)

    def advance_watermark(self, command: AdvanceWatermark) -> StageResult:
        completed = self._completed(command.watermark_ms, command.processing_time_ms)
        return self.result(command.stage, self._emitted(completed, command.stage))

    def advance_processing_time(self, command: AdvanceProcessingTime) -> StageResult:
        """Emit results that processing time completes, at the head only: no other operator uses processing time."""
        output = self.head.advance_processing_time(command.processing_time_ms, command.watermark_ms)
        return self.result(command.stage, self._emitted([(self.head, output)], command.stage))

    def handle_operator_events(self, command: HandleOperatorEvents) -> StageResult:
        head = self.head
        assert head.operator_id == command.operator_id, f"{command.operator_id} is not at the head of its chain"
        head.record_aggregates(command.aggregates)
        output = head.handle_operator_events(command.events, command.watermark_ms, command.processing_time_ms)
        return self.result(command.stage, self._emitted([(head, output)], command.stage))

    def result(self, stage: int, result: BatchResult, **fields: Any) -> StageResult:
        return StageResult(
            stage=stage,
            outputs=result.outputs,
            staged=result.staged,
            rows_out=result.rows,
            next_timer_ms=self.head.next_timer_ms,
            sent=result.sent,
            **fields,
        )

    def _completed(self, watermark_ms: int, processing_time_ms: int) -> Emitted[Rows]:
        return [(self.head, self.head.advance_watermark(watermark_ms, processing_time_ms))]

    def _emitted(self, outputs: Emitted[Rows], stage: int, read: Rows | None = None) -> BatchResult:
        result = BatchResult()
        for operator, output in outputs:
            result += self.emit(operator, output, stage, read)
            if output.on_emitted is not None:
                output.on_emitted()
            sent = None if output.sent is None else output.sent()
            if sent is not None:
                result += BatchResult(sent=(sent,))
        return result

    def _release(self, stage: int) -> None:
        batch_ids = self._reading.pop(stage, None)
        if batch_ids is not None:
            self.release_batches(ReleaseBatches(holder=self.descriptor.attempt, batch_ids=batch_ids))

    # Snapshots

    def snapshot_state(self, command: SnapshotState) -> StageResult:
        """Record the state without results that fire with the checkpoint. Emit these if other tasks read them."""
        stage, pending = command.stage, self.head.before_snapshot(command.options)
        fired = BatchResult() if pending is None else self._emitted([(self.head, pending)], stage)
        # Timers of processing time do not fire with a checkpoint.
        outputs = () if command.watermark_ms is None else self._completed(command.watermark_ms, 0)
        if self.descriptor.outputs:
            fired, outputs = fired + self._emitted(outputs, stage), ()
        everything = command.options.snapshot_type is not SnapshotType.CHECKPOINT
        for operator in self._stateful:
            operator.snapshot_state(command.checkpoint_id, everything=everything)
        if outputs:
            self._deferred[command.checkpoint_id] = stage, outputs
        return self.result(stage, fired)

    def prepare_commit(self, command: PrepareCommit) -> CommitPrepared:
        """Emit results that fire with the checkpoint. A failure fails the attempt, as the state no longer has them."""
        stage, outputs = self._deferred.pop(command.checkpoint_id, (0, ()))
        result = self._emitted(outputs, stage)
        return CommitPrepared(
            checkpoint_id=command.checkpoint_id,
            sinks=tuple(self._prepared(command.checkpoint_id, command.staged + result.staged)),
            rows_out=result.rows,
            rows_staged=sum(each.rows for each in result.staged),
        )

    def _prepared(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> Iterator[OperatorSubtaskState]:
        for operator in self._committing:
            names = tuple(name for each in staged if each.operator_id == operator.operator_id for name in each.names)
            prepared = operator.prepare_commit(checkpoint_id, names)
            if prepared is not None:
                yield prepared

    def write_snapshot(self, command: WriteSnapshot) -> SnapshotWritten:
        """Make a snapshot durable; a savepoint includes copies of uncommitted files."""
        checkpoint_id, savepoint, sinks = command.checkpoint_id, command.savepoint, command.sinks
        try:
            snapshots = [operator.write_snapshot(checkpoint_id, savepoint) for operator in self._stateful]
            if savepoint is not None:
                sinks = tuple(self.operators[sink.operator_id].copied(sink, savepoint) for sink in sinks)
                # Files of a cancelled attempt would stay in the savepoint forever.
                self.check()
        except BaseException:
            if savepoint is not None:
                self.delete_from_savepoint(savepoint)
            raise
        return SnapshotWritten(
            checkpoint_id=checkpoint_id,
            operators=(*(each.state for each in snapshots), *sinks),
            incremental_bytes=sum(each.incremental_bytes for each in snapshots),
        )

    def check(self) -> None:
        """Raise if the attempt was cancelled."""

    def discard_snapshot(self, command: DiscardSnapshot) -> None:
        for operator in self._stateful:
            operator.discard_snapshot(command.checkpoint_id)

    def commit_checkpoint(self, command: CommitCheckpoint) -> CheckpointCommitted:
        checkpoint_id = command.checkpoint_id
        files = tuple(file for each in self.operators.values() for file in each.commit_checkpoint(checkpoint_id))
        return CheckpointCommitted(checkpoint_id=checkpoint_id, files=files)
