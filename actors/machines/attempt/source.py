"""Reads a source: a batch of its splits per stage, the alignment with other sources, and the end of data.

A stage has costs that do not depend on its rows. So if batches go to other tasks, a few splits wait until the current
stage has ended, and then for as long as that stage took (at most `MAX_PAUSE_MS`). If several sources read every file in
a separate stage, all stages would slow down, whereas a pause as long as a stage delays no row much. Splits also wait
while the consumers have no room for a batch: rows would arrive no sooner, and a barrier after many batches would be
late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.attempt.stages import STAGES_IN_FLIGHT, Stage, Stages
from flykka.actors.machines.attempt.time import SilenceChecked
from flykka.actors.machines.effects import Role, StartTimer, Tell
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.attempt.commands import ReadSplits
from flykka.messages.graph.job_graph import JobType, ResultPartitionType
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, LatencyMarker, Watermark, WatermarkStatus
from flykka.messages.tasks.source import (
    AddSplits,
    AlignWatermark,
    NoMoreSplits,
    ReportedWatermark,
    RequestSplits,
    SourceSplit,
    UnreadSplit,
    files_in,
    size_of,
)
from flykka.messages.tasks.task import IdleDue, LatencyMarkerDue, ReadDue, TaskDeploymentDescriptor, WatermarkReportDue
from flykka.messages.wire.ids import OperatorId

TARGET_MS = 1_000
PATIENCE = 1.5
GROWTH = 4
COLD_STAGES = 3
FORGETTING = 4
OPEN_BYTES = 256 * 1024
ROW_BYTES = 64
SMALL = 2 * 1024**2
LIMIT_MIN = 1 * 1024**2
LIMIT_START = 16 * 1024**2
LIMIT_MAX = 128 * 1024**2


def cost_of(split: SourceSplit) -> int | None:
    size_bytes = size_of(split)
    return None if size_bytes is None else max(size_bytes, ROW_BYTES * split.rows) + OPEN_BYTES


class ReadLimit:
    """Limits the number of waiting splits in the next batch of a source's reader.

    Like Spark's ReadLimit, but adapted at run time, as Flink's BufferDebloater sizes buffers: a batch contains the
    waiting splits up to a limit of `bytes` that keeps its stage near a second, so that a barrier after the batch waits
    no longer than that. A split costs its bytes, or `ROW_BYTES` for each known row if that is more, and `OPEN_BYTES`
    because each file is opened. A split without a size is read as a batch of its own, as is a split that costs more
    than the limit.

    The limit starts at `LIMIT_START`. A batch that was at least half full and took less than `TARGET_MS` raises the
    limit to the cost that its stage would have read in this time, at most `GROWTH` times the old limit. A batch, full
    or not, that took more than `PATIENCE` times as long lowers the limit in the same way, at most to a half. There are
    two exceptions. The first `COLD_STAGES` of an attempt, in which Spark compiles the code, never lower the limit. And
    reading less does not save the fixed costs of a stage: if stages that cost at most `SMALL` take more than half of
    the target, the target becomes twice their duration. Such stages take longer while the machine is busy, so their
    shortest duration is forgotten slowly: a longer one raises it by `1 / FORGETTING` of the difference.
    """

    __slots__ = ("_overhead_ms", "_stages", "bytes")

    def __init__(self) -> None:
        self.bytes = LIMIT_START
        self._stages = 0
        self._overhead_ms: int | None = None

    def cost(self, split: SourceSplit) -> int:
        """Return the cost of a split in a batch. A split without a size fills the batch."""
        cost = cost_of(split)
        return self.bytes if cost is None else cost

    def next_batch(self, splits: Iterable[SourceSplit]) -> int:
        """Return the number of splits in the next batch: at least one if there are any."""
        count = total = 0
        for split in splits:
            total += self.cost(split)
            is_alone = size_of(split) is None
            if count and (is_alone or total > self.bytes):
                break
            count += 1
            if is_alone:
                break
        return count

    def learn(self, cost: int, duration_ms: int) -> None:
        is_cold = self._stages < COLD_STAGES
        self._stages += 1
        if cost <= SMALL and not is_cold:
            known_ms = duration_ms if self._overhead_ms is None else self._overhead_ms
            self._overhead_ms = min(duration_ms, known_ms + (duration_ms - known_ms) // FORGETTING)
        target_ms = max(TARGET_MS, 2 * (self._overhead_ms or 0))
        in_target = cost * target_ms // max(duration_ms, 1)
        if 2 * cost >= self.bytes and duration_ms < target_ms:
            self.bytes = min(max(in_target, self.bytes), GROWTH * self.bytes, LIMIT_MAX)
        elif duration_ms > PATIENCE * target_ms and not is_cold:
            self.bytes = max(min(in_target, self.bytes), self.bytes // 2, LIMIT_MIN)

    def check(self) -> None:
        assert LIMIT_MIN <= self.bytes <= LIMIT_MAX, f"a batch is limited to {self.bytes} bytes"


SPLITS_AHEAD = 2 * STAGES_IN_FLIGHT
"""The minimum number of splits held or requested: enough while the JobMaster delays assignments for a checkpoint."""
MAX_PAUSE_MS = 500
"""The longest pause in ms of a source with few splits. Otherwise a pause is as long as a stage, which can take many
seconds.
"""
_STATE = "SourceReaderState"

SourceReadingEvent = AddSplits | NoMoreSplits | ReadDue | LatencyMarkerDue | AlignWatermark | WatermarkReportDue


class SplitReader:
    """The unread splits of a source subtask (Flink's SourceReader, without the reading). Decides when to request more.

    Splits are requested in advance, so that a stage never waits for the JobMaster: either a fixed number, or as many
    small splits as two batches contain. Unread splits are the reader's state. After a change of the parallelism, a
    reader may restore the splits of several readers; it reads them in the order in which the source assigned them.
    """

    __slots__ = ("_ahead", "_empty_state", "_has_all", "_requested", "_typical_cost", "_unread", "limit", "operator_id")

    def __init__(self, operator_id: OperatorId, ahead: int) -> None:
        """`ahead` is the minimum number of splits that are held or requested while the source has more."""
        self.operator_id = operator_id
        self.limit = ReadLimit()
        self._ahead = ahead
        # The mean cost of the splits that arrived last, or `None` if splits are not read together.
        self._typical_cost: int | None = None
        self._unread: deque[UnreadSplit] = deque()
        self._requested = 0
        self._has_all = False
        # This state is the same for every checkpoint of a source that waits for data.
        self._empty_state = self._state(())

    @property
    def has_unread(self) -> bool:
        return bool(self._unread)

    @property
    def files_unread(self) -> int:
        return files_in(unread.split for unread in self._unread)

    @property
    def batch_limit_bytes(self) -> int | None:
        return None if self._typical_cost is None else self.limit.bytes

    @property
    def has_few_unread(self) -> bool:
        """True if the unread splits fill at most half a batch, so that further splits could join it."""
        if not self._unread or self._typical_cost is None:
            return False
        return 2 * sum(self.limit.cost(unread.split) for unread in self._unread) < self.limit.bytes

    @property
    def is_exhausted(self) -> bool:
        return self._has_all and not self._unread

    def restore(self, states: Iterable[OperatorSubtaskState]) -> None:
        """Restore the splits that were unread at a checkpoint.

        Raises:
            UnreadableStateError: the state cannot be read.
        """
        own = (state for state in states if state.operator_id == self.operator_id)
        self._unread.extend(sorted(elements_of(own, _STATE, UnreadSplit), key=lambda split: split.number))

    def snapshot(self) -> OperatorSubtaskState:
        return self._state(self._unread) if self._unread else self._empty_state

    def splits_to_request(self) -> int:
        if self._has_all:
            return 0
        two_batches = 0 if self._typical_cost is None else 2 * self.limit.bytes // self._typical_cost
        ahead = max(self._ahead, two_batches)
        count = max(0, ahead - len(self._unread) - self._requested)
        self._requested += count
        return count

    def add(self, splits: tuple[SourceSplit, ...], numbers: tuple[int, ...] = ()) -> None:
        """Add splits that have arrived. `numbers` are their assignment numbers, if assignments are counted."""
        counted = zip(splits, numbers or (0,) * len(splits), strict=True)
        self._unread.extend(UnreadSplit(split=split, number=number) for split, number in counted)
        self._requested = max(0, self._requested - len(splits))
        if splits:
            costs = [self.limit.cost(split) for split in splits]
            self._typical_cost = None if size_of(splits[-1]) is None else sum(costs) // len(costs)

    def no_more(self) -> None:
        self._has_all = True

    def next(self) -> tuple[SourceSplit, ...]:
        count = self.limit.next_batch(unread.split for unread in self._unread)
        return tuple(self._unread.popleft().split for _ in range(count))

    def _state(self, splits: Iterable[UnreadSplit]) -> OperatorSubtaskState:
        return OperatorSubtaskState(operator_id=self.operator_id, operator_state=(list_state(_STATE, splits),))


class AlignedReading:
    """Aligns the watermarks of one source: pauses it while its event time is too far ahead of its group's.

    At every interval the source reports its watermark, if that has changed. The response limits how far the source may
    read, as in Flink's SourceOperator. Until the first response it reads without a limit. A paused source takes part in
    checkpoints, and is not idle while it has unread splits. A source without an alignment never pauses.
    """

    __slots__ = ("_alignment", "_attempt", "_has_ended", "_idleness", "_max_watermark_ms", "_reported", "_stages")

    def __init__(self, descriptor: TaskDeploymentDescriptor, stages: Stages, idleness: WatermarksWithIdleness) -> None:
        is_batch = descriptor.job_type is JobType.BATCH
        self._alignment = None if is_batch else descriptor.vertex.watermark_alignment
        self._attempt = descriptor.attempt
        self._stages = stages
        self._idleness = idleness
        self._max_watermark_ms = WATERMARK_MAX
        self._reported: ReportedWatermark | None = None
        self._has_ended = False

    @property
    def group(self) -> str | None:
        return None if self._alignment is None else self._alignment.group

    @property
    def is_too_far_ahead(self) -> bool:
        return self._stages.event_time.watermark_ms > self._max_watermark_ms

    def start(self) -> list[TaskEffect]:
        """Report the watermark at once, because the group waits for this source."""
        return [] if self._alignment is None else self.on_due()

    def on_due(self) -> list[TaskEffect]:
        assert self._alignment is not None, "the watermark of this source is not aligned"
        if self._has_ended:
            return []
        interval_ms = self._alignment.update_interval_ms
        return [
            *self._report(),
            StartTimer(key="watermark-report", delay_ms=interval_ms, message=WatermarkReportDue()),
        ]

    def align(self, command: AlignWatermark) -> None:
        self._max_watermark_ms = command.max_watermark_ms

    def end(self) -> list[TaskEffect]:
        """Report the end of data, so that the group does not wait for this source."""
        self._has_ended = True
        return [] if self._alignment is None else self._report()

    def _report(self) -> list[TaskEffect]:
        report = ReportedWatermark(
            attempt=self._attempt,
            watermark_ms=WATERMARK_MAX if self._has_ended else self._stages.event_time.watermark_ms,
            is_idle=self._idleness.is_idle,
        )
        if report == self._reported:
            return []
        self._reported = report
        return [Tell(to=Role.JOB_MASTER, message=report)]


class SourceReading:
    """The source at the head of one attempt's chain. `reader` has its splits."""

    __slots__ = (
        "_aligned",
        "_attempt",
        "_coalesces",
        "_idleness",
        "_is_pausing",
        "_latency_interval_ms",
        "_restore",
        "_stages",
        "_subtask",
        "end_of_data",
        "reader",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor, stages: Stages, idleness: WatermarksWithIdleness) -> None:
        outputs = descriptor.outputs
        is_blocking = any(output.partition_type is ResultPartitionType.BLOCKING for output in outputs)
        self._coalesces = descriptor.coalesces_batches and bool(outputs) and not is_blocking
        self.end_of_data = False
        self.reader = SplitReader(descriptor.vertex.operators[0].operator_id, SPLITS_AHEAD)
        self._attempt = descriptor.attempt
        self._subtask = descriptor.subtask
        self._restore = descriptor.restore
        self._latency_interval_ms = descriptor.latency_tracking_interval_ms
        self._is_pausing = False
        self._stages = stages
        self._idleness = idleness
        self._aligned = AlignedReading(descriptor, stages, idleness)

    def open(self) -> None:
        if self._restore is not None:
            self.reader.restore(self._restore.operators)

    def start(self) -> list[TaskEffect]:
        return [*self._idleness.start(), *self._aligned.start(), *self._start_latency_timer()]

    def handle(self, event: SourceReadingEvent, now: int) -> list[TaskEffect]:
        match event:
            case AddSplits(splits=splits, numbers=numbers):
                self.reader.add(splits, numbers)
            case NoMoreSplits():
                self.reader.no_more()
            case ReadDue():
                self._is_pausing = False
            case AlignWatermark():
                self._aligned.align(event)
            case WatermarkReportDue():
                return self._aligned.on_due()
            case LatencyMarkerDue():
                return self._on_latency_marker_due(now)
        return []

    def request_splits(self) -> list[TaskEffect]:
        count = self.reader.splits_to_request()
        if count == 0 or self.end_of_data:
            return []
        request = RequestSplits(attempt=self._attempt, operator_id=self.reader.operator_id, count=count)
        return [Tell(to=Role.JOB_MASTER, message=request)]

    def read(self) -> list[TaskEffect] | None:
        """Begin a stage that reads the next batch of splits, or end the data. Returns `None` if neither is possible."""
        if self.end_of_data or self._waits_for_more or self.held_back_by is not None:
            return None
        splits = self.reader.next()
        if splits:
            awake = self._idleness.read()
            command = ReadSplits(stage=self._stages.line.next_stage, splits=splits)
            stage = Stage(command=command, cost=sum(map(self.reader.limit.cost, splits)))
            return [*awake, *self._stages.begin(stage)]
        return self.end_data() if self.reader.is_exhausted else None

    def on_read(self, cost: int, duration_ms: int) -> list[TaskEffect]:
        self.reader.limit.learn(cost, duration_ms)
        awake = self._idleness.read()
        if not self._coalesces or not duration_ms:
            return awake
        self._is_pausing = True
        return [*awake, StartTimer(key="read", delay_ms=min(duration_ms, MAX_PAUSE_MS), message=ReadDue())]

    @property
    def held_back_by(self) -> str | None:
        """The group of sources for which this source waits, if it has unread splits."""
        return self._aligned.group if self._aligned.is_too_far_ahead and self.reader.has_unread else None

    @property
    def _waits_for_more(self) -> bool:
        if not self._coalesces:
            return False
        has_to_wait = self._is_pausing or self._stages.is_reading or not self._stages.outputs.have_credit
        return has_to_wait and self.reader.has_few_unread

    def end_data(self) -> list[TaskEffect]:
        if self.end_of_data:
            return []
        self.end_of_data = True
        return (
            self._idleness.end()
            + self._aligned.end()
            + self._stages.emit_after(Watermark(timestamp_ms=WATERMARK_MAX))
            + self._stages.emit_after(EndOfData())
        )

    def _on_latency_marker_due(self, now: int) -> list[TaskEffect]:
        if self.end_of_data:
            return []
        marker = LatencyMarker(marked_ms=now, operator_id=self.reader.operator_id, subtask=self._subtask)
        return [*self._start_latency_timer(), *self._stages.emit_after(marker)]

    def _start_latency_timer(self) -> list[TaskEffect]:
        interval_ms = self._latency_interval_ms
        if interval_ms is None:
            return []
        return [StartTimer(key="latency-marker", delay_ms=interval_ms, message=LatencyMarkerDue())]


class WatermarksWithIdleness:
    """Decides what happens to event time while a task that generates watermarks reads nothing.

    A task that reads nothing for its timeout must not hold its consumers back. Either it becomes idle (Flink's
    WatermarksWithIdleness), or, with a quiet period, its event time advances with the clock from the watermark of the
    last rows. `watermarks` decides what each partition of a source contributes. One timer runs while the task is
    active; if rows were read meanwhile, the timer is started again for the remaining time. An idle task has no timer
    and becomes active with the next rows.
    """

    __slots__ = ("_event_time", "_first_check_ms", "_is_ended", "_stages", "is_idle")

    def __init__(self, descriptor: TaskDeploymentDescriptor, stages: Stages) -> None:
        vertex, is_batch = descriptor.vertex, descriptor.job_type is JobType.BATCH
        self._stages = stages
        self._event_time = stages.event_time
        timeouts = [each for each in (vertex.idle_timeout_ms, vertex.quiet_period_ms) if each is not None]
        is_checked = self._event_time.makes_watermarks and not is_batch
        self._first_check_ms = min(timeouts, default=None) if is_checked else None
        self._is_ended = False
        # True if the consumers were notified that this task no longer holds them back.
        self.is_idle = False

    def start(self) -> list[TaskEffect]:
        if self._event_time.makes_watermarks:
            self._event_time.generator.start(self._event_time.silence_clock_ms)
        return self._start_timer()

    def read(self) -> list[TaskEffect]:
        """Record that rows were read. An idle task reports itself active before it sends the rows."""
        if self._event_time.makes_watermarks:
            self._event_time.generator.on_read(self._event_time.silence_clock_ms)
        if not self.is_idle:
            return []
        self.is_idle = False
        return [*self._stages.emit_after(WatermarkStatus(idle=False)), *self._start_timer()]

    def end(self) -> list[TaskEffect]:
        """Stop the checks: event time has reached its end, which consumers accept from an active task only."""
        awake = self.read()
        self._is_ended = True
        return awake

    def on_due(self, *, has_unread: bool) -> list[TaskEffect]:
        """Check for idleness. While rows are in flight, or wait for a consumer, the task is not idle."""
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
        assert next_ms is not None, "the clock changes neither the idleness nor the event time of an active task"
        return [StartTimer(key="idle", delay_ms=next_ms, message=IdleDue()), *checked]

    def _start_timer(self) -> list[TaskEffect]:
        first_ms = self._first_check_ms
        return [] if first_ms is None else [StartTimer(key="idle", delay_ms=first_ms, message=IdleDue())]
