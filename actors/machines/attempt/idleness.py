"""Decides what happens to event time if a task that makes watermarks reads nothing.

A task that is silent for its timeout must not hold its consumers back: it is idle (Flink's WatermarksWithIdleness), or
with a quiet period event time advances with the clock, from the watermark of the rows read last. The contribution of
each partition of a source is decided in `watermark_generators`. One timer runs while the task is active, and is started
again for the time left if something was read meanwhile. An idle task has no timer; the next rows wake it.
"""

from __future__ import annotations

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.stages import Stages
from flykka.actors.machines.attempt.time import SilenceChecked
from flykka.actors.machines.effects import StartTimer
from flykka.messages.graph.job_graph import JobType
from flykka.messages.tasks.exchange import WatermarkStatus
from flykka.messages.tasks.task import IdleDue, TaskDeploymentDescriptor


class WatermarksWithIdleness:
    """The idleness of one attempt; without a timeout it is never idle."""

    __slots__ = ("_event_time", "_first_check_ms", "_is_ended", "_stages", "is_idle")

    def __init__(self, descriptor: TaskDeploymentDescriptor, stages: Stages) -> None:
        vertex, is_batch = descriptor.vertex, descriptor.job_type is JobType.BATCH
        self._stages = stages
        self._event_time = stages.event_time
        timeouts = [each for each in (vertex.idle_timeout_ms, vertex.quiet_period_ms) if each is not None]
        is_checked = self._event_time.makes_watermarks and not is_batch
        self._first_check_ms = min(timeouts, default=None) if is_checked else None
        self._is_ended = False
        # The consumers know that it holds them back no more.
        self.is_idle = False

    def start(self) -> list[TaskEffect]:
        """Start the timer, now that the task runs."""
        if self._event_time.makes_watermarks:
            self._event_time.generator.start(self._event_time.silence_clock_ms)
        return self._start_timer()

    def read(self) -> list[TaskEffect]:
        """Note that something is read; an idle task sends that it is active before the rows."""
        if self._event_time.makes_watermarks:
            self._event_time.generator.on_read(self._event_time.silence_clock_ms)
        if not self.is_idle:
            return []
        self.is_idle = False
        return [*self._stages.emit_after(WatermarkStatus(idle=False)), *self._start_timer()]

    def end(self) -> list[TaskEffect]:
        """Check no more: event time is at its end, which consumers take from an active task only."""
        awake = self.read()
        self._is_ended = True
        return awake

    def on_due(self, *, has_unread: bool) -> list[TaskEffect]:
        """Check the silence. While rows are in flight, or wait for a consumer, the task is not silent."""
        if self._is_ended:
            return []
        generator, now_ms = self._event_time.generator, self._event_time.silence_clock_ms
        if has_unread or self._stages.is_reading:
            generator.on_read(now_ms)
            return self._start_timer()
        checked = self._stages.emit_after(SilenceChecked(now_ms=now_ms))
        if generator.is_idle(now_ms):
            self.is_idle = True
            return [*checked, *self._stages.emit_after(WatermarkStatus(idle=True))]
        next_ms = generator.next_change_ms(now_ms)
        assert next_ms is not None, "an active task becomes idle, or its event time advances with the clock"
        return [StartTimer(key="idle", delay_ms=next_ms, message=IdleDue()), *checked]

    def _start_timer(self) -> list[TaskEffect]:
        first_ms = self._first_check_ms
        return [] if first_ms is None else [StartTimer(key="idle", delay_ms=first_ms, message=IdleDue())]
