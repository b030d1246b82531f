"""A checkpoint completes when every attempt that it waits for has acknowledged it, and is kept from then on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flykka.messages.checkpoint import (
    AcknowledgeCheckpoint,
    NotifyCheckpointComplete,
    SnapshotOperatorCoordinators,
    SnapshotType,
    TriggerCheckpoint,
)
from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.coordination import (
    CoordinatedTasks,
    CoordinatedTaskStateChanged,
    MetadataRead,
    MetadataWritten,
    RestoreState,
)
from flykka.messages.ids import ExecutionAttemptId, JobVertexId
from flykka.messages.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.ref import Ref
from flykka.messages.task import ExecutionState
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation, said
from flykka.runtime.trace.records import Turn, Undecoded

Subtask = tuple[JobVertexId, int]


@dataclass(slots=True)
class _Pending:
    awaited: set[ExecutionAttemptId]
    is_restored_from: bool = True
    """Whether a job goes back to it: not to a savepoint, which is the user's."""


@dataclass(slots=True)
class _Coordinator:
    """What is known of one coordinator. `knows_tasks` is false in a recording that begins in the midst of a job."""

    knows_tasks: bool = False
    subtasks: dict[ExecutionAttemptId, Subtask] = field(default_factory=dict)
    running: dict[ExecutionAttemptId, None] = field(default_factory=dict)
    pending: dict[int, _Pending] = field(default_factory=dict)
    first_id: int | None = None
    last_id: int = 0
    latest: int | None = None
    """The checkpoint that the job goes back to, where it is known."""
    states: frozenset[Subtask] = frozenset()
    """Whose state the latest must hold."""


