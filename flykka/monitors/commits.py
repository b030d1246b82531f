"""A sink publishes a checkpoint once per attempt: when it is complete, and never when it was given up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointAborted, NotifyCheckpointComplete
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.records import Turn

_REMEMBERED = 64
"""So many of the checkpoints that were completed last, and of those that were given up, are remembered."""


@dataclass(slots=True)
class _CommittingTask:
    committed: int = 0
    completed: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    sees_all: bool = True
    aborted: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class CommitMonitor(ConversationMonitor):
    """Watches what Tasks have their bridges commit.

    That a Task is not told of a checkpoint before it is complete is the CheckpointMonitor's. So no two actors need be
    compared, and together both say that nothing is published too early.
    """

    name = "commits"

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[Ref, _CommittingTask] = {}

    def received(self) -> Mapping[type, OnReceived]:
        return {
            NotifyCheckpointAborted: self._on_aborted,
            NotifyCheckpointComplete: self._on_complete,
            Undecoded: self._on_unreadable,
        }

    def sent(self) -> Mapping[type, OnSent]:
        return {
            CommitCheckpoint: self._on_commit,
            NotifyCheckpointAborted: self._on_forwarded,
            NotifyCheckpointComplete: self._on_forwarded,
        }

    def ended(self, ref: Ref) -> None:
        """An attempt publishes nothing behind its end."""
        self._tasks.pop(ref, None)

    def _on_aborted(self, turn: Turn, message: NotifyCheckpointAborted) -> None:
        self._tasks.setdefault(turn.recipient, _CommittingTask()).aborted.append(message.checkpoint_id)

    def _on_complete(self, turn: Turn, message: NotifyCheckpointComplete) -> None:
        self._tasks.setdefault(turn.recipient, _CommittingTask()).completed.append(message.checkpoint_id)

    def _on_unreadable(self, turn: Turn, _message: Undecoded) -> None:
        """It may have been a completion."""
        self._tasks.setdefault(turn.recipient, _CommittingTask()).sees_all = False

    def _on_forwarded(self, turn: Turn, _to: Ref, _message: NotifyCheckpointAborted | NotifyCheckpointComplete) -> None:
        self._tasks.pop(turn.recipient, None)  # A TaskManager: it was not meant.

    def _on_commit(self, turn: Turn, _to: Ref, message: CommitCheckpoint) -> Iterator[Violation]:
        checkpoint_id = message.checkpoint_id
        task = self._tasks.setdefault(turn.recipient, _CommittingTask())
        if task.sees_all and checkpoint_id not in task.completed:
            text = f"checkpoint {checkpoint_id} is published, and nobody has said that it is complete"
            yield self.violation(turn, text)
        if checkpoint_id in task.aborted:
            yield self.violation(turn, f"checkpoint {checkpoint_id} is published, which was given up")
        if checkpoint_id == task.committed:
            yield self.violation(turn, f"checkpoint {checkpoint_id} is published again by the same attempt")
        elif checkpoint_id < task.committed:
            text = f"checkpoint {checkpoint_id} is published behind checkpoint {task.committed}"
            yield self.violation(turn, text)
        task.committed = max(task.committed, checkpoint_id)
