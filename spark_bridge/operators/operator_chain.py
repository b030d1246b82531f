"""The operators of one attempt as a chain: as much of an engine as knows operators, whatever moves their rows.

It calls the operators in the order that their port promises, and collects what they answer (Flink's OperatorChain).
When what is done is decided by the machine of the attempt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import (
    ChainOpened,
    CommitPrepared,
    InFlightRead,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    StagedOutput,
)
from flykka.messages.tasks.operator_event import SentByFunction
from flykka.messages.tasks.stage import HandleOperatorEvents, RunStage, StageOutput
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.operators.operator import Element, Operator, Output, Rows

STAGES_IN_FLIGHT = 2
"""Of operators that need no order: the planning of one stage hides behind the work of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Results of moving rows: batches sent, files staged by each sink, and the number of rows that left the chain.

    Functions have `sent` something to their side of the JobMaster.
    """

    outputs: tuple[StageOutput, ...] = ()
    staged: tuple[StagedOutput, ...] = ()
    rows: int = 0
    sent: tuple[SentByFunction, ...] = ()

    def __add__(self, other: Moved) -> Moved:
        return Moved(
            outputs=self.outputs + other.outputs,
            staged=self.staged + other.staged,
            rows=self.rows + other.rows,
            sent=self.sent + other.sent,
        )


Emitted = Sequence[tuple[Operator[Rows], Output[Rows]]]
"""Outputs that operators emit at once."""


class OperatorChain(ABC, Generic[Rows]):
    """The base of an engine: the part of the `Engine` port that calls operators."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, operators: Mapping[OperatorId, Operator[Rows]]) -> None:
        """`operators` are in the order of the chain, its head first."""
        self.descriptor = descriptor
        self.operators = operators
        self._stateful = tuple(each for each in operators.values() if each.keeps_state)
        self._committing = tuple(each for each in operators.values() if each.commits)
        self._deferred: dict[int, tuple[int, Emitted[Rows]]] = {}

    @property
    def head(self) -> Operator[Rows]:
        """The operator that reads the input gates, or the splits of a source."""
        return next(iter(self.operators.values()))

    @abstractmethod
    def emit(self, operator: Operator[Rows], output: Output[Rows], stage: int, read: Rows | None = None) -> Moved:
        """Take what an operator emits to everything that reads it; it has made that of the rows `read`."""

    @abstractmethod
    def claim(self, batch_ids: Sequence[BatchId]) -> Rows:
        """The rows of batches, held by the attempt from now on."""

    @abstractmethod
    def recover(self, read: InFlightRead) -> BatchRef | None:
        """The batch of rows that were in flight; None where none of them is for this subtask."""

    @abstractmethod
    def delete_from_savepoint(self, savepoint: str) -> None:
        """Delete all that the attempt has put into a savepoint that it could not write."""

    def restore(self, restore: TaskStateSnapshot | None) -> None:
        """Let every operator begin with what a checkpoint holds of it."""
        states: dict[OperatorId, list[OperatorSubtaskState]] = {}
        for state in restore.operators if restore is not None else ():
            states.setdefault(state.operator_id, []).append(state)
        for operator in self.operators.values():
            operator.restore(states.get(operator.operator_id, ()))

    def opened(self, name: str, recover: tuple[InFlightRead, ...]) -> ChainOpened:
        """Make the answer for a chain whose operators are all open."""
        is_ordered = any(operator.is_ordered for operator in self.operators.values())
        return ChainOpened(
            name=name,
            stages_in_flight=1 if is_ordered else STAGES_IN_FLIGHT,
            has_state=bool(self._stateful),
            has_sinks=bool(self._committing),
            recovered=tuple(self.recover(read) for read in recover),
        )

    # Stages

    def process(self, command: RunStage) -> RowsMoved:
        """Take batches through the chain; what operators keep of them waits for `update_state`."""
        batches = command.batches
        self.head.note_aggregates(command.aggregates)
        element = Element(
            rows=self.claim([batch.batch_id for batch in batches]),
            stage=command.stage,
            gate=command.gate,
            batch=command.batch,
            watermark_ms=command.watermark_ms,
            processing_time_ms=command.processing_time_ms,
        )
        output = self.head.process(element)
        moved = self._emitted([(self.head, output)], command.stage, element.rows)
        latest = max((batch.event_time_max for batch in batches if batch.event_time_max is not None), default=None)
        earliest_ms, latest_ms = (None, latest) if output.event_times is None else output.event_times()
        return self.moved(
            moved,
            rows_in=sum(batch.rows for batch in batches),
            event_time_max=latest_ms,
            event_time_min=earliest_ms,
            late_rows=0 if output.late_rows is None else output.late_rows(),
            updates_state=output.updates_state,
        )

    def update_state(self, stage: int) -> None:
        """Add what a stage has made of its batch to the state."""
        for operator in self._stateful:
            operator.update_state(stage)

    def advance_watermark(self, stage: int, watermark_ms: int, processing_time_ms: int) -> RowsMoved:
        """Emit what the watermark completes."""
        return self.moved(self._emitted(self._completed(watermark_ms, processing_time_ms), stage))

    def advance_processing_time(self, stage: int, processing_time_ms: int, watermark_ms: int) -> RowsMoved:
        """Emit what processing time completes, at the head: no other operator goes by it."""
        output = self.head.advance_processing_time(processing_time_ms, watermark_ms)
        return self.moved(self._emitted([(self.head, output)], stage))

    def handle_operator_events(self, command: HandleOperatorEvents) -> RowsMoved:
        """Let the head handle events of its coordinator, and emit what it makes of them."""
        head = self.head
        assert head.operator_id == command.operator_id, f"{command.operator_id} is not at the head of its chain"
        head.note_aggregates(command.aggregates)
        output = head.handle_operator_events(command.events, command.watermark_ms, command.processing_time_ms)
        return self.moved(self._emitted([(head, output)], command.stage))

    def moved(self, moved: Moved, **seen: Any) -> RowsMoved:
        """Make the answer for rows that were moved; `seen` are the other fields of the answer."""
        return RowsMoved(
            outputs=moved.outputs,
            staged=moved.staged,
            rows_out=moved.rows,
            next_timer_ms=self.head.next_timer_ms,
            sent=moved.sent,
            **seen,
        )

    def _completed(self, watermark_ms: int, processing_time_ms: int) -> Emitted[Rows]:
        return [(self.head, self.head.advance_watermark(watermark_ms, processing_time_ms))]

    def _emitted(self, outputs: Emitted[Rows], stage: int, read: Rows | None = None) -> Moved:
        moved = Moved()
        for operator, output in outputs:
            moved += self.emit(operator, output, stage, read)
            if output.on_emitted is not None:
                output.on_emitted()
            sent = None if output.sent is None else output.sent()
            if sent is not None:
                moved += Moved(sent=(sent,))
        return moved

    # Snapshots

    def note_state(self, stage: int, checkpoint_id: int, watermark_ms: int | None, everything: bool) -> None:
        """Note the state; what fires with the checkpoint has left it, and is emitted in the background."""
        # Operators that go by processing time do not fire with a checkpoint.
        outputs = () if watermark_ms is None else self._completed(watermark_ms, 0)
        for operator in self._stateful:
            operator.snapshot(checkpoint_id, everything=everything)
        self._deferred[checkpoint_id] = stage, outputs

    def prepare_commit(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> CommitPrepared:
        """Emit what fires with the checkpoint; if that fails the attempt does: it has left the state."""
        stage, outputs = self._deferred.pop(checkpoint_id, (0, ()))
        moved = self._emitted(outputs, stage)
        sinks = tuple(self._prepared(checkpoint_id, staged + moved.staged))
        rows_staged = sum(each.rows for each in moved.staged)
        return CommitPrepared(sinks=sinks, rows_out=moved.rows, rows_staged=rows_staged)

    def _prepared(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> Iterator[OperatorSubtaskState]:
        for operator in self._committing:
            names = tuple(name for each in staged if each.operator_id == operator.operator_id for name in each.names)
            prepared = operator.prepare_commit(checkpoint_id, names)
            if prepared is not None:
                yield prepared

    def write_snapshot(
        self, checkpoint_id: int, savepoint: str | None, sinks: tuple[OperatorSubtaskState, ...]
    ) -> SnapshotWritten:
        """Make a snapshot durable; for a savepoint with copies of what is still to be committed."""
        try:
            written = [operator.write_snapshot(checkpoint_id, savepoint) for operator in self._stateful]
            if savepoint is not None:
                sinks = tuple(self.operators[sink.operator_id].copied(sink, savepoint) for sink in sinks)
                # Nobody would hear of what an attempt has put there that is over.
                self.check()
        except BaseException:
            if savepoint is not None:
                self.delete_from_savepoint(savepoint)
            raise
        states = (*(each.state for each in written), *sinks)
        return SnapshotWritten(operators=states, incremental_bytes=sum(each.incremental_bytes for each in written))

    def check(self) -> None:
        """Raise where the attempt is over."""

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """Let go of what was noted."""
        for operator in self._stateful:
            operator.discard_snapshot(checkpoint_id)

    def commit(self, checkpoint_id: int) -> OutputCommitted:
        """A checkpoint is complete: operators commit; the published files."""
        return OutputCommitted(
            files=tuple(
                file for operator in self.operators.values() for file in operator.notify_complete(checkpoint_id)
            )
        )
