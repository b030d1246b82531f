"""Detects that nothing is read by what makes watermarks, and decides what becomes of event time then.

What is silent for its timeout must hold nobody back: it is idle (Flink's WatermarksWithIdleness), or with a quiet
period it lets event time go on by the clock, from the watermark of the rows that it has read last. One timer runs while
it is active: where something was read meanwhile it is set again for what is left of the timeout. What is idle has no
timer; the next rows wake it.
"""

from __future__ import annotations

from flykka.actors.machines.task.effects import StartIdleTimer, TaskEffect
from flykka.actors.machines.task.in_flight_stages import InFlightStages
from flykka.messages.graph.job_graph import JobType
from flykka.messages.tasks.exchange import WatermarkStatus
from flykka.messages.tasks.task import TaskDeploymentDescriptor


class WatermarksWithIdleness:
    """The silence of one attempt; without a timeout nothing follows from it."""

    __slots__ = ("_goes_on", "_is_ended", "_is_idle", "_last_read_ms", "_stages", "_timeout_ms")

    def __init__(self, descriptor: TaskDeploymentDescriptor, stages: InFlightStages) -> None:
        vertex, is_batch = descriptor.vertex, descriptor.job_type is JobType.BATCH
        self._goes_on = vertex.quiet_period_ms is not None
        timeout_ms = vertex.quiet_period_ms if self._goes_on else vertex.idle_timeout_ms
        self._timeout_ms = None if is_batch else timeout_ms
        self._stages = stages
        self._last_read_ms = 0
        self._is_idle = False
        self._is_ended = False

    @property
    def is_idle(self) -> bool:
        """It has said that it holds nobody back."""
        return self._is_idle

    def start(self, now: int) -> list[TaskEffect]:
        """The task runs."""
        self._last_read_ms = now
        return [] if self._timeout_ms is None else [StartIdleTimer(delay_ms=self._timeout_ms)]

    def read(self, now: int) -> list[TaskEffect]:
        """Something is read; what was idle says that it is active before that goes down."""
        self._last_read_ms = now
        if not self._is_idle:
            return []
        self._is_idle = False
        return [*self._stages.emit_after(WatermarkStatus(idle=False)), *self.start(now)]

    def end(self, now: int) -> list[TaskEffect]:
        """Event time is at its end. What is idle would not be heard."""
        awake = self.read(now)
        self._is_ended = True
        return awake

    def on_due(self, now: int, *, has_unread: bool) -> list[TaskEffect]:
        """The timer went off. It is not silent while rows are on their way, or wait for a consumer."""
        assert self._timeout_ms is not None, "a timer is started for a timeout alone"
        if self._is_ended:
            return []
        if has_unread or self._stages.is_reading:
            self._last_read_ms = now
        silent_ms = now - self._last_read_ms
        if silent_ms < self._timeout_ms:
            return [StartIdleTimer(delay_ms=self._timeout_ms - silent_ms)]
        if self._goes_on and self._stages.has_event_time:
            return [StartIdleTimer(delay_ms=self._timeout_ms), *self._stages.pass_quiet_time(silent_ms)]
        # No row has said where event time is: there is nothing that could go on.
        self._is_idle = True
        return self._stages.emit_after(WatermarkStatus(idle=True))
