"""The way down: what stages make, and the events behind them, in the order in which they were begun.

Holds the stages in flight, the outputs they feed, and the counters. What a stage made goes out when it has finished;
then its own event (the watermark of what a source read, the barrier behind a snapshot), then whatever was waiting for
it. What is to be begun, and when, is decided by `StreamTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.metrics import Activity, TaskMeter
from flykka.actors.machines.attempt.outputs import TaskOutputs
from flykka.actors.machines.attempt.stages import Stage, StageLine
from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.exchange.barrier_alignment import to_send_on
from flykka.actors.machines.exchange.watermark_generators import (
    MonotonyViolated,
    NoWatermarks,
    TimestampsAndWatermarksOperator,
    watermark_generator,
)
from flykka.actors.machines.state.watermarks import restored_watermark
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import AdvanceWatermark, ProcessBatch, ReadSplits, SnapshotState, StageCommand
from flykka.messages.attempt.values import StageOutput
from flykka.messages.graph.job_graph import JobType
from flykka.messages.state.handles import WatermarkState
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.exchange import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    AddCredit,
    CancelPartitionRequest,
    CheckpointBarrier,
    EndOfData,
    Event,
    LatencyMarker,
    PartitionRequest,
    TaskBuffers,
    Watermark,
)
from flykka.messages.tasks.task import EventTimeHold, NotifyEndOfData, TaskDeploymentDescriptor

HELD_BACK_AFTER_MS = 10_000
"""Event time is reported as held back by what has been silent for as long."""

# Looked up for every event: an Enum member is slow to reach.
_BUSY = Activity.BUSY
_IDLE = Activity.IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceChecked:
    """It is `now_ms` by the clock of silence: partitions may be idle, or event time goes on in their quiet periods."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A stage has ended, and this follows. `violated`: its rows went back in event time.

    `barrier` was sent after it and has overtaken the batches `overtaken`; `watermark` is the task's at the barrier.
    """

    effects: list[TaskEffect]
    violated: MonotonyViolated | None = None
    barrier: CheckpointBarrier | None = None
    overtaken: tuple[StageOutput, ...] = ()
    watermark: WatermarkState | None = None


class InFlightStages:
    """Stages in flight and outputs of one attempt."""

    __slots__ = (
        "_accumulators",
        "_attempt",
        "_has_event_time",
        "_line",
        "_meter",
        "_outputs",
        "_paused_ms",
        "_paused_since_ms",
        "_subtask",
        "_watermarks",
        "has_reached_end_of_data",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor, meter: TaskMeter) -> None:
        self._attempt = descriptor.attempt
        self._subtask = descriptor.subtask
        self._line: StageLine[Event | SilenceChecked] = StageLine()
        name = f"{descriptor.vertex.name} ({descriptor.subtask + 1}/{descriptor.vertex.parallelism})"
        self._outputs = TaskOutputs(name, descriptor.outputs, descriptor.buffers)
        self._meter = meter
        self.has_reached_end_of_data = False
        self._accumulators: tuple[AccumulatorSnapshot, ...] = ()
        # Behind what makes watermarks; other tasks have them from their inputs.
        self._watermarks = None
        self._has_event_time = descriptor.vertex.watermark_delay_ms is not None
        if descriptor.vertex.operators[0].kind.makes_watermarks:
            # What reads it when it is whole needs to hear of event time once, at its end.
            is_batch = descriptor.job_type is JobType.BATCH
            make = NoWatermarks if is_batch else partial(watermark_generator, descriptor.vertex)
            vertex = descriptor.vertex
            self._watermarks = TimestampsAndWatermarksOperator(make, vertex.idle_timeout_ms, vertex.quiet_period_ms)
            if not is_batch:
                self._watermarks.restore(restored_watermark(descriptor.restore))
        # Nothing is silent while it could be read, and is not: Flink stops the clock of idleness as well.
        self._paused_ms = 0
        self._paused_since_ms: int | None = None

    @property
    def has_room(self) -> bool:
        """Another stage may begin: not too many are in flight, and consumers keep up."""
        return self._line.has_room and not self._outputs.is_back_pressured

    @property
    def is_reading(self) -> bool:
        """A stage in flight reads splits, or a batch."""
        return any(isinstance(stage.command, ReadSplits | ProcessBatch) for stage in self._line.stages)

    @property
    def makes_watermarks(self) -> bool:
        """The task makes watermarks of the rows that it reads."""
        return self._watermarks is not None

    @property
    def watermarks(self) -> TimestampsAndWatermarksOperator:
        """The watermarks that the task makes of the rows that it reads."""
        assert self._watermarks is not None, "only what makes watermarks goes by silence"
        return self._watermarks

    @property
    def held_back_by(self) -> EventTimeHold | None:
        """The source or partition that the watermarks of this task wait for."""
        if self._watermarks is None or not self._has_event_time or self._watermarks.said_ms == WATERMARK_MAX:
            return None
        held = self._watermarks.held_back_by(self.silence_clock_ms)
        if held is None:
            return None
        partition, watermark_ms, silent_ms = held
        return EventTimeHold(
            subtask=self._subtask,
            since_ms=self._meter.now_ms - silent_ms,
            partition=partition,
            watermark_ms=watermark_ms,
        )

    @property
    def made_watermark_ms(self) -> int:
        """The watermark that was made last of what was read; the least where there is none."""
        return WATERMARK_MIN if self._watermarks is None else self._watermarks.said_ms

    def pass_time(self, now: int) -> None:
        """It is `now`; what the attempt did since the last event was said by `spend_time`."""
        self._meter.on_tick(now)
        if self._paused_since_ms is not None:
            self._paused_ms += now - self._paused_since_ms

    def spend_time(self, *, is_running: bool, has_input: Callable[[], bool]) -> None:
        """Account for the time until the next event; `has_input` is asked where nothing else decides the activity."""
        if not is_running:
            self._meter.activity = Activity.NOT_RUNNING
        elif self._line.in_flight > 0:
            self._meter.activity = _BUSY
        elif self._outputs.is_back_pressured and has_input():
            self._meter.activity = Activity.BACK_PRESSURED
        else:
            self._meter.activity = _IDLE
        is_paused = self._watermarks is not None and self._line.in_flight == 0 and has_input()
        self._paused_since_ms = self._meter.now_ms if is_paused else None

    @property
    def silence_clock_ms(self) -> int:
        """The time, without the times in which there was something that the task could not read."""
        return self._meter.now_ms - self._paused_ms

    @property
    def is_idle(self) -> bool:
        """No stage is in flight."""
        return self._line.in_flight == 0

    @property
    def next_stage(self) -> int:
        """The number of the stage that is begun next."""
        return self._line.next_stage

    def open(self, *, is_ordered: bool) -> None:
        """The chain is open; if it `is_ordered` it processes one batch after the other."""
        if is_ordered:
            self._line.limit = 1

    def begin(self, stage: Stage) -> list[TaskEffect]:
        """Put a stage in line, and begin it if nothing before it keeps it waiting."""
        self._line.add(stage, self._meter.now_ms)
        return self.begin_work()

    def begin_work(self) -> list[TaskEffect]:
        """Begin what no stage before it keeps waiting."""
        return [Tell(to=Role.BRIDGE, message=command) for command in self._line.begin_work(self._meter.now_ms)]

    def on_answer(self, answer: StageResult | StageCommand) -> bool:
        """The result of a stage is here, or what has none is done; False if no stage waits for it."""
        return self._line.on_result(answer) if isinstance(answer, StageResult) else self._line.on_done(answer)

    def pop_over(self) -> Stage | None:
        """Take out the oldest stage, if it is over; `finish` it."""
        return self._line.pop_over()

    def drop(self) -> None:
        """The attempt is cancelled or has failed: nothing in line is waited for."""
        self._line.clear()

    def emit_after(self, event: Event) -> list[TaskEffect]:
        """Send `event` down behind every stage that is in flight."""
        self._line.add_follower(event)
        return self._send_released()

    def check_silence(self) -> list[TaskEffect]:
        """Send down, behind every stage that is in flight, the watermark that follows if nothing is read."""
        self._line.add_follower(SilenceChecked(now_ms=self.silence_clock_ms))
        return self._send_released()

    def finish(self, stage: Stage, now: int) -> Finished:
        """The oldest stage has ended."""
        command, result = stage.command, stage.result
        self._meter.count(result, _batches_read(stage))
        # A stage that moved no rows has none; what was counted before it still stands.
        self._accumulators = result.accumulators or self._accumulators
        effects: list[TaskEffect] = []
        for output in result.outputs:
            effects += self._outputs.add(output.output, output.batch)
        violated = self._learn_event_time(result) if isinstance(command, ReadSplits | ProcessBatch) else None
        watermark = self._own_watermark(stage)
        if watermark is not None:
            effects += self._send_down(watermark)
        barrier: CheckpointBarrier | None = None
        overtaken: tuple[StageOutput, ...] = ()
        state: WatermarkState | None = None
        if stage.barrier is not None:
            makes = self._watermarks
            state = WatermarkState(watermark_ms=stage.watermark_ms) if makes is None else makes.state
            barrier = to_send_on(stage.barrier, now)
            sent, overtaken = self._outputs.broadcast_barrier(barrier)
            effects += sent
        effects += self._send_released()
        return Finished(effects=effects, violated=violated, barrier=barrier, overtaken=overtaken, watermark=state)

    @property
    def holds_barrier(self) -> bool:
        """A barrier that may time out waits in an output."""
        return self._outputs.holds_barrier

    def time_out(self, checkpoint_id: int) -> tuple[list[TaskEffect], tuple[StageOutput, ...]]:
        """The barrier of the checkpoint overtakes what it waits behind in the outputs: what is sent, what overtaken."""
        return self._outputs.time_out(checkpoint_id)

    def recover(self, outputs: Iterable[StageOutput], input_watermark_ms: int) -> list[TaskEffect]:
        """Send down, before anything else, what was on its way when the checkpoint was taken, then the watermark."""
        effects = [effect for output in outputs for effect in self._outputs.add(output.output, output.batch)]
        watermark_ms = input_watermark_ms if self._watermarks is None else self._watermarks.said_ms
        if watermark_ms > WATERMARK_MIN:
            effects += self._send_down(Watermark(timestamp_ms=watermark_ms))
        return effects

    def resize(self, buffers: TaskBuffers) -> None:
        """The TaskManager has shared its buffers out again."""
        self._outputs.resize(buffers)

    def serve(self, event: PartitionRequest | AddCredit | CancelPartitionRequest) -> list[TaskEffect]:
        """A consumer asks, has room, or leaves."""
        return self._outputs.handle(event)

    def report(self, *, input_queue_length: int = 0, files_unread: int = 0) -> TaskEffect:
        """Tell the JobMaster what was counted so far, and what waits at the inputs and the outputs now."""
        self._meter.input_queue_length = input_queue_length
        self._meter.files_unread = files_unread
        self._meter.output_queue_length = self._outputs.buffers_in_use
        held = self.held_back_by
        is_long = held is not None and self._meter.now_ms - held.since_ms >= HELD_BACK_AFTER_MS
        self._meter.held_back_by = held if is_long else None
        report = self._meter.report(self._attempt)
        return Tell(to=Role.JOB_MASTER, message=replace(report, accumulators=self._accumulators))

    @property
    def activity(self) -> tuple[Activity, int]:
        """The activity of the attempt, and its start."""
        return self._meter.activity, self._meter.activity_since_ms

    @property
    def in_flight(self) -> list[Stage]:
        """The stages in flight, the oldest first."""
        return self._line.stages

    @property
    def outputs(self) -> TaskOutputs:
        """The outputs of the task."""
        return self._outputs

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._line.check()
        self._outputs.check()

    def _learn_event_time(self, finished: StageResult) -> MonotonyViolated | None:
        latest_ms, earliest_ms = finished.event_time_max, finished.event_time_min
        if self._watermarks is not None and finished.partition_times:
            return self._watermarks.on_partitions(finished.partition_times, self.silence_clock_ms)
        if self._watermarks is None or latest_ms is None:
            return None
        return self._watermarks.on_batch(latest_ms if earliest_ms is None else earliest_ms, latest_ms)

    def _own_watermark(self, stage: Stage) -> Watermark | None:
        """The watermark that is sent after the rows of the stage."""
        match stage.command:
            case ReadSplits() | ProcessBatch():
                return None if self._watermarks is None else self._watermarks.emit()
            case AdvanceWatermark(watermark_ms=watermark_ms):
                return Watermark(timestamp_ms=watermark_ms)
            case SnapshotState() if stage.fired_ms is not None:
                return Watermark(timestamp_ms=stage.fired_ms)
            case _:
                return None

    def _send_released(self) -> list[TaskEffect]:
        passed = (self._passed(event) for event in self._line.released())
        return [effect for event in passed if event is not None for effect in self._send_down(event)]

    def _passed(self, event: Event | SilenceChecked) -> Event | None:
        if isinstance(event, SilenceChecked):
            return self.watermarks.on_time(event.now_ms)
        if isinstance(event, Watermark) and self._watermarks is not None:
            return self._watermarks.on_watermark(event)
        return event

    def _send_down(self, event: Event) -> list[TaskEffect]:
        if isinstance(event, LatencyMarker):
            self._meter.latency(event)
            return self._outputs.emit_in_turn(event)
        effects = self._outputs.broadcast(event)
        if isinstance(event, Watermark):
            self._meter.watermark(event.timestamp_ms)
        if isinstance(event, EndOfData):
            self.has_reached_end_of_data = True
            effects += [self.report(), Tell(to=Role.JOB_MASTER, message=NotifyEndOfData(attempt=self._attempt))]
        return effects


def _batches_read(stage: Stage) -> int:
    return 1 if isinstance(stage.command, ReadSplits) else len(stage.channels)
