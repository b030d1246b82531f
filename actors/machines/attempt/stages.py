"""The stages of an attempt in order: decides which stage runs next, which one waits, and which events follow it.

Stages that only move rows run concurrently, so that Spark plans one while another runs. Work that accesses the state of
the chain is done in the order of the stages, and the stages end in that order. When a stage has ended, its batches are
sent first; then its own event (the watermark of a source, the barrier of a snapshot); then the events that were queued
after it, which must not overtake its rows. `StreamTask` decides when a stage begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

from flykka.actors.machines.attempt.checkpoints import Checkpoint
from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.attempt.outputs import TaskOutputs
from flykka.actors.machines.attempt.time import SilenceChecked, TaskEventTime
from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.exchange.watermarks import MonotonyViolated
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import (
    AdvanceWatermark,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StageCommand,
    StageOutput,
    UpdateState,
)
from flykka.messages.state.handles import WatermarkState
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MIN, CheckpointBarrier, EndOfData, Event, LatencyMarker, Watermark
from flykka.messages.tasks.task import (
    EventTimeHold,
    LatencyStatistics,
    NotifyEndOfData,
    ReportTaskMetrics,
    TaskDeploymentDescriptor,
    TaskIOMetrics,
)
from flykka.messages.wire.ids import ExecutionAttemptId

STAGES_IN_FLIGHT = 2
"""With two stages, Spark plans one stage while it runs the other. A third would only need more memory."""

Follower = Event | SilenceChecked


@dataclass(slots=True, kw_only=True, eq=False)
class Stage:
    """A stage: its command, its result, and the data that the attempt needs when the stage ends.

    `channels` are the channels of the processed batches, whose credits are returned; `None` stands for a recovered
    batch. `cost` is the cost of the splits that the stage reads, as defined by `ReadLimit`. `barrier` is sent after the
    snapshot of `checkpoint`. `watermark_ms` is the watermark of the inputs at that snapshot. `fired_ms` is set if
    windows and timers up to this watermark fire with the checkpoint; it is sent to the outputs before the barrier.

    Set when the stage ends: `violated` if event time went backwards in the rows (otherwise None), `overtaken` with the
    batches that the barrier has overtaken, and `watermark` with the watermark state of the task at the barrier.
    """

    command: StageCommand
    channels: tuple[int | None, ...] = ()
    cost: int = 0
    barrier: CheckpointBarrier | None = None
    checkpoint: Checkpoint | None = None
    watermark_ms: int = WATERMARK_MIN
    fired_ms: int | None = None
    since_ms: int = 0
    next: StageCommand | None = field(init=False)
    begun_ms: int | None = None
    at_work: bool = False
    result: StageResult = field(init=False)
    violated: MonotonyViolated | None = None
    overtaken: tuple[StageOutput, ...] = ()
    watermark: WatermarkState | None = None

    def __post_init__(self) -> None:
        self.next = self.command
        self.result = StageResult(stage=self.command.stage)

    @property
    def has_ended(self) -> bool:
        return not self.at_work and self.next is None

    @property
    def reads_rows(self) -> bool:
        return isinstance(self.command, ReadSplits | ProcessBatch)

    @property
    def batches_read(self) -> int:
        return 1 if isinstance(self.command, ReadSplits) else len(self.channels)


class StageLine:
    """The stages in flight, at most `limit`, and their followers: the events that are sent after them."""

    __slots__ = ("_line", "in_flight", "limit", "next_stage")

    def __init__(self) -> None:
        self.limit = STAGES_IN_FLIGHT
        self.next_stage = self.in_flight = 0
        self._line: deque[Stage | Follower] = deque()

    @property
    def stages(self) -> list[Stage]:
        return [each for each in self._line if isinstance(each, Stage)]

    @property
    def has_room(self) -> bool:
        return self.in_flight < self.limit

    def add(self, stage: Stage, now: int) -> None:
        """Append a stage. A snapshot may exceed the limit, because barriers must not wait for room."""
        assert stage.command.stage == self.next_stage, (
            f"the next stage must be {self.next_stage}, not {stage.command.stage}"
        )
        stage.since_ms = now
        self.next_stage += 1
        self.in_flight += 1
        self._line.append(stage)

    def add_follower(self, follower: Follower) -> None:
        self._line.append(follower)

    def begin_work(self, now: int) -> list[StageCommand]:
        """Return the commands that may begin: any command of the first stage, and commands without state of later
        stages.
        """
        commands: list[StageCommand] = []
        for place, stage in enumerate(islice(self.stages, self.limit) if self.in_flight else ()):
            sees_no_state = isinstance(stage.next, ReadSplits | ProcessBatch)
            if not stage.at_work and stage.next is not None and (place == 0 or sees_no_state):
                commands.append(stage.next)
                stage.begun_ms = now if stage.begun_ms is None else stage.begun_ms
                stage.at_work, stage.next = True, None
        return commands

    def on_answer(self, answer: StageResult | StageCommand) -> bool:
        """Record the result of a stage, or the end of a command without a result. Returns False if it is stale."""
        stage = next((each for each in self.stages if each.command.stage == answer.stage and each.at_work), None)
        if stage is None:
            return False
        stage.at_work = False
        if isinstance(answer, StageResult):
            stage.result = answer
            stage.next = UpdateState(stage=answer.stage) if answer.updates_state else None
        return True

    def pop_ended(self) -> Stage | None:
        first = self._line[0] if self._line else None
        if not isinstance(first, Stage) or not first.has_ended:
            return None
        self.in_flight -= 1
        self._line.popleft()
        return first

    def released(self) -> list[Follower]:
        followers: list[Follower] = []
        while self._line and not isinstance(first := self._line[0], Stage):
            followers.append(first)
            self._line.popleft()
        return followers

    def clear(self) -> None:
        self._line.clear()
        self.in_flight = 0

    def check(self) -> None:
        stages = self.stages
        numbers = [stage.command.stage for stage in stages]
        assert len(stages) == self.in_flight
        assert numbers == sorted(set(numbers))
        assert all(number < self.next_stage for number in numbers)
        assert all(each.reads_rows for each in stages[1:] if each.at_work)


class Stages:
    """The stages in flight of an attempt, with its outputs, its counters and the watermarks that it generates."""

    __slots__ = ("_accumulators", "_attempt", "event_time", "has_reached_end_of_data", "line", "meter", "outputs")

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self.line = StageLine()
        name = f"{descriptor.vertex.name} ({descriptor.subtask + 1}/{descriptor.vertex.parallelism})"
        self.outputs = TaskOutputs(name, descriptor.outputs, descriptor.buffers)
        self.meter = TaskMeter()
        self.event_time = TaskEventTime(descriptor)
        self.has_reached_end_of_data = False
        self._attempt = descriptor.attempt
        self._accumulators: tuple[AccumulatorSnapshot, ...] = ()

    @property
    def has_room(self) -> bool:
        return self.line.has_room and not self.outputs.is_back_pressured

    @property
    def is_reading(self) -> bool:
        return any(stage.reads_rows for stage in self.line.stages)

    def on_tick(self, now: int) -> None:
        self.meter.on_tick(now)
        self.event_time.on_tick(now)

    def account_time(self, *, is_running: bool, has_input: Callable[[], bool]) -> None:
        """Set the activity until the next event. `has_input` is called only if nothing else decides the activity."""
        is_idle = self.line.in_flight == 0
        if not is_running:
            self.meter.activity = Activity.NOT_RUNNING
        elif not is_idle:
            self.meter.activity = _BUSY
        elif self.outputs.is_back_pressured and has_input():
            self.meter.activity = Activity.BACK_PRESSURED
        else:
            self.meter.activity = _IDLE
        self.event_time.is_paused = self.event_time.makes_watermarks and is_idle and has_input()

    def begin(self, stage: Stage) -> list[TaskEffect]:
        self.line.add(stage, self.meter.now_ms)
        return self.begin_work()

    def begin_work(self) -> list[TaskEffect]:
        return [Tell(to=Role.BRIDGE, message=command) for command in self.line.begin_work(self.meter.now_ms)]

    def emit_after(self, follower: Follower) -> list[TaskEffect]:
        self.line.add_follower(follower)
        return self._send_released()

    def recover(self, outputs: Iterable[StageOutput], input_watermark_ms: int) -> list[TaskEffect]:
        effects = [effect for output in outputs for effect in self.outputs.add(output.output, output.batch)]
        makes_watermarks = self.event_time.makes_watermarks
        watermark_ms = self.event_time.watermark_ms if makes_watermarks else input_watermark_ms
        if watermark_ms > WATERMARK_MIN:
            effects += self._send(Watermark(timestamp_ms=watermark_ms))
        return effects

    def finish(self, stage: Stage, now: int) -> list[TaskEffect]:
        result = stage.result
        self.meter.count(result, stage.batches_read)
        # A stage that moved no rows has no accumulators, so the previous values still hold.
        self._accumulators = result.accumulators or self._accumulators
        effects: list[TaskEffect] = []
        for output in result.outputs:
            effects += self.outputs.add(output.output, output.batch)
        stage.violated = self.event_time.on_result(result) if stage.reads_rows else None
        watermark = self._watermark_after(stage)
        if watermark is not None:
            effects += self._send(watermark)
        if stage.barrier is not None:
            stage.watermark = self.event_time.state or WatermarkState(watermark_ms=stage.watermark_ms)
            stage.barrier = stage.barrier.to_send_on(now)
            sent, stage.overtaken = self.outputs.broadcast_barrier(stage.barrier)
            effects += sent
        return effects + self._send_released()

    def report(self, *, input_queue_length: int = 0, files_unread: int = 0) -> TaskEffect:
        self.meter.input_queue_length = input_queue_length
        self.meter.files_unread = files_unread
        self.meter.output_queue_length = self.outputs.buffers_in_use
        self.meter.held_back_by = self.event_time.long_held_back_by
        report = self.meter.report(self._attempt)
        return Tell(to=Role.JOB_MASTER, message=replace(report, accumulators=self._accumulators))

    def check(self) -> None:
        self.line.check()
        self.outputs.check()

    def _watermark_after(self, stage: Stage) -> Watermark | None:
        match stage.command:
            case ReadSplits() | ProcessBatch():
                return self.event_time.emit()
            case AdvanceWatermark(watermark_ms=watermark_ms):
                return Watermark(timestamp_ms=watermark_ms)
            case SnapshotState() if stage.fired_ms is not None:
                return Watermark(timestamp_ms=stage.fired_ms)
            case _:
                return None

    def _send_released(self) -> list[TaskEffect]:
        events = map(self.event_time.on_follower, self.line.released())
        return [effect for event in events if event is not None for effect in self._send(event)]

    def _send(self, event: Event) -> list[TaskEffect]:
        if isinstance(event, LatencyMarker):
            self.meter.latency(event)
            return self.outputs.emit_in_turn(event)
        effects = self.outputs.broadcast(event)
        if isinstance(event, Watermark):
            self.meter.watermark(event.timestamp_ms)
        if isinstance(event, EndOfData):
            self.has_reached_end_of_data = True
            effects += [self.report(), Tell(to=Role.JOB_MASTER, message=NotifyEndOfData(attempt=self._attempt))]
        return effects


HISTORY_SIZE = 128
"""The number of latencies retained for each source subtask (Flink's `metrics.latency.history-size`)."""


class LatencyStats:
    """The latencies of markers from their source subtasks to the attempt (Flink's LatencyStats).

    A marker waits for the stages and batches before it, but not for other channels. So its latency is about the latency
    of the rows that were read when the marker was sent, without the time that rows spend in state.
    """

    __slots__ = ("_latencies", "_statistics")

    def __init__(self) -> None:
        self._latencies: dict[tuple[str, int], deque[int]] = {}
        self._statistics: dict[tuple[str, int], LatencyStatistics] = {}

    def report_latency(self, marker: LatencyMarker, now: int) -> None:
        source = marker.operator_id, marker.subtask
        self._latencies.setdefault(source, deque(maxlen=HISTORY_SIZE)).append(max(0, now - marker.marked_ms))
        self._statistics.pop(source, None)

    def statistics(self) -> tuple[LatencyStatistics, ...]:
        """Return the statistics of each source subtask. Only statistics with new markers are computed again."""
        for source, latencies in self._latencies.items():
            if source not in self._statistics:
                self._statistics[source] = _statistics(*source, sorted(latencies))
        return tuple(self._statistics.values())


def _statistics(operator_id: str, subtask: int, latencies: list[int]) -> LatencyStatistics:
    last = len(latencies) - 1
    return LatencyStatistics(
        operator_id=operator_id,
        subtask=subtask,
        count=len(latencies),
        min_ms=latencies[0],
        max_ms=latencies[-1],
        median_ms=latencies[last // 2],
        p95_ms=latencies[last * 95 // 100],
        p99_ms=latencies[last * 99 // 100],
    )


class Activity(Enum):
    """The activity of an attempt between two events, for Flink's busyTime, backPressuredTime and idleTime."""

    NOT_RUNNING = "not running"
    BUSY = "busy"
    BACK_PRESSURED = "back-pressured"
    IDLE = "idle"


# Constants, because the members are read for every event and looking up an Enum member is slow.
_BUSY = Activity.BUSY
_IDLE = Activity.IDLE


class TaskMeter:
    """Counters of one attempt, starting at zero. `report` puts them into a message."""

    __slots__ = (
        "_activity",
        "_back_pressured_ms",
        "_batches_in",
        "_batches_out",
        "_busy_ms",
        "_counted_to_ms",
        "_idle_ms",
        "_late_rows",
        "_latencies",
        "_rows_in",
        "_rows_out",
        "_rows_published",
        "_rows_written",
        "_watermark_ms",
        "activity_since_ms",
        "files_unread",
        "held_back_by",
        "input_queue_length",
        "output_queue_length",
    )

    def __init__(self) -> None:
        self._activity = Activity.NOT_RUNNING
        self.activity_since_ms = 0
        self.input_queue_length = self.output_queue_length = self.files_unread = 0
        self.held_back_by: EventTimeHold | None = None
        self._counted_to_ms = 0
        self._busy_ms = self._back_pressured_ms = self._idle_ms = 0
        self._rows_in = self._rows_out = self._late_rows = 0
        self._rows_written = self._rows_published = 0
        self._batches_in = self._batches_out = 0
        self._watermark_ms: int | None = None
        self._latencies = LatencyStats()

    @property
    def now_ms(self) -> int:
        return self._counted_to_ms

    @property
    def activity(self) -> Activity:
        return self._activity

    @activity.setter
    def activity(self, activity: Activity) -> None:
        if activity is not self._activity:
            self._activity, self.activity_since_ms = activity, self._counted_to_ms

    def on_tick(self, now: int) -> None:
        passed_ms, self._counted_to_ms = now - self._counted_to_ms, now
        if not passed_ms:
            return  # Several events may have the same millisecond.
        match self._activity:
            case Activity.BUSY:
                self._busy_ms += passed_ms
            case Activity.BACK_PRESSURED:
                self._back_pressured_ms += passed_ms
            case Activity.IDLE:
                self._idle_ms += passed_ms
            case Activity.NOT_RUNNING:
                pass

    def count(self, result: StageResult, batches_in: int) -> None:
        self._rows_in += result.rows_in
        self._rows_out += result.rows_out
        self._batches_in += batches_in
        self._batches_out += len(result.outputs)
        self._late_rows += result.late_rows
        for staged in result.staged:
            self._rows_written += staged.rows
            # Rows without file names were visible at once.
            self._rows_published += 0 if staged.names else staged.rows

    def count_prepared(self, rows_out: int, rows_staged: int) -> None:
        """Count rows that left the chain with a snapshot, after its stage. Sinks have staged `rows_staged` of them."""
        self._rows_out += rows_out
        self._rows_written += rows_staged

    def count_published(self, rows: int) -> None:
        self._rows_published += rows

    def latency(self, marker: LatencyMarker) -> None:
        self._latencies.report_latency(marker, self._counted_to_ms)

    def watermark(self, watermark_ms: int) -> None:
        self._watermark_ms = watermark_ms

    def report(self, attempt: ExecutionAttemptId) -> ReportTaskMetrics:
        metrics = TaskIOMetrics(
            rows_in=self._rows_in,
            rows_out=self._rows_out,
            batches_in=self._batches_in,
            batches_out=self._batches_out,
            late_rows=self._late_rows,
            busy_ms=self._busy_ms,
            back_pressured_ms=self._back_pressured_ms,
            idle_ms=self._idle_ms,
            watermark_ms=self._watermark_ms,
            latencies=self._latencies.statistics(),
            input_queue_length=self.input_queue_length,
            output_queue_length=self.output_queue_length,
            files_unread=self.files_unread,
            rows_published=self._rows_published,
            rows_staged=self._rows_written - self._rows_published,
            held_back_by=self.held_back_by,
        )
        return ReportTaskMetrics(attempt=attempt, metrics=metrics)
