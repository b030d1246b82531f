"""What an attempt counts: rows, batches, busy time, watermark (Flink's TaskIOMetricGroup)."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.ids import ExecutionAttemptId
from flykka.messages.stage import StageFinished
from flykka.messages.task import ReportTaskMetrics, TaskIOMetrics


class TaskMeter:
    """Counters of one attempt, from zero."""

    def __init__(self) -> None:
        self._metrics = TaskIOMetrics()

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
            busy_ms=so_far.busy_ms + finished.duration_ms,
        )

    def watermark(self, watermark_ms: int) -> None:
        """A watermark went down the outputs."""
        self._metrics = replace(self._metrics, watermark_ms=watermark_ms)

    def report(self, attempt: ExecutionAttemptId) -> ReportTaskMetrics:
        """The counters as a message."""
        return ReportTaskMetrics(attempt=attempt, metrics=self._metrics)
