"""The part of a JobMaster that deals with sources (Flink's OperatorCoordinatorHandler).

It looks at the sources through the data plane, lets the SourceCoordinator decide who reads what, and talks to the
readers through the TaskManagers of their attempts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane, SplitDiscovery
from flykka.actors.errors import RestoreError
from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.sources.source_coordinator import SourceCoordinator
from flykka.actors.machines.sources.source_events import (
    AttemptEnded,
    CheckpointAbandoned,
    CheckpointCommitted,
    LookDue,
    LookEnded,
    LookFailed,
    LookForSplits,
    LookLater,
    ReaderAsked,
    SendNoMoreSplits,
    SendSplits,
    SnapshotWanted,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
    TaskReset,
    TaskSettled,
    TellMissing,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.control.job_control import SplitDiscoveryDue, SplitDiscoveryFailed
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.source import AddSplits, NoMoreSplits, RequestSplits, SplitsDiscovered
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, LeaderSessionId, OperatorId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.durations import format_ms
from flykka.runtime.errors import serialized
from flykka.runtime.leader_session import Gateway

_log = logging.getLogger(__name__)

SourceMessage = (
    RequestSplits
    | SplitsDiscovered
    | SplitDiscoveryDue
    | SplitDiscoveryFailed
    | SnapshotOperatorCoordinators
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointAborted
    | CheckpointCompleted
)
"""Messages that a JobMaster forwards to this part of it, some of them to other parts too."""

_READING = (ExecutionState.DEPLOYING, ExecutionState.RUNNING)
_ENDING = (ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED, ExecutionState.FINISHED)


class OperatorCoordinatorHandler:
    """The sources of one job; used in the turns of its JobMaster only."""

    def __init__(
        self,
        context: ActorContext,
        graph: ExecutionGraph,
        session: LeaderSessionId,
        data_plane: DataPlane,
        checkpoint_coordinator: Ref,
    ) -> None:
        self._context = context
        self._graph = graph
        self._session = session
        self._checkpoint_coordinator = checkpoint_coordinator
        self._coordinator = SourceCoordinator(graph.job_graph)
        self._version: int | None = None
        sources = [
            (vertex.vertex_id, operator)
            for vertex in graph.job_graph.vertices
            for operator in vertex.operators
            if operator.kind is OperatorKind.SOURCE
        ]
        self._vertices = {vertex_id for vertex_id, _ in sources}
        self._lookouts = {
            operator.operator_id: _Lookout(partial(data_plane.split_discovery, graph.job_graph.job_id, operator))
            for _, operator in sources
        }
        self._names = {operator.operator_id: operator.name for _, operator in sources}
        self._intervals: dict[OperatorId, int | None] = {}
        self._discovering: dict[OperatorId, bytes] = {}
        """The position from which the splits of a source are being looked for."""

    def reset(self, version: int, states: Iterable[OperatorCoordinatorState]) -> None:
        """Restart from the states of a checkpoint, or without any from the beginning; once per version of the job.

        Raises:
            RestoreError: the state of a source is not one that this version can read.
        """
        if version == self._version:
            # The readers of this version may have got splits already.
            return
        self._version = version
        try:
            self._decide(SourcesReset(states=tuple(states)))
        except DecodeError as unreadable:
            raise RestoreError(f"the checkpoint's state of a source cannot be read: {unreadable}") from unreadable

    def reset_tasks(self, tasks: Iterable[Subtask], checkpoint_id: int | None) -> None:
        """These subtasks restart from a checkpoint, or from the beginning: take back the splits they got beyond it."""
        for vertex_id, subtask in tasks:
            # Most subtasks of a job read from others: those without a source are not worth an event.
            if vertex_id in self._vertices:
                self._decide(TaskReset(vertex_id=vertex_id, subtask=subtask, checkpoint_id=checkpoint_id))

    def take(self, message: SourceMessage) -> None:
        """Handle one message about splits, or about the checkpoint that they are held back for."""
        match message:
            case RequestSplits(attempt=attempt, operator_id=operator_id, count=count):
                self._on_request(attempt, operator_id, count)
            case SplitsDiscovered(operator_id=operator_id, interval_ms=interval_ms):
                if self._discovering.get(operator_id) == message.begun_at:
                    del self._discovering[operator_id]
                self._intervals[operator_id] = interval_ms
                self._decide(_look_ended(message))
            case SplitDiscoveryDue(operator_id=operator_id):
                self._decide(LookDue(operator_id=operator_id))
            case SplitDiscoveryFailed(operator_id=operator_id):
                self._discovering.pop(operator_id, None)
                self._decide(LookFailed(operator_id=operator_id))
            case SnapshotOperatorCoordinators(checkpoint_id=checkpoint_id):
                self._decide(SnapshotWanted(checkpoint_id=checkpoint_id))
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                self._on_settled(message.attempt, message.checkpoint_id)
            case CheckpointAborted(checkpoint_id=checkpoint_id):
                self._decide(CheckpointAbandoned(checkpoint_id=checkpoint_id))
            case CheckpointCompleted(checkpoint_id=checkpoint_id, is_retained=True):
                self._decide(CheckpointCommitted(checkpoint_id=checkpoint_id))
            case CheckpointCompleted():
                # Nobody starts from it: what goes back to the reader is still counted from the checkpoint before.
                pass
            case _:
                assert_never(message)

    def files_unassigned(self, vertex_id: JobVertexId) -> int:
        """The number of files of a vertex's source that wait for a reader."""
        return self._coordinator.files_unassigned(vertex_id)

    def attempt_moved(self, attempt: ExecutionAttemptId, state: ExecutionState) -> None:
        """An attempt of the job has a new state; readers whose attempts end get nothing more."""
        execution = self._graph.execution(attempt)
        if state in _ENDING and execution is not None:
            self._decide(
                AttemptEnded(vertex_id=execution.vertex_id, subtask=execution.subtask, attempt_number=execution.number)
            )

    def _on_request(self, attempt: ExecutionAttemptId, operator_id: OperatorId, count: int) -> None:
        execution = self._graph.execution(attempt)
        if execution is not None:
            self._decide(
                ReaderAsked(
                    operator_id=operator_id,
                    vertex_id=execution.vertex_id,
                    subtask=execution.subtask,
                    attempt_number=execution.number,
                    count=count,
                )
            )

    def _on_settled(self, attempt: ExecutionAttemptId, checkpoint_id: int) -> None:
        execution = self._graph.execution(attempt)
        # Every subtask of the job settles: those without a source are not worth an event.
        if execution is not None and execution.vertex_id in self._vertices:
            self._decide(
                TaskSettled(vertex_id=execution.vertex_id, subtask=execution.subtask, checkpoint_id=checkpoint_id)
            )

    def _decide(self, event: SourceEvent) -> None:
        for effect in self._coordinator.handle(event, self._context.now()):
            self._perform(effect)

    def _perform(self, effect: SourceEffect) -> None:
        match effect:
            case LookForSplits():
                self._look(effect)
            case LookLater(operator_id=operator_id):
                interval_ms = self._intervals[operator_id]
                if interval_ms is not None:
                    due = SplitDiscoveryDue(operator_id=operator_id)
                    self._context.timers.start_once(f"split-discovery/{operator_id}", interval_ms, due)
            case SendSplits(operator_id=operator_id, splits=splits, numbers=numbers):
                reader = self._reader(effect)
                self._tell(
                    reader,
                    AddSplits(attempt=reader.attempt, operator_id=operator_id, splits=splits, numbers=numbers),
                )
            case SendNoMoreSplits(operator_id=operator_id):
                reader = self._reader(effect)
                self._tell(reader, NoMoreSplits(attempt=reader.attempt, operator_id=operator_id))
            case TellMissing(operator_id=operator_id, path=path):
                name, interval_ms = self._names[operator_id], self._intervals[operator_id]
                how_often = "" if interval_ms is None else f"; looking again every {format_ms(interval_ms)}"
                _log.warning("source '%s' waits: there is no folder or file %s yet%s", name, path, how_often)
            case SourcesSnapshotted(checkpoint_id=checkpoint_id, states=states):
                self._checkpoint_coordinator.tell(
                    OperatorCoordinatorsSnapshotted(
                        job_id=self._graph.job_graph.job_id, checkpoint_id=checkpoint_id, states=states
                    )
                )
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def unanswered(self) -> dict[OperatorId, Callable[[], SplitsDiscovered]]:
        """The discoveries under way, by source: for a fork, where nothing is left of their threads."""
        return {
            operator_id: partial(self._lookouts[operator_id].look, position)
            for operator_id, position in self._discovering.items()
        }

    def _look(self, effect: LookForSplits) -> None:
        operator_id = effect.operator_id
        self._discovering[operator_id] = effect.position
        self._context.pipe_to_self(
            partial(self._lookouts[operator_id].look, effect.position),
            lambda found: found,
            lambda error: SplitDiscoveryFailed(operator_id=operator_id, cause=serialized(error)),
        )

    def _reader(self, effect: SendSplits | SendNoMoreSplits) -> Execution:
        return self._graph.subtask(effect.vertex_id, effect.subtask).execution

    def _tell(self, reader: Execution, message: Message) -> None:
        # What goes to a reader that is ending is handed out again when the next one begins.
        if reader.state in _READING and reader.slot is not None:
            Gateway(reader.slot.task_manager, self._session).tell(message)


class _Lookout:
    """Looks at one source, on the I/O pool and never in an actor's turn; one look at a time."""

    outside_state = True

    def __init__(self, begin: Callable[[], SplitDiscovery]) -> None:
        self._begin = begin

    @cached_property
    def _discovery(self) -> SplitDiscovery:
        return self._begin()

    def look(self, position: bytes) -> SplitsDiscovered:
        """Discover the splits behind `position`, and when to look again. May block, and raise the source's errors."""
        found = self._discovery.discover(position)
        return replace(found, interval_ms=self._discovery.interval_ms)


def _look_ended(found: SplitsDiscovered) -> LookEnded:
    return LookEnded(
        operator_id=found.operator_id,
        splits=found.splits,
        finished=found.finished,
        begun_at=found.begun_at,
        position=found.position,
        more=found.more,
        files_left=found.files_left,
        missing_path=found.missing_path,
    )
