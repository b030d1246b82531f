"""The read model of a vertex: states of its subtasks, counts over time, and aggregates of both."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flykka.messages.checkpointing.statistics import SubtaskCheckpointStatistics
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.graph.job_graph import JobVertex, OperatorKind
from flykka.messages.monitoring.job_details import (
    AttemptDetails,
    JobVertexDetails,
    Latency,
    StateTimestamp,
    SubtaskCount,
    SubtaskDetails,
    TimeShares,
)
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.task import ExecutionState, LatencyStatistics, TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, TaskManagerId

RATE_WINDOW_MS = 5_000
"""The time window of rates in ms: long enough for steady values, short enough to drop to zero soon after the last row.
"""

MAX_ATTEMPTS = 16
"""The maximum number of earlier attempts retained for each subtask (Flink's execution.attempts-history-size)."""

_NOTHING = TaskIOMetrics()


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ms: int
    metrics: TaskIOMetrics
    accumulators: tuple[AccumulatorSnapshot, ...]


_Window = tuple[_Sample, _Sample]


@dataclass(slots=True)
class _Subtask:
    """The newest attempt of a subtask. `before` has the counts of earlier attempts."""

    attempt_number: int = 0
    state: ExecutionState = ExecutionState.CREATED
    samples: deque[_Sample] = field(default_factory=deque)
    before: TaskIOMetrics = _NOTHING
    rows_in_checkpoint: int = 0
    """A lower bound of the rows that the newest attempt had counted when its last checkpoint was taken."""
    rows_read_again: int = 0
    attempt: ExecutionAttemptId | None = None
    timestamps: dict[ExecutionState, int] = field(default_factory=dict)
    task_manager: TaskManagerId | None = None
    failure: SerializedThrowable | None = None
    earlier: deque[AttemptDetails] = field(default_factory=lambda: deque(maxlen=MAX_ATTEMPTS))

    @property
    def now(self) -> TaskIOMetrics:
        return self.samples[-1].metrics if self.samples else _NOTHING

    @property
    def accumulators(self) -> tuple[AccumulatorSnapshot, ...]:
        return self.samples[-1].accumulators if self.samples else ()

    def has_attempt(self, number: int) -> bool:
        """Return True if the attempt is the newest. A newer attempt replaces the current one."""
        if number > self.attempt_number:
            if self.attempt is not None:
                self.earlier.append(replace(self.details(), accumulators=self.accumulators))
            self.attempt = self.task_manager = self.failure = None
            self.timestamps.clear()
            self.before = _counted(self.before, self.now)
            self.rows_read_again += self.now.rows_in - self.rows_in_checkpoint
            self.rows_in_checkpoint = 0
            self.attempt_number, self.state = number, ExecutionState.CREATED
            self.samples.clear()
        return number == self.attempt_number

    def record_state(self, message: ExecutionStateChanged) -> None:
        self.state, self.attempt = message.state, message.attempt
        self.timestamps.setdefault(message.state, message.timestamp_ms)
        self.task_manager = message.task_manager or self.task_manager
        self.failure = message.failure or self.failure
        if message.state is ExecutionState.RUNNING and not self.samples:
            # The attempt has read nothing yet. The first rate is measured from here.
            self.sample(message.timestamp_ms, _NOTHING)

    def details(self) -> AttemptDetails:
        return AttemptDetails(
            attempt=self.attempt,
            attempt_number=self.attempt_number,
            state=self.state,
            timestamps=tuple(StateTimestamp(state=state, at_ms=at_ms) for state, at_ms in self.timestamps.items()),
            task_manager=self.task_manager,
            metrics=self.now,
            failure=self.failure,
        )

    def sample(self, at_ms: int, metrics: TaskIOMetrics, accumulators: tuple[AccumulatorSnapshot, ...] = ()) -> None:
        self.samples.append(_Sample(at_ms, metrics, accumulators))
        while len(self.samples) > 2 and self.samples[1].at_ms <= at_ms - RATE_WINDOW_MS:
            self.samples.popleft()

    def checkpointed(self, triggered_ms: int) -> None:
        """Record the trigger time of a completed checkpoint: rows counted before it are not read again by a restart."""
        # The counts of an attempt only grow, so the last report before the trigger has the highest.
        for sample in reversed(self.samples):
            if sample.at_ms <= triggered_ms:
                self.rows_in_checkpoint = sample.metrics.rows_in
                return

    def recent(self) -> _Window | None:
        if self.state is not ExecutionState.RUNNING or len(self.samples) < 2:
            return None
        first, last = self.samples[0], self.samples[-1]
        return (first, last) if first.at_ms < last.at_ms else None

    def rated(self) -> tuple[AccumulatorSnapshot, ...]:
        if (window := self.recent()) is None:
            return self.accumulators
        first, last = window
        before = {(each.operator_id, each.name): each.count for each in first.accumulators}
        seconds = (last.at_ms - first.at_ms) / 1_000
        return tuple(
            each
            if each.type is not AccumulatorType.METER
            else replace(each, per_second=(each.count - before.get((each.operator_id, each.name), 0)) / seconds)
            for each in last.accumulators
        )


class VertexReadModel:
    """Applies the messages about the subtasks of one vertex. Late messages about earlier attempts change nothing."""

    def __init__(self, vertex: JobVertex) -> None:
        self._vertex = vertex
        self._subtasks = [_Subtask() for _ in range(vertex.parallelism)]
        self._gone = _Subtask()
        """Accumulates the counters of subtasks removed by a rescale, in `before` and `rows_read_again`."""
        self._files_unassigned = 0
        self.coordinator_metrics: tuple[AccumulatorSnapshot, ...] = ()

    def rescale(self, parallelism: int) -> None:
        """Change the number of subtasks. The counters of removed subtasks are retained."""
        for subtask in self._subtasks[parallelism:]:
            self._gone.before = _counted(self._gone.before, _counted(subtask.before, subtask.now))
            self._gone.rows_read_again += subtask.rows_read_again + subtask.now.rows_in - subtask.rows_in_checkpoint
        more = range(len(self._subtasks), parallelism)
        self._subtasks = [*self._subtasks[:parallelism], *(_Subtask() for _ in more)]
        self._vertex = replace(self._vertex, parallelism=parallelism)

    def reset(self) -> None:
        for subtask in self._subtasks:
            subtask.state = ExecutionState.CREATED

    def record_state(self, subtask: int, attempt_number: int, message: ExecutionStateChanged) -> None:
        reported = self._subtasks[subtask]
        if reported.has_attempt(attempt_number):
            reported.record_state(message)

    def record_metrics(
        self,
        subtask: int,
        attempt_number: int,
        metrics: TaskIOMetrics,
        at_ms: int,
        accumulators: tuple[AccumulatorSnapshot, ...] = (),
        files_unassigned: int = 0,
    ) -> int:
        """Apply a report of an attempt. Returns the number of rows read since its last report."""
        self._files_unassigned = files_unassigned
        reported = self._subtasks[subtask]
        if not reported.has_attempt(attempt_number):
            return 0
        before = reported.now.rows_in
        reported.sample(at_ms, metrics, accumulators)
        return metrics.rows_in - before

    def record_checkpoint(self, triggered_ms: int) -> None:
        for subtask in self._subtasks:
            subtask.checkpointed(triggered_ms)

    @property
    def is_source(self) -> bool:
        return any(operator.kind is OperatorKind.SOURCE for operator in self._vertex.operators)

    @property
    def watermark_ms(self) -> int | None:
        """The lowest watermark of the subtasks; `None` before the first watermark and after the end of event time."""
        watermark = least_watermark(subtask.now.watermark_ms for subtask in self._subtasks)
        return None if event_time_has_ended(watermark) else watermark

    @property
    def accumulators(self) -> Iterator[AccumulatorSnapshot]:
        return (snapshot for subtask in self._subtasks for snapshot in subtask.accumulators)

    @property
    def states(self) -> Counter[ExecutionState]:
        return Counter(subtask.state for subtask in self._subtasks)

    def subtasks(
        self, acknowledged: Mapping[tuple[JobVertexId, int], SubtaskCheckpointStatistics]
    ) -> tuple[SubtaskDetails, ...]:
        vertex_id = self._vertex.vertex_id
        return tuple(
            _details(number, subtask, acknowledged.get((vertex_id, number)))
            for number, subtask in enumerate(self._subtasks)
        )

    def details(self, at_ms: int) -> JobVertexDetails:
        states = self.states
        # One iteration over the subtasks, because there may be thousands, and displays query each second.
        now = [subtask.now for subtask in self._subtasks]
        all_time = (*self._subtasks, self._gone)
        counts_of = [*now, *(subtask.before for subtask in all_time if subtask.before is not _NOTHING)]
        windows = [window for subtask in self._subtasks if (window := subtask.recent()) is not None]
        least = least_watermark(metrics.watermark_ms for metrics in now)
        ended = event_time_has_ended(least)
        watermark = None if ended else least
        rows_in, rows_out = _rates(windows)
        running = [subtask.now for subtask in self._subtasks if subtask.state is ExecutionState.RUNNING]
        return JobVertexDetails(
            vertex_id=self._vertex.vertex_id,
            name=self._vertex.name,
            parallelism=self._vertex.parallelism,
            sources=self._names(OperatorKind.SOURCE),
            sinks=self._names(OperatorKind.SINK),
            state=aggregate_state(states),
            subtask_counts=tuple(SubtaskCount(state=state, count=count) for state, count in states.items()),
            rows_in=sum(metrics.rows_in for metrics in counts_of),
            rows_out=sum(metrics.rows_out for metrics in counts_of),
            rows_published=sum(metrics.rows_published for metrics in counts_of),
            rows_staged=sum(metrics.rows_staged for metrics in now),
            rows_read_again=sum(subtask.rows_read_again for subtask in all_time),
            late_rows=sum(metrics.late_rows for metrics in counts_of),
            rows_in_per_second=rows_in,
            rows_out_per_second=rows_out,
            watermark_ms=watermark,
            watermark_lag_ms=None if watermark is None else at_ms - watermark,
            event_time_ended=ended,
            shares=_shares(windows),
            latency=slowest(way for metrics in now for way in metrics.latencies),
            input_queue_length=sum(metrics.input_queue_length for metrics in running),
            output_queue_length=sum(metrics.output_queue_length for metrics in running),
            coordinator_metrics=self.coordinator_metrics,
            held_back_by=min(
                (hold for metrics in running if (hold := metrics.held_back_by) is not None),
                key=lambda hold: hold.watermark_ms,
                default=None,
            ),
            files_waiting=self._files_unassigned + sum(metrics.files_unread for metrics in running) if running else 0,
        )

    def _names(self, kind: OperatorKind) -> tuple[str, ...]:
        return tuple(operator.name for operator in self._vertex.operators if operator.kind is kind)


def _details(number: int, subtask: _Subtask, acknowledged: SubtaskCheckpointStatistics | None) -> SubtaskDetails:
    window = subtask.recent()
    windows = () if window is None else (window,)
    rows_in, rows_out = _rates(windows)
    return SubtaskDetails(
        subtask=number,
        current=subtask.details(),
        earlier=tuple(subtask.earlier),
        rows_in_per_second=rows_in,
        rows_out_per_second=rows_out,
        shares=_shares(windows),
        accumulators=subtask.rated(),
        last_checkpoint=None if acknowledged is None else acknowledged.metrics,
    )


def _rates(windows: Sequence[_Window]) -> tuple[float, float]:
    rows_in = rows_out = 0.0
    for first, last in windows:
        ms = last.at_ms - first.at_ms
        rows_in += (last.metrics.rows_in - first.metrics.rows_in) * 1_000 / ms
        rows_out += (last.metrics.rows_out - first.metrics.rows_out) * 1_000 / ms
    return rows_in, rows_out


def _shares(windows: Sequence[_Window]) -> TimeShares | None:
    busy = back_pressured = idle = 0
    for first, last in windows:
        busy += last.metrics.busy_ms - first.metrics.busy_ms
        back_pressured += last.metrics.back_pressured_ms - first.metrics.back_pressured_ms
        idle += last.metrics.idle_ms - first.metrics.idle_ms
    whole = busy + back_pressured + idle
    if whole <= 0:
        return None
    return TimeShares(busy=busy / whole, back_pressured=back_pressured / whole, idle=idle / whole)


def _counted(so_far: TaskIOMetrics, more: TaskIOMetrics) -> TaskIOMetrics:
    return TaskIOMetrics(
        rows_in=so_far.rows_in + more.rows_in,
        rows_out=so_far.rows_out + more.rows_out,
        late_rows=so_far.late_rows + more.late_rows,
        rows_published=so_far.rows_published + more.rows_published,
    )


def aggregate_state(subtasks: Mapping[ExecutionState, int]) -> ExecutionState:
    """Return the state that represents all subtasks (Flink's ExecutionJobVertex.getAggregateJobVertexState)."""
    for state in (
        ExecutionState.FAILED,
        ExecutionState.CANCELING,
        ExecutionState.CANCELED,
        ExecutionState.RUNNING,
    ):
        if subtasks.get(state):
            return state
    if finished := subtasks.get(ExecutionState.FINISHED):
        return ExecutionState.FINISHED if finished == sum(subtasks.values()) else ExecutionState.RUNNING
    return ExecutionState.CREATED


def least_watermark(watermarks: Iterable[int | None]) -> int | None:
    values = [WATERMARK_MIN if watermark is None else watermark for watermark in watermarks]
    least = min(values, default=WATERMARK_MIN)
    return None if least == WATERMARK_MIN else least


def slowest(latencies: Iterable[LatencyStatistics]) -> Latency | None:
    slow = max(latencies, key=lambda way: (way.median_ms, way.p99_ms), default=None)
    return None if slow is None else Latency(median_ms=slow.median_ms, p99_ms=slow.p99_ms)


def event_time_has_ended(watermark_ms: int | None) -> bool:
    return watermark_ms == WATERMARK_MAX
