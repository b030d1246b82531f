"""Checks that a sink publishes a checkpoint once per attempt: when it is complete, and never if it was aborted."""

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


@dataclass(slots=True)
class _CommittingTask:
    committed: int = 0
    completed: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    sees_all: bool = True
    aborted: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class CommitMonitor(ConversationMonitor):
    """Observes which checkpoints Tasks commit through their bridges.

    The CheckpointMonitor checks that no Task is notified of a checkpoint before it is complete. So the records of two
    actors need not be compared: together both monitors ensure that nothing is published too early.
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
        """Forget the actor, because an ended attempt publishes nothing."""
        self._tasks.pop(ref, None)

    def _on_aborted(self, turn: Turn, message: NotifyCheckpointAborted) -> None:
        self._tasks.setdefault(turn.recipient, _CommittingTask()).aborted.append(message.checkpoint_id)

    def _on_complete(self, turn: Turn, message: NotifyCheckpointComplete) -> None:
        self._tasks.setdefault(turn.recipient, _CommittingTask()).completed.append(message.checkpoint_id)

    def _on_unreadable(self, turn: Turn, _message: Undecoded) -> None:
        """Stop checking completions, because the unreadable message may have been one."""
        self._tasks.setdefault(turn.recipient, _CommittingTask()).sees_all = False

    def _on_forwarded(self, turn: Turn, _to: Ref, _message: NotifyCheckpointAborted | NotifyCheckpointComplete) -> None:
        self._tasks.pop(turn.recipient, None)  # The actor is a TaskManager, which only forwards the message.

    def _on_commit(self, turn: Turn, _to: Ref, message: CommitCheckpoint) -> Iterator[Violation]:
        checkpoint_id = message.checkpoint_id
        task = self._tasks.setdefault(turn.recipient, _CommittingTask())
        if task.sees_all and checkpoint_id not in task.completed:
            text = f"checkpoint {checkpoint_id} is published before it was reported as complete"
            yield self.violation(turn, text)
        if checkpoint_id in task.aborted:
            yield self.violation(turn, f"checkpoint {checkpoint_id} is published although it was aborted")
        if checkpoint_id == task.committed:
            yield self.violation(turn, f"checkpoint {checkpoint_id} is published again by the same attempt")
        elif checkpoint_id < task.committed:
            text = f"checkpoint {checkpoint_id} is published after checkpoint {task.committed}"
            yield self.violation(turn, text)
        task.committed = max(task.committed, checkpoint_id)
