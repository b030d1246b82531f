"""Escalates the end of an attempt that does not come: Flink's TaskInterrupter and TaskCancelerWatchDog.

First it is cancelled. Every interval behind that it is cancelled again, for what runs in Spark may have begun after it
was told before, and its threads are interrupted. After the timeout nobody knows what still runs here, and the
TaskManager is told to give up: it is lost, and with it every claim on its slots. A timeout of 0 waits for ever.
"""

from __future__ import annotations

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.messages.attempt.commands import CancelWork, InterruptWork
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.task import CancellationDue, FatalErrorOccurred
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId

INTERVAL_MS = 30_000
TIMEOUT_MS = 180_000
"""Defaults of the cluster: Flink's."""


class TaskCancellation:
    """Watches over the end of one attempt. What the job says goes before what the cluster says, once it is known."""

    __slots__ = ("_attempt", "_began_ms", "interval_ms", "timeout_ms")

    def __init__(self, attempt: ExecutionAttemptId, cluster: TaskCancellationSettings) -> None:
        self._attempt = attempt
        self.interval_ms = INTERVAL_MS if cluster.interval_ms is None else cluster.interval_ms
        self.timeout_ms = TIMEOUT_MS if cluster.timeout_ms is None else cluster.timeout_ms
        self._began_ms: int | None = None

    def load(self, job: TaskCancellationSettings) -> None:
        """The settings of the job are there."""
        if job.interval_ms is not None:
            self.interval_ms = job.interval_ms
        if job.timeout_ms is not None:
            self.timeout_ms = job.timeout_ms

    def start_watchdog(self, now: int) -> list[TaskEffect]:
        """The work was cancelled; later calls change nothing."""
        if self._began_ms is not None:
            return []
        self._began_ms = now
        return [self._timer(now)]

    def on_due(self, now: int) -> list[TaskEffect]:
        """The attempt has not ended by now."""
        assert self._began_ms is not None, "a cancellation is due that has not begun"
        if self.timeout_ms and now - self._began_ms >= self.timeout_ms:
            fatal = FatalErrorOccurred(attempt=self._attempt, cause=self._cause())
            return [Tell(to=Role.TASK_MANAGER, message=fatal)]
        return [
            Tell(to=Role.BRIDGE, message=CancelWork()),
            Tell(to=Role.BRIDGE, message=InterruptWork()),
            self._timer(now),
        ]

    def _timer(self, now: int) -> StartTimer:
        assert self._began_ms is not None
        left_ms = self._began_ms + self.timeout_ms - now if self.timeout_ms else self.interval_ms
        return StartTimer(key="cancellation", delay_ms=min(self.interval_ms, left_ms), message=CancellationDue())

    def _cause(self) -> SerializedThrowable:
        return SerializedThrowable(
            type_name="TaskCancellationTimeoutError",
            message=f"{self._attempt} did not end within {self.timeout_ms} ms after it was cancelled: what it runs"
            " cannot be stopped; set_task_cancellation(timeout=...) lets it take longer",
        )
