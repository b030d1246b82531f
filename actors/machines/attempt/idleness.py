"""Detects that nothing is read by what makes watermarks, and decides what becomes of event time then.

What is silent for its timeout must hold nobody back: it is idle (Flink's WatermarksWithIdleness), or with a quiet
period it lets event time go on by the clock, from the watermark of the rows that it has read last. What each partition
of a source contributes is decided in `watermark_generators`. One timer runs while the task is active: if something was
read meanwhile it is set again for what is left. What is idle has no timer; the next rows wake it.
"""

from __future__ import annotations

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.in_flight_stages import InFlightStages
from flykka.actors.machines.effects import StartTimer
from flykka.messages.graph.job_graph import JobType
from flykka.messages.tasks.exchange import WatermarkStatus
from flykka.messages.tasks.task import IdleDue, TaskDeploymentDescriptor


class WatermarksWithIdleness:
    """The silence of one attempt; without a timeout nothing follows from it."""

    __slots__ = ("_first_check_ms", "_is_ended", "_is_idle", "_stages")

    def __init__(self, descriptor: TaskDeploymentDescriptor, stages: InFlightStages) -> None:
        vertex, is_batch = descriptor.vertex, descriptor.job_type is JobType.BATCH
        timeouts = [each for each in (vertex.idle_timeout_ms, vertex.quiet_period_ms) if each is not None]
        is_checked = stages.makes_watermarks and not is_batch
        self._first_check_ms = min(timeouts, default=None) if is_checked else None
        self._stages = stages
        self._is_idle = False
        self._is_ended = False

    @property
    def is_idle(self) -> bool:
        """It has said that it holds nobody back."""
        return self._is_idle

    def start(self) -> list[TaskEffect]:
        """The task runs."""
        if self._stages.makes_watermarks:
            self._stages.watermarks.start(self._stages.silence_clock_ms)
        return self._start_timer()

    def read(self) -> list[TaskEffect]:
        """Something is read; what was idle says that it is active before that goes down."""
        if self._stages.makes_watermarks:
            self._stages.watermarks.on_read(self._stages.silence_clock_ms)
        if not self._is_idle:
            return []
        self._is_idle = False
        return [*self._stages.emit_after(WatermarkStatus(idle=False)), *self._start_timer()]

    def end(self) -> list[TaskEffect]:
        """Event time is at its end. What is idle would not be heard."""
        awake = self.read()
        self._is_ended = True
        return awake

    def on_due(self, *, has_unread: bool) -> list[TaskEffect]:
        """The timer went off. It is not silent while rows are on their way, or wait for a consumer."""
        if self._is_ended:
            return []
        if has_unread or self._stages.is_reading:
            self._stages.watermarks.on_read(self._stages.silence_clock_ms)
            return self._start_timer()
        checked, now_ms = self._stages.check_silence(), self._stages.silence_clock_ms
        if self._stages.watermarks.is_idle(now_ms):
            self._is_idle = True
            return [*checked, *self._stages.emit_after(WatermarkStatus(idle=True))]
        next_ms = self._stages.watermarks.next_change_ms(now_ms)
        assert next_ms is not None, "what is active becomes idle, or goes on by the clock"
        return [StartTimer(key="idle", delay_ms=next_ms, message=IdleDue()), *checked]

    def _start_timer(self) -> list[TaskEffect]:
        return (
            []
            if self._first_check_ms is None
            else [StartTimer(key="idle", delay_ms=self._first_check_ms, message=IdleDue())]
        )
