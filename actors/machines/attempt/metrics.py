"""Metrics of an attempt: rows, batches, its time by activity, its watermark (Flink's TaskIOMetricGroup)."""

from __future__ import annotations

from collections import deque
from enum import Enum

from flykka.messages.attempt.answers import StageResult
from flykka.messages.tasks.exchange import LatencyMarker
from flykka.messages.tasks.task import EventTimeHold, LatencyStatistics, ReportTaskMetrics, TaskIOMetrics
from flykka.messages.wire.ids import ExecutionAttemptId

HISTORY_SIZE = 128
"""The number of latencies kept for each source subtask (Flink's `metrics.latency.history-size`)."""


class LatencyStats:
    """Times of latency markers from their source subtasks to the attempt (Flink's LatencyStats).

    A marker waits behind the stages and batches before it, but not for other channels. So its time is about that of the
    rows that were read when it was sent, without the time that rows spend in state.
    """

    __slots__ = ("_latencies", "_statistics")

    def __init__(self) -> None:
        self._latencies: dict[tuple[str, int], deque[int]] = {}
        self._statistics: dict[tuple[str, int], LatencyStatistics] = {}

    def report_latency(self, marker: LatencyMarker, now: int) -> None:
        """Add the latency of a marker that has arrived."""
        source = marker.operator_id, marker.subtask
        self._latencies.setdefault(source, deque(maxlen=HISTORY_SIZE)).append(max(0, now - marker.marked_ms))
        self._statistics.pop(source, None)

    def statistics(self) -> tuple[LatencyStatistics, ...]:
        """Statistics of each source subtask; only those with new markers are computed again."""
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
    """The activity of an attempt between two events. Flink's busyTime, backPressuredTime and idleTime."""

    NOT_RUNNING = "not running"
    BUSY = "busy"
    BACK_PRESSURED = "back-pressured"
    IDLE = "idle"


class TaskMeter:
    """Counters of one attempt, from zero; `report` makes a message of them."""

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
        """The time of the event at hand."""
        return self._counted_to_ms

    @property
    def activity(self) -> Activity:
        """The activity of the attempt since `activity_since_ms`."""
        return self._activity

    @activity.setter
    def activity(self, activity: Activity) -> None:
        if activity is not self._activity:
            self._activity, self.activity_since_ms = activity, self._counted_to_ms

    def on_tick(self, now: int) -> None:
        """Count the time since the last event to its `activity`."""
        passed_ms, self._counted_to_ms = now - self._counted_to_ms, now
        if not passed_ms:
            return  # Events come faster than milliseconds pass.
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
        """Count the result of a stage that has read `batches_in` batches."""
        self._rows_in += result.rows_in
        self._rows_out += result.rows_out
        self._batches_in += batches_in
        self._batches_out += len(result.outputs)
        self._late_rows += result.late_rows
        for staged in result.staged:
            self._rows_written += staged.rows
            # Rows without names were visible at once.
            self._rows_published += 0 if staged.names else staged.rows

    def count_prepared(self, rows_out: int, rows_staged: int) -> None:
        """Count rows that left the chain for a snapshot, after its stage; sinks have staged some of them."""
        self._rows_out += rows_out
        self._rows_written += rows_staged

    def count_published(self, rows: int) -> None:
        """Count staged rows that a checkpoint has published."""
        self._rows_published += rows

    def latency(self, marker: LatencyMarker) -> None:
        """Add a latency marker that has passed the chain."""
        self._latencies.report_latency(marker, self._counted_to_ms)

    def watermark(self, watermark_ms: int) -> None:
        """Set the watermark that was sent last."""
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
