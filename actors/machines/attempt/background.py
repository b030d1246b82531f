"""The background work of an attempt, one piece after the other: snapshots, channel state and commits.

A snapshot is one piece, from `PrepareCommit` to the end of its writing: commits wait for it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from flykka.actors.machines.attempt.checkpoints import Checkpoint
from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.effects import Role, Tell
from flykka.messages.attempt.commands import CheckpointCommand


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A piece of background work: its command, which is given when it is first in line, and its checkpoint."""

    command: CheckpointCommand
    checkpoint: Checkpoint | None = None
    begun_ms: int | None = None


class BackgroundWork:
    """The background work in line. `now` is set before it is used."""

    __slots__ = ("_jobs", "_stopped", "now")

    def __init__(self) -> None:
        self.now = 0
        self._jobs: deque[Job] = deque()
        self._stopped = False

    @property
    def is_idle(self) -> bool:
        """Nothing is in line."""
        return not self._jobs

    @property
    def is_stopped(self) -> bool:
        """The attempt is cancelled or has failed: nothing more is begun."""
        return self._stopped

    def add(self, command: CheckpointCommand, checkpoint: Checkpoint | None = None) -> list[TaskEffect]:
        """Put a piece of work in line, and begin it if it is the first."""
        if self._stopped:
            return []
        self._jobs.append(Job(command=command, checkpoint=checkpoint))
        return self._begin()

    def at_work(self, kind: type[CheckpointCommand], checkpoint_id: int) -> Job | None:
        """The piece that is at work, if it waits for the answer to such a command."""
        job = self._jobs[0] if self._jobs else None
        if job is None or not isinstance(job.command, kind) or job.command.checkpoint_id != checkpoint_id:
            return None
        return job

    def continue_with(self, command: CheckpointCommand) -> list[TaskEffect]:
        """The piece at work is continued with another command."""
        self._jobs[0].command = command
        return [Tell(to=Role.BRIDGE, message=command)]

    def end_job(self) -> list[TaskEffect]:
        """The piece at work has ended: begin the next."""
        self._jobs.popleft()
        return self._begin()

    def stop(self) -> None:
        """Begin nothing more. The answer to the piece at work still counts: what it wrote has to be deleted."""
        self._stopped = True
        while len(self._jobs) > 1:
            self._jobs.pop()

    def _begin(self) -> list[TaskEffect]:
        if not self._jobs or self._jobs[0].begun_ms is not None:
            return []
        job = self._jobs[0]
        job.begun_ms = self.now
        return [Tell(to=Role.BRIDGE, message=job.command)]
