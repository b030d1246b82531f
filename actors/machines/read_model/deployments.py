"""The time in which tasks of a job are being deployed: a status that Flink shows, and that no job has."""

from __future__ import annotations

from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.monitoring.job_details import Deploying
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId


class Deployments:
    """The attempts that are DEPLOYING, and how long any has been (Flink's DeploymentStateTimeMetrics)."""

    def __init__(self) -> None:
        self._attempts: set[ExecutionAttemptId] = set()
        self.told = Deploying()

    def note(self, message: ExecutionStateChanged) -> None:
        """An attempt has a new state."""
        if message.state is ExecutionState.DEPLOYING:
            self._attempts.add(message.attempt)
            if self.told.since_ms is None:
                self.told = Deploying(since_ms=message.timestamp_ms, total_ms=self.told.total_ms)
        elif message.attempt in self._attempts:
            self._attempts.remove(message.attempt)
            if not self._attempts:
                self.end(message.timestamp_ms)

    def end(self, at_ms: int) -> None:
        """None is deployed any more, whatever was told of each."""
        self._attempts.clear()
        if self.told.since_ms is not None:
            total_ms = self.told.total_ms + max(0, at_ms - self.told.since_ms)
            self.told = Deploying(total_ms=total_ms)
