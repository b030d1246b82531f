"""Event time and processing time of a task: the watermarks that it generates, and its processing-time timers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.exchange.watermarks import (
    MonotonyViolated,
    NoWatermarks,
    TimestampsAndWatermarks,
    watermark_generator,
)
from flykka.actors.machines.state.watermarks import restored_watermark
from flykka.messages.attempt.answers import StageResult
from flykka.messages.graph.job_graph import JobType, JobVertex
from flykka.messages.state.handles import WatermarkState
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN, Event, Watermark
from flykka.messages.tasks.task import EventTimeHold, ProcessingTimeDue, TaskDeploymentDescriptor

HELD_BACK_AFTER_MS = 10_000
"""The time in ms after which an idle source or partition is reported as holding event time back."""


def uses_event_time(vertex: JobVertex) -> bool:
    return any(operator.kind.uses_event_time for operator in vertex.operators)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceChecked:
    """The idleness clock is at `now_ms`: partitions may be idle, or event time advances in their quiet periods."""

    now_ms: int


class TaskEventTime:
    """The watermarks that a task generates from the rows that it reads. A task without a generator forwards the
    watermarks of its inputs.

    The idleness clock is paused while the task has input that it cannot read yet, as in Flink.
    """

    __slots__ = ("_generator", "_has_event_time", "_now_ms", "_paused_ms", "_subtask", "is_paused")

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        vertex = descriptor.vertex
        self._subtask = descriptor.subtask
        self._has_event_time = vertex.watermark_delay_ms is not None
        self._generator: TimestampsAndWatermarks | None = None
        self._now_ms = self._paused_ms = 0
        self.is_paused = False
        if vertex.operators[0].kind.makes_watermarks:
            # The consumers in a batch job need event time only once, at its end.
            is_batch = descriptor.job_type is JobType.BATCH
            make = NoWatermarks if is_batch else partial(watermark_generator, vertex)
            self._generator = TimestampsAndWatermarks(make, vertex.idle_timeout_ms, vertex.quiet_period_ms)
            if not is_batch:
                self._generator.restore(restored_watermark(descriptor.restore))

    @property
    def makes_watermarks(self) -> bool:
        return self._generator is not None

    @property
    def generator(self) -> TimestampsAndWatermarks:
        assert self._generator is not None, "the task generates no watermarks"
        return self._generator

    @property
    def watermark_ms(self) -> int:
        return WATERMARK_MIN if self._generator is None else self._generator.said_ms

    @property
    def state(self) -> WatermarkState | None:
        return None if self._generator is None else self._generator.state

    @property
    def silence_clock_ms(self) -> int:
        return self._now_ms - self._paused_ms

    def on_tick(self, now: int) -> None:
        if self.is_paused:
            self._paused_ms += now - self._now_ms
        self._now_ms = now

    def on_result(self, result: StageResult) -> MonotonyViolated | None:
        """Process the event times of a stage that read rows. Returns a violation if they should ascend and do not."""
        if self._generator is None:
            return None
        if result.partition_times:
            return self._generator.on_partitions(result.partition_times, self.silence_clock_ms)
        latest_ms, earliest_ms = result.event_time_max, result.event_time_min
        if latest_ms is None:
            return None
        return self._generator.on_batch(latest_ms if earliest_ms is None else earliest_ms, latest_ms)

    def emit(self) -> Watermark | None:
        return None if self._generator is None else self._generator.emit()

    def on_follower(self, follower: Event | SilenceChecked) -> Event | None:
        """Return the event to send, now that all stages before the follower have ended."""
        if isinstance(follower, SilenceChecked):
            return self.generator.on_time(follower.now_ms)
        if isinstance(follower, Watermark) and self._generator is not None:
            return self._generator.on_watermark(follower)
        return follower

    @property
    def held_back_by(self) -> EventTimeHold | None:
        if self._generator is None or not self._has_event_time or self._generator.said_ms == WATERMARK_MAX:
            return None
        hold = self._generator.held_back_by(self.silence_clock_ms)
        if hold is None:
            return None
        partition, watermark_ms, silent_ms = hold
        return EventTimeHold(
            subtask=self._subtask,
            since_ms=self._now_ms - silent_ms,
            partition=partition,
            watermark_ms=watermark_ms,
        )

    @property
    def long_held_back_by(self) -> EventTimeHold | None:
        hold = self.held_back_by
        return hold if hold is not None and self._now_ms - hold.since_ms >= HELD_BACK_AFTER_MS else None


class ProcessingTimers:
    """The next processing-time timer of a task (Flink's ProcessingTimeService). Unused without operators that need it.

    The engine has the timers, and reports the first with the result of every stage. The actor runs one timer for it.
    """

    __slots__ = ("_is_ended", "_next_ms", "_uses_processing_time", "is_due")

    def __init__(self, vertex: JobVertex) -> None:
        self._uses_processing_time = any(operator.kind.uses_processing_time for operator in vertex.operators)
        self._next_ms: int | None = None
        self._is_ended = False
        self.is_due = False

    def time_of_stage(self, now: int) -> int:
        return now if self._uses_processing_time else 0

    def on_restored(self) -> None:
        """Fire once, because the engine reports restored timers only with a stage."""
        self.is_due = self._uses_processing_time

    def on_stage_finished(self, next_timer_ms: int | None, now: int) -> list[StartTimer]:
        before, self._next_ms = self._next_ms, None if self._is_ended else next_timer_ms
        self.on_due(now)
        if self._next_ms is None or self._next_ms == before or self.is_due:
            return []
        return [StartTimer(key="processing-time", delay_ms=self._next_ms - now, message=ProcessingTimeDue())]

    def on_due(self, now: int) -> None:
        """Check whether the earliest timer is due: the actor's timer may have been set for another one."""
        self.is_due = self._next_ms is not None and self._next_ms <= now

    def fire(self) -> None:
        self._next_ms, self.is_due = None, False

    def end(self) -> None:
        self._next_ms, self.is_due, self._is_ended = None, False, True