class CheckpointMonitor(ConversationMonitor):
    """Watches what coordinators hear from the tasks, and what they make of it.

    Everything is seen in the turns of one actor, the coordinator, so that no order between actors matters.
    """

    name = "checkpoints"

    def __init__(self, *, is_whole: bool = True) -> None:
        """`is_whole`: whether the run is shown from its beginning on."""
        super().__init__()
        self._is_whole = is_whole
        self._coordinators: dict[Ref, _Coordinator] = {}

    def received(self) -> Mapping[type, OnReceived]:
        """The coordinator's own part: the JobMaster, which hands acknowledgements on, is none."""
        return {
            CoordinatedTasks: self._on_tasks,
            CoordinatedTaskStateChanged: self._on_task_state,
            AcknowledgeCheckpoint: self._on_acknowledged,
            MetadataRead: self._on_adopted,
            Undecoded: self._on_unreadable,
        }

    def sent(self) -> Mapping[type, OnSent]:
        """Begun, told, over."""
        return {
            SnapshotOperatorCoordinators: self._on_begun,
            TriggerCheckpoint: self._on_triggered,
            NotifyCheckpointComplete: self._on_notified,
            CheckpointCompleted: self._on_completed,
            CheckpointAborted: self._on_aborted,
            RestoreState: self._on_restored,
        }

    def ended(self, ref: Ref) -> None:
        """Its checkpoints are nobody's any more."""
        self._coordinators.pop(ref, None)

    # What it hears

    def _on_tasks(self, turn: Turn, message: CoordinatedTasks) -> Iterable[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        coordinator.knows_tasks = True
        coordinator.subtasks = {task.attempt: (task.vertex_id, task.subtask) for task in message.tasks}
        coordinator.running = {task.attempt: None for task in message.tasks if task.state is ExecutionState.RUNNING}
        return ()

    def _on_task_state(self, turn: Turn, message: CoordinatedTaskStateChanged) -> Iterable[Violation]:
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is not None and message.attempt in coordinator.subtasks:
            if message.state is ExecutionState.RUNNING:
                coordinator.running[message.attempt] = None
            else:
                coordinator.running.pop(message.attempt, None)
        return ()

    def _on_acknowledged(self, turn: Turn, message: AcknowledgeCheckpoint) -> Iterable[Violation]:
        coordinator = self._coordinators.get(turn.recipient)
        pending = None if coordinator is None else coordinator.pending.get(message.checkpoint_id)
        if pending is not None:
            pending.awaited.discard(message.attempt)
        return ()

    def _on_adopted(self, turn: Turn, message: MetadataRead) -> Iterable[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        if coordinator.latest is None:
            coordinator.latest = message.checkpoint.checkpoint_id
            coordinator.states = _subtasks(message.checkpoint)
        coordinator.last_id = max(coordinator.last_id, message.checkpoint.checkpoint_id)
        return ()

    def _on_unreadable(self, turn: Turn, _message: Undecoded) -> Iterable[Violation]:
        """It may have been the acknowledgement that was missing."""
        coordinator = self._coordinators.get(turn.recipient)
        if coordinator is not None:
            for pending in coordinator.pending.values():
                pending.awaited.clear()
        return ()

    # What it says

    def _on_begun(self, turn: Turn, _to: Ref, message: SnapshotOperatorCoordinators) -> Iterable[Violation]:
        return self._begin(turn, message.checkpoint_id)

    def _on_triggered(self, turn: Turn, _to: Ref, message: TriggerCheckpoint) -> Iterable[Violation]:
        if isinstance(said(turn.message), TriggerCheckpoint):
            return ()  # A TaskManager hands it on.
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        new = () if message.checkpoint_id in coordinator.pending else self._begin(turn, message.checkpoint_id)
        if (pending := coordinator.pending.get(message.checkpoint_id)) is not None:
            options = message.options
            pending.is_restored_from = options.snapshot_type is SnapshotType.CHECKPOINT or options.is_final
        return new

    def _begin(self, turn: Turn, checkpoint_id: int) -> list[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        wrong = []
        if checkpoint_id <= coordinator.last_id:
            text = f"checkpoint {checkpoint_id} begins behind checkpoint {coordinator.last_id}: ids only grow"
            wrong.append(self.violation(turn, text))
        if coordinator.first_id is None:
            coordinator.first_id = checkpoint_id
        coordinator.last_id = max(coordinator.last_id, checkpoint_id)
        coordinator.pending[checkpoint_id] = _Pending(awaited=set(coordinator.running))
        return wrong

    def _on_notified(self, turn: Turn, _to: Ref, message: NotifyCheckpointComplete) -> Iterator[Violation]:
        if isinstance(said(turn.message), NotifyCheckpointComplete):
            return  # A TaskManager hands it on.
        pending = self._pending(turn, message.checkpoint_id)
        if pending is None and self._must_know(turn, message.checkpoint_id):
            text = (
                f"{message.attempt} is told that checkpoint {message.checkpoint_id} is complete, which is not pending"
            )
            yield self.violation(turn, text)
        elif pending is not None and pending.awaited:
            text = f"{message.attempt} is told that checkpoint {message.checkpoint_id} is complete, " + _without(
                pending
            )
            yield self.violation(turn, text)

    def _on_completed(self, turn: Turn, _to: Ref, message: CheckpointCompleted) -> Iterator[Violation]:
        if isinstance(said(turn.message), CheckpointCompleted):
            return  # The JobMaster tells its listeners.
        checkpoint_id = message.checkpoint_id
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        pending = coordinator.pending.pop(checkpoint_id, None)
        if pending is None:
            if self._must_know(turn, checkpoint_id):
                text = f"checkpoint {checkpoint_id} completes, which never began, or was complete or given up already"
                yield self.violation(turn, text)
            return
        if pending.awaited:
            yield self.violation(turn, f"checkpoint {checkpoint_id} completes {_without(pending)}")
        match turn.message:
            case MetadataWritten(checkpoint_id=written) if written == checkpoint_id:
                pass
            case Undecoded():
                pass
            case _:
                yield self.violation(turn, f"checkpoint {checkpoint_id} completes before its metadata is written")
        if pending.is_restored_from:
            coordinator.latest = checkpoint_id
            coordinator.states = frozenset(coordinator.subtasks.values())

    def _on_aborted(self, turn: Turn, _to: Ref, message: CheckpointAborted) -> Iterator[Violation]:
        if isinstance(said(turn.message), CheckpointAborted):
            return  # The JobMaster tells its listeners.
        checkpoint_id = message.checkpoint_id
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        if coordinator.pending.pop(checkpoint_id, None) is not None:
            return
        if checkpoint_id > coordinator.last_id:
            coordinator.last_id = checkpoint_id  # It was given up before anybody had heard of it.
        elif self._must_know(turn, checkpoint_id):
            text = f"checkpoint {checkpoint_id} is given up, which was complete or given up already"
            yield self.violation(turn, text)

    def _on_restored(self, turn: Turn, _to: Ref, message: RestoreState) -> Iterator[Violation]:
        coordinator = self._coordinators.setdefault(turn.recipient, _Coordinator())
        checkpoint, latest = message.checkpoint, coordinator.latest
        if checkpoint is None:
            if latest is not None:
                text = f"the job begins anew, although checkpoint {latest} is complete"
                yield self.violation(turn, text)
            return
        if latest is None:
            if self._is_whole:
                text = f"the job goes back to checkpoint {checkpoint.checkpoint_id}, which has not completed"
                yield self.violation(turn, text)
            return
        if checkpoint.checkpoint_id != latest:
            text = f"the job goes back to checkpoint {checkpoint.checkpoint_id}; the latest one is {latest}"
            yield self.violation(turn, text)
        elif missing := sorted(coordinator.states - _subtasks(checkpoint)):
            vertex_id, subtask = missing[0]
            text = f"checkpoint {latest} has lost the state of {vertex_id} ({subtask})"
            yield self.violation(turn, text)

    # What is known

    def _pending(self, turn: Turn, checkpoint_id: int) -> _Pending | None:
        coordinator = self._coordinators.get(turn.recipient)
        return None if coordinator is None else coordinator.pending.get(checkpoint_id)

    def _must_know(self, turn: Turn, checkpoint_id: int) -> bool:
        """Whether the checkpoint, if it began, began before our eyes."""
        if self._is_whole:
            return True
        coordinator = self._coordinators.get(turn.recipient)
        first_id = None if coordinator is None else coordinator.first_id
        return first_id is not None and checkpoint_id >= first_id


def _subtasks(checkpoint: CompletedCheckpoint) -> frozenset[Subtask]:
    return frozenset((entry.vertex_id, entry.subtask) for entry in checkpoint.task_states)


def _without(pending: _Pending) -> str:
    missing = sorted(pending.awaited)
    others = f" and of {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"without the acknowledgement of {missing[0]}{others}"
