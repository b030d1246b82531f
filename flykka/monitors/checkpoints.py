"""Checks that a checkpoint completes when all its attempts have acknowledged it, and is retained from then on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CompletedCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    SnapshotOperatorCoordinators,
    SnapshotType,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointsRecovered,
    CoordinatedTasks,
    CoordinatedTaskStateChanged,
    MetadataRead,
    MetadataWritten,
    RequestRestoreState,
    RestoreState,
    StopCheckpointing,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation, unwrapped_messages
from flykka.runtime.trace.effects import Send, Undecoded
from flykka.runtime.trace.records import Turn

Subtask = tuple[JobVertexId, int]


@dataclass(slots=True)
class _WatchedCheckpoint:
    awaited: set[ExecutionAttemptId]
    takes_part: frozenset[ExecutionAttemptId]
    has_reached_tasks: bool = False
    is_restored_from: bool = True
    """True if the job restarts from this snapshot. False for a savepoint, which belongs to the user."""


@dataclass(slots=True)
class _WatchedCoordinator:
    """The known state of one coordinator. The tasks are unknown if the recording began while the job was running."""

    subtasks: dict[ExecutionAttemptId, Subtask] = field(default_factory=dict)
    running: dict[ExecutionAttemptId, None] = field(default_factory=dict)
    pending: dict[int, _WatchedCheckpoint] = field(default_factory=dict)
    first_id: int | None = None
    last_id: int = 0
    completed_id: int | None = None
    completed_in: int | None = None
    """The turn in which checkpoint `completed_id` completed. The tasks are notified in the same turn."""
    latest: int | None = None
    states: frozenset[Subtask] = frozenset()
    """The tasks whose state the latest checkpoint must contain."""


class CheckpointMonitor(ConversationMonitor):
    """Observes the messages from tasks to coordinators, and the reactions of the coordinators.

    All of these are in turns of the coordinator, so the order between actors does not matter.
    """

    name = "checkpoints"

    def __init__(self, *, is_whole: bool = True) -> None:
        """`is_whole` is True if the records begin with the start of the run."""
        super().__init__()
        self._is_whole = is_whole
        self._coordinators: dict[Ref, _WatchedCoordinator] = {}
        self._completed: dict[str, int] = {}
        """The newest checkpoint from which a job restarts, by the path of the job's successive coordinators."""

    def received(self) -> Mapping[type, OnReceived]:
        """Select the messages to a coordinator. The JobMaster is not a coordinator, but forwards acknowledgements."""
        return {
            CoordinatedTasks: self._on_tasks,
            CoordinatedTaskStateChanged: self._on_task_state,
            RequestRestoreState: self._on_asked,
            AcknowledgeCheckpoint: self._on_acknowledged,
            MetadataRead: self._on_adopted,
            CheckpointsRecovered: self._on_recovered,
            StopCheckpointing: self._on_stopped,
            Undecoded: self._on_unreadable,
        }

    def sent(self) -> Mapping[type, OnSent]:
        return {
            SnapshotOperatorCoordinators: self._on_begun,
            TriggerCheckpoint: self._on_triggered,
            NotifyCheckpointComplete: self._on_notified,
            CheckpointCompleted: self._on_completed,
            CheckpointAborted: self._on_aborted,
            RestoreState: self._on_restored,
        }

    def ended(self, ref: Ref) -> None:
        self._coordinators.pop(ref, None)

    def _on_tasks(self, turn: Turn, message: CoordinatedTasks) -> None:
        coordinator = self._coordinators.setdefault(turn.recipient, _WatchedCoordinator())
        coordinator.subtasks = {task.attempt: (task.vertex_id, task.subtask) for task in message.tasks}
        coordinator.running = {task.attempt: None for task in message.tasks if task.state is ExecutionState.RUNNING}

    def _on_task_state(self, turn: Turn, message: CoordinatedTaskStateChanged) -> None:
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is not None and message.attempt in coordinator.subtasks:
            if message.state is ExecutionState.RUNNING:
                coordinator.running[message.attempt] = None
            else:
                coordinator.running.pop(message.attempt, None)

    def _on_asked(self, turn: Turn, _message: RequestRestoreState) -> None:
        self._coordinators.setdefault(turn.recipient, _WatchedCoordinator())

    def _on_acknowledged(self, turn: Turn, message: AcknowledgeCheckpoint) -> None:
        coordinator = self._coordinators.get(turn.recipient)
        pending = None if coordinator is None else coordinator.pending.get(message.checkpoint_id)
        if pending is not None:
            pending.awaited.discard(message.attempt)

    def _on_adopted(self, turn: Turn, message: MetadataRead) -> None:
        coordinator = self._coordinators.setdefault(turn.recipient, _WatchedCoordinator())
        if coordinator.latest is None:
            coordinator.latest = message.checkpoint.checkpoint_id
            coordinator.states = _subtasks(message.checkpoint)
        coordinator.last_id = max(coordinator.last_id, message.checkpoint.checkpoint_id)

    def _on_recovered(self, turn: Turn, message: CheckpointsRecovered) -> Iterator[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _WatchedCoordinator())
        newest = message.completed[-1] if message.completed else message.adopted
        if newest is not None:
            coordinator.latest, coordinator.states = newest.checkpoint_id, _subtasks(newest)
            coordinator.last_id = max(coordinator.last_id, newest.checkpoint_id)
        latest_id = self._completed.get(turn.recipient.path)
        if latest_id is not None and (newest is None or newest.checkpoint_id < latest_id):
            recovered = "no checkpoint" if newest is None else f"checkpoint {newest.checkpoint_id}"
            yield self.violation(turn, f"{recovered} is recovered, although checkpoint {latest_id} was complete")

    def _on_stopped(self, turn: Turn, _message: StopCheckpointing) -> None:
        # The job has ended. Another job with its name has its own checkpoints.
        self._completed.pop(turn.recipient.path, None)

    def _on_unreadable(self, turn: Turn, _message: Undecoded) -> None:
        """Do not expect further acknowledgements, because the unreadable message may have been one."""
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is not None:
            for pending in coordinator.pending.values():
                pending.awaited.clear()

    def _on_begun(self, turn: Turn, _to: Ref, message: SnapshotOperatorCoordinators) -> Iterator[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _WatchedCoordinator())
        yield from self._begin(turn, coordinator, message.checkpoint_id)

    def _on_triggered(self, turn: Turn, _to: Ref, message: TriggerCheckpoint) -> Iterator[Violation]:
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is None:
            return  # A TaskManager forwards the message.
        if message.checkpoint_id not in coordinator.pending:
            yield from self._begin(turn, coordinator, message.checkpoint_id)
        options = message.options
        pending = coordinator.pending[message.checkpoint_id]
        pending.has_reached_tasks = True
        pending.is_restored_from = options.snapshot_type is not SnapshotType.SAVEPOINT or options.is_final

    def _begin(self, turn: Turn, coordinator: _WatchedCoordinator, checkpoint_id: int) -> Iterator[Violation]:
        if checkpoint_id <= coordinator.last_id:
            text = f"checkpoint {checkpoint_id} begins after checkpoint {coordinator.last_id}: ids must increase"
            yield self.violation(turn, text)
        if coordinator.first_id is None:
            coordinator.first_id = checkpoint_id
        coordinator.last_id = max(coordinator.last_id, checkpoint_id)
        coordinator.pending[checkpoint_id] = _WatchedCheckpoint(
            set(coordinator.running), frozenset(coordinator.running)
        )

    def _on_notified(self, turn: Turn, _to: Ref, message: NotifyCheckpointComplete) -> Iterator[Violation]:
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is None:
            return  # A TaskManager forwards the message.
        checkpoint_id = message.checkpoint_id
        if (checkpoint_id, turn.sequence) == (coordinator.completed_id, coordinator.completed_in):
            return
        if checkpoint_id in coordinator.pending and _has_written(turn, checkpoint_id):
            return  # Earlier versions notified the tasks before reporting the completion, in the same turn.
        if self._is_recorded(coordinator, checkpoint_id):
            text = f"{message.attempt} is notified that checkpoint {checkpoint_id} is complete, but it is not"
            yield self.violation(turn, text)

    def _on_completed(self, turn: Turn, _to: Ref, message: CheckpointCompleted) -> Iterator[Violation]:
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is None:
            return  # The JobMaster forwards the message to its listeners.
        checkpoint_id = message.checkpoint_id
        coordinator.completed_id, coordinator.completed_in = checkpoint_id, turn.sequence
        pending = coordinator.pending.pop(checkpoint_id, None)
        if pending is None:
            if self._is_recorded(coordinator, checkpoint_id):
                text = f"checkpoint {checkpoint_id} completes although it never began or has already ended"
                yield self.violation(turn, text)
            return
        if pending.awaited:
            yield self.violation(turn, f"checkpoint {checkpoint_id} completes {_without(pending)}")
        if not _has_written(turn, checkpoint_id):
            yield self.violation(turn, f"checkpoint {checkpoint_id} completes before its metadata is written")
        if pending.is_restored_from:
            coordinator.latest = checkpoint_id
            coordinator.states = frozenset(coordinator.subtasks.values())
            self._completed[turn.recipient.path] = checkpoint_id

    def _on_aborted(self, turn: Turn, _to: Ref, message: CheckpointAborted) -> Iterator[Violation]:
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is None:
            return  # The JobMaster forwards the message to its listeners.
        checkpoint_id = message.checkpoint_id
        pending = coordinator.pending.pop(checkpoint_id, None)
        if pending is not None:
            yield from self._not_notified(turn, coordinator, checkpoint_id, pending)
        elif checkpoint_id > coordinator.last_id:
            coordinator.last_id = checkpoint_id  # The checkpoint was aborted before any task was notified of it.
        elif self._is_recorded(coordinator, checkpoint_id):
            text = f"checkpoint {checkpoint_id} is aborted although it has already ended"
            yield self.violation(turn, text)

    def _not_notified(
        self, turn: Turn, coordinator: _WatchedCoordinator, checkpoint_id: int, pending: _WatchedCheckpoint
    ) -> Iterator[Violation]:
        """Report participants that were not notified of an abort, and so keep channels blocked and batches held."""
        if not pending.has_reached_tasks:
            return
        notified = {
            message.attempt
            for effect in turn.effects
            if isinstance(effect, Send)
            for message in unwrapped_messages(effect.message)
            if isinstance(message, NotifyCheckpointAborted) and message.checkpoint_id == checkpoint_id
        }
        for attempt in sorted((pending.takes_part & coordinator.running.keys()) - notified)[:1]:
            yield self.violation(turn, f"checkpoint {checkpoint_id} is aborted, but {attempt} is not notified")

    def _on_restored(self, turn: Turn, _to: Ref, message: RestoreState) -> Iterator[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _WatchedCoordinator())
        checkpoint, latest = message.checkpoint, coordinator.latest
        if checkpoint is None:
            if latest is not None:
                text = f"the job starts from the beginning, although checkpoint {latest} is complete"
                yield self.violation(turn, text)
        elif latest is None:
            if self._is_whole:
                text = f"the job restarts from checkpoint {checkpoint.checkpoint_id}, which has not completed"
                yield self.violation(turn, text)
        elif checkpoint.checkpoint_id != latest:
            text = f"the job restarts from checkpoint {checkpoint.checkpoint_id}; the latest one is {latest}"
            yield self.violation(turn, text)
        elif missing := sorted(coordinator.states - _subtasks(checkpoint)):
            vertex_id, subtask = missing[0]
            yield self.violation(turn, f"checkpoint {latest} has lost the state of {vertex_id} ({subtask})")

    def _is_recorded(self, coordinator: _WatchedCoordinator, checkpoint_id: int) -> bool:
        """Return whether the recording must contain the start of the checkpoint if it has started."""
        return self._is_whole or (coordinator.first_id is not None and checkpoint_id >= coordinator.first_id)


def _has_written(turn: Turn, checkpoint_id: int) -> bool:
    """Return whether, according to the records, the metadata is durable after this turn."""
    match turn.message:
        case MetadataWritten(checkpoint_id=written):
            return written == checkpoint_id
        case message:
            return isinstance(message, Undecoded)


def _subtasks(checkpoint: CompletedCheckpoint) -> frozenset[Subtask]:
    return frozenset((entry.vertex_id, entry.subtask) for entry in checkpoint.task_states)


def _without(pending: _WatchedCheckpoint) -> str:
    missing = sorted(pending.awaited)
    others = f" and of {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"without the acknowledgement of {missing[0]}{others}"
