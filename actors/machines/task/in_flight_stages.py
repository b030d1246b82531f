"""The way down: what stages make, and the events behind them, in the order in which they were begun.

Holds the stages in flight, the outputs they feed, and the counters. What a stage made goes out when it has finished;
then its own event (the watermark of what a source read, the barrier behind a snapshot), then whatever was waiting for
it. What is to be begun, and when, is decided by `StreamTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from flykka.actors.machines.exchange.barrier_alignment import to_send_on
from flykka.actors.machines.exchange.watermark_generators import (
    MonotonyViolated,
    NoWatermarks,
    TimestampsAndWatermarksOperator,
    watermark_generator,
)
from flykka.actors.machines.state.watermarks import restored_watermark
from flykka.actors.machines.task.effects import TaskEffect, TellJobMaster
from flykka.actors.machines.task.metrics import Activity, TaskMeter
from flykka.actors.machines.task.stage_pipeline import StagePipeline
from flykka.actors.machines.task.task_outputs import TaskOutputs
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
from flykka.messages.tasks.stage import CheckpointCommitted, StageFinished, StageOutput, StateSnapshotted
from flykka.messages.tasks.task import EventTimeHold, NotifyEndOfData, TaskDeploymentDescriptor

HELD_BACK_AFTER_MS = 10_000
"""Event time is reported as held back by what has been silent for as long."""

STAGES_IN_FLIGHT = 2
"""Two: the planning of one stage overlaps the work of the other; a third only adds memory."""

# Looked up for every event: an Enum member is slow to reach.
_BUSY = Activity.BUSY
_IDLE = Activity.IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A stage that reads splits, which together cost so much by the reader's limit."""

    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A stage that processes batches, whose credits go back when it is done; None for one that was recovered."""

    channels: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A stage that emits what event time completes; the watermark goes down behind that."""

    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTimers:
    """A stage that fires the timers which processing time has come to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleEvents:
    """A stage that handles events of the operator's coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stage that snapshots the chain; the barrier goes down behind what goes before it.

    `fired_ms` is the watermark up to which deferred results are emitted with this snapshot, None where none are, and
    `watermark_ms` that of the inputs.
    """

    barrier: CheckpointBarrier
    fired_ms: int | None
    watermark_ms: int = WATERMARK_MIN


Purpose = Read | Process | Fire | FireTimers | HandleEvents | Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceChecked:
    """It is `now_ms` by the clock of silence: partitions may be idle, or event time goes on in their quiet periods."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A stage is over: what it was begun for, and what goes down. `violated`: its rows went back in event time.

    `barrier` went down behind it and has left the batches `overtaken` behind; `watermark` is the task's at the barrier.
    """

    purpose: Purpose
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
        "_meter",
        "_outputs",
        "_paused_ms",
        "_paused_since_ms",
        "_pipeline",
        "_subtask",
        "_watermarks",
        "has_reached_end_of_data",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self._attempt = descriptor.attempt
        self._subtask = descriptor.subtask
        self._pipeline: StagePipeline[Purpose, Event | SilenceChecked] = StagePipeline(STAGES_IN_FLIGHT)
        name = f"{descriptor.vertex.name} ({descriptor.subtask + 1}/{descriptor.vertex.parallelism})"
        self._outputs = TaskOutputs(name, descriptor.outputs, descriptor.buffers)
        self._meter = TaskMeter()
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
        return self._pipeline.has_room and not self._outputs.is_back_pressured

    @property
    def is_reading(self) -> bool:
        """A stage in flight reads splits, or a batch."""
        return any(isinstance(purpose, Read | Process) for purpose in self._pipeline.purposes)

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
        self._meter.pass_time(now)
        if self._paused_since_ms is not None:
            self._paused_ms += now - self._paused_since_ms

    def spend_time(self, *, is_running: bool, has_input: Callable[[], bool]) -> None:
        """Account for the time until the next event; `has_input` is asked where nothing else decides the activity."""
        if not is_running:
            self._meter.activity = Activity.NOT_RUNNING
        elif self._pipeline.in_flight > 0:
            self._meter.activity = _BUSY
        elif self._outputs.is_back_pressured and has_input():
            self._meter.activity = Activity.BACK_PRESSURED
        else:
            self._meter.activity = _IDLE
        is_paused = self._watermarks is not None and self._pipeline.in_flight == 0 and has_input()
        self._paused_since_ms = self._meter.now_ms if is_paused else None

    @property
    def silence_clock_ms(self) -> int:
        """The time, without the times in which there was something that the task could not read."""
        return self._meter.now_ms - self._paused_ms

    def start(self, purpose: Purpose) -> int:
        """Begin a stage; its number."""
        return self._pipeline.start(purpose, self._meter.now_ms)

    def emit_after(self, event: Event) -> list[TaskEffect]:
        """Send `event` down behind every stage that is in flight."""
        self._pipeline.emit_after(event)
        return self._send_released()

    def check_silence(self) -> list[TaskEffect]:
        """Send down, behind every stage that is in flight, the watermark that follows if nothing is read."""
        self._pipeline.emit_after(SilenceChecked(now_ms=self.silence_clock_ms))
        return self._send_released()

    def finish(self, finished: StageFinished, now: int) -> Finished:
        """The oldest stage in flight has finished."""
        purpose = self._pipeline.finish(finished.stage)
        self._meter.count(finished, _batches_read(purpose))
        # A stage that moved no rows, as that of a barrier, tells none; what was counted before it still stands.
        self._accumulators = finished.accumulators or self._accumulators
        effects: list[TaskEffect] = []
        for output in finished.outputs:
            effects += self._outputs.add(output.output, output.batch)
        violated = self._learn_event_time(finished) if isinstance(purpose, Read | Process) else None
        for event in self._own_events(purpose):
            effects += self._send_down(event)
        barrier: CheckpointBarrier | None = None
        overtaken: tuple[StageOutput, ...] = ()
        watermark: WatermarkState | None = None
        if isinstance(purpose, Snapshot):
            makes = self._watermarks
            watermark = WatermarkState(watermark_ms=purpose.watermark_ms) if makes is None else makes.state
            barrier = to_send_on(purpose.barrier, now)
            sent, overtaken = self._outputs.broadcast_barrier(barrier)
            effects += sent
        effects += self._send_released()
        return Finished(
            purpose=purpose,
            effects=effects,
            violated=violated,
            barrier=barrier,
            overtaken=overtaken,
            watermark=watermark,
        )

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

    def snapshotted(self, snapshotted: StateSnapshotted) -> list[TaskEffect]:
        """A snapshot is durable: count what left the chain with it, and report it, which may be all that ever does."""
        self._meter.count_sink_rows(snapshotted.sink_rows)
        if not snapshotted.rows_out:
            return []
        self._meter.count_late_output(snapshotted.rows_out)
        return [self.report()]

    def committed(self, committed: CheckpointCommitted) -> None:
        """Note that the output staged up to a checkpoint is published."""
        self._meter.count_sink_rows(committed.sink_rows)

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
        return TellJobMaster(message=replace(report, accumulators=self._accumulators))

    @property
    def activity(self) -> tuple[Activity, int]:
        """The activity of the attempt, and its start."""
        return self._meter.activity, self._meter.activity_since_ms

    @property
    def begun(self) -> list[tuple[Purpose, int]]:
        """The purposes of the stages in flight, and their starts, the oldest first."""
        return self._pipeline.begun

    @property
    def outputs(self) -> TaskOutputs:
        """The outputs of the task."""
        return self._outputs

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._pipeline.check()
        self._outputs.check()

    def _learn_event_time(self, finished: StageFinished) -> MonotonyViolated | None:
        latest_ms, earliest_ms = finished.event_time_max, finished.event_time_min
        if self._watermarks is not None and finished.partition_times:
            return self._watermarks.on_partitions(finished.partition_times, self.silence_clock_ms)
        if self._watermarks is None or latest_ms is None:
            return None
        return self._watermarks.on_batch(latest_ms if earliest_ms is None else earliest_ms, latest_ms)

    def _own_events(self, purpose: Purpose) -> list[Event]:
        match purpose:
            case Read() | Process():
                watermark = None if self._watermarks is None else self._watermarks.emit()
                return [] if watermark is None else [watermark]
            case FireTimers() | HandleEvents():
                return []
            case Fire(watermark_ms=watermark_ms):
                return [Watermark(timestamp_ms=watermark_ms)]
            case Snapshot(fired_ms=fired_ms):
                return [] if fired_ms is None else [Watermark(timestamp_ms=fired_ms)]
            case _:
                assert_never(purpose)

    def _send_released(self) -> list[TaskEffect]:
        passed = (self._passed(event) for event in self._pipeline.released())
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
            effects += [self.report(), TellJobMaster(message=NotifyEndOfData(attempt=self._attempt))]
        return effects


def _batches_read(purpose: Purpose) -> int:
    match purpose:
        case Read():
            return 1
        case Process(channels=channels):
            return len(channels)
        case _:
            return 0
