"""Metrics of an attempt: rows, batches, its time by activity, its watermark (Flink's TaskIOMetricGroup)."""

from __future__ import annotations

from enum import Enum

from flykka.actors.machines.attempt.latency_stats import LatencyStats
from flykka.messages.attempt.answers import StageResult
from flykka.messages.tasks.exchange import LatencyMarker
from flykka.messages.tasks.task import EventTimeHold, ReportTaskMetrics, TaskIOMetrics
from flykka.messages.wire.ids import ExecutionAttemptId


class Activity(Enum):
    """The activity of an attempt between two events. Flink's busyTime, backPressuredTime and idleTime."""

    NOT_RUNNING = "not running"
    BUSY = "busy"
    BACK_PRESSURED = "back-pressured"
    IDLE = "idle"


class TaskMeter:
    """Counters of one attempt, from zero. They are counted with every event, and made a value of when they are told."""

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
        """The time that has passed so far."""
        return self._counted_to_ms

    @property
    def activity(self) -> Activity:
        """The activity of the attempt since `activity_since_ms`."""
        return self._activity

    @activity.setter
    def activity(self, activity: Activity) -> None:
        if activity is not self._activity:
            self._activity, self.activity_since_ms = activity, self._counted_to_ms

    def pass_time(self, now: int) -> None:
        """It is `now`: the attempt has been at its `activity` since the last time."""
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
        """A stage has ended that read so many batches."""
        self._rows_in += result.rows_in
        self._rows_out += result.rows_out
        self._batches_in += batches_in
        self._batches_out += len(result.outputs)
        self._late_rows += result.late_rows
        for staged in result.staged:
            self._rows_written += staged.rows
            # Without names to publish them by, the sink has shown them already.
            self._rows_published += 0 if staged.names else staged.rows

    def count_prepared(self, rows_out: int, rows_staged: int) -> None:
        """Rows left the chain for a snapshot, after its stage; sinks have staged some of them."""
        self._rows_out += rows_out
        self._rows_written += rows_staged

    def count_published(self, rows: int) -> None:
        """Staged rows were published with a checkpoint."""
        self._rows_published += rows

    def latency(self, marker: LatencyMarker) -> None:
        """A latency marker has come through the chain, now."""
        self._latencies.report_latency(marker, self._counted_to_ms)

    def watermark(self, watermark_ms: int) -> None:
        """A watermark went down the outputs."""
        self._watermark_ms = watermark_ms

    def report(self, attempt: ExecutionAttemptId) -> ReportTaskMetrics:
        """The counters as a message."""
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
