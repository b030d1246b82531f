"""What an attempt counts: rows, batches, how it spends its time, its watermark (Flink's TaskIOMetricGroup)."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from flykka.messages.ids import ExecutionAttemptId
from flykka.messages.stage import StageFinished
from flykka.messages.task import ReportTaskMetrics, TaskIOMetrics


class Activity(Enum):
    """How an attempt spends its time between two events. Flink's busyTime, backPressuredTime and idleTime."""

    NOT_RUNNING = auto()
    BUSY = auto()
    BACK_PRESSURED = auto()
    IDLE = auto()


class TaskMeter:
    """Counters of one attempt, from zero."""

    def __init__(self) -> None:
        self.activity = Activity.NOT_RUNNING
        self._metrics = TaskIOMetrics()
        self._counted_to_ms = 0

    def pass_time(self, now: int) -> None:
        """It is `now`: the attempt has been at its `activity` since the last time."""
        passed_ms, self._counted_to_ms = now - self._counted_to_ms, now
        so_far = self._metrics
        match self.activity:
            case Activity.BUSY:
                self._metrics = replace(so_far, busy_ms=so_far.busy_ms + passed_ms)
            case Activity.BACK_PRESSURED:
                self._metrics = replace(so_far, back_pressured_ms=so_far.back_pressured_ms + passed_ms)
            case Activity.IDLE:
                self._metrics = replace(so_far, idle_ms=so_far.idle_ms + passed_ms)
            case Activity.NOT_RUNNING:
                pass

    def count(self, finished: StageFinished, *, was_input: bool) -> None:
        """A stage has finished; `was_input` where it read a batch."""
        so_far = self._metrics
        self._metrics = replace(
            so_far,
            rows_in=so_far.rows_in + finished.rows_in,
            rows_out=so_far.rows_out + finished.rows_out,
            batches_in=so_far.batches_in + was_input,
            batches_out=so_far.batches_out + len(finished.outputs),
            late_rows=so_far.late_rows + finished.late_rows,
        )

    def count_late_output(self, rows_out: int) -> None:
        """Rows left the chain while a snapshot was written, behind the stage that began it."""
        self._metrics = replace(self._metrics, rows_out=self._metrics.rows_out + rows_out)

    def watermark(self, watermark_ms: int) -> None:
        """A watermark went down the outputs."""
        self._metrics = replace(self._metrics, watermark_ms=watermark_ms)

    def report(self, attempt: ExecutionAttemptId) -> ReportTaskMetrics:
        """The counters as a message."""
        return ReportTaskMetrics(attempt=attempt, metrics=self._metrics)
