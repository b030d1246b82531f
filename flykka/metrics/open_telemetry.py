"""Exports metrics, checkpoints and restarts to an OTLP receiver over HTTP."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from socket import gethostname

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.diagnosis.job_queries import ClusterQueries
from flykka.messages.checkpointing.statistics import CheckpointStatistics
from flykka.messages.monitoring.exception_history import FailureOutcome, RootExceptionHistoryEntry
from flykka.messages.monitoring.job_details import CHECKPOINT_HISTORY, JobDetails
from flykka.messages.wire.ids import JobId
from flykka.metrics.collection import collected, fitting_scope
from flykka.metrics.endpoint import checked_endpoint
from flykka.metrics.measured import Distribution, Measured

_NAME = "flykka"
_TIMEOUT_SECONDS = 3.0
_UNSENT = 10_000
_NS_PER_MS = 1_000_000

BOUNDS = (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000)
"""The upper bounds of the histogram buckets, as in OpenTelemetry."""
Attribute = str | int | bool


class OtlpError(Exception):
    """A receiver did not accept an export."""


class OpenTelemetryReporter:
    """Exports all metrics and spans to one receiver. Resource attributes come from OTEL_RESOURCE_ATTRIBUTES."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is the receiver's base URL. Raises `ValueError` if it is invalid."""
        self.target = checked_endpoint(endpoint).rstrip("/")
        self._host = gethostname()
        own = Resource({"service.name": _NAME, "host.name": self._host})
        self._resource = own.merge(OTELResourceDetector().detect())
        # The tracer creates spans that are ended and exported only here.
        self._tracer = TracerProvider(ALWAYS_ON, self._resource, shutdown_on_exit=False).get_tracer(_NAME)
        self._metrics = metric_exporter.OTLPMetricExporter(f"{self.target}/v1/metrics", timeout=_TIMEOUT_SECONDS)
        self._traces = trace_exporter.OTLPSpanExporter(f"{self.target}/v1/traces", timeout=_TIMEOUT_SECONDS)
        self._span_log = SpanLog()
        self._unsent: list[ReadableSpan] = []
        self._ended: set[JobId] = set()
        self._reasons = _ReasonFilter()

    def report(self, queries: ClusterQueries, now_ms: int) -> None:
        """Export the metrics, and the spans since the last report. Raises `OtlpError` and the errors of `queries`."""
        jobs = queries.jobs()
        self._ended &= {job.job_id for job in jobs}
        for job in (job for job in jobs if job.job_id not in self._ended):
            if job.status in JOB_GLOBALLY_TERMINAL:
                self._ended.add(job.job_id)
            self._unsent += map(self._span, self._span_log.new(queries.details(job.job_id, CHECKPOINT_HISTORY)))
        del self._unsent[:-_UNSENT]
        measured = collected(queries, jobs, fitting_scope(jobs), self._host, now_ms)
        metrics = metrics_of(measured, now_ms * _NS_PER_MS)
        of_scope = ScopeMetrics(scope=InstrumentationScope(_NAME), metrics=metrics, schema_url="")
        data = MetricsData([ResourceMetrics(resource=self._resource, scope_metrics=[of_scope], schema_url="")])
        with self._reasons:
            sent = self._metrics.export(data) is MetricExportResult.SUCCESS
            if sent and self._unsent:
                sent = self._traces.export(self._unsent) is SpanExportResult.SUCCESS
        if not sent:
            raise OtlpError(f"no OTLP receiver has accepted them ({self._reasons.first})")
        self._unsent.clear()

    def close(self) -> None:
        self._metrics.shutdown()
        self._traces.shutdown()  # type: ignore[no-untyped-call]

    def _span(self, span: Span) -> ReadableSpan:
        started = self._tracer.start_span(
            span.name, Context(), attributes=span.attributes, start_time=span.start_ms * _NS_PER_MS
        )
        started.end(span.end_ms * _NS_PER_MS)
        assert isinstance(started, ReadableSpan), f"the always-on sampler has dropped {span}"
        return started


def metrics_of(measured: Iterable[Measured], time_ns: int) -> list[Metric]:
    """Convert values to metrics such as `flink.jobmanager.job.numRestarts`. All except histograms are gauges."""
    numbers: dict[str, list[NumberDataPoint]] = {}
    distributions: dict[str, list[HistogramDataPoint]] = {}
    for each in measured:
        prefix = f"flink.{each.scope.replace('_', '.')}"
        for name, value in each.values.items():
            if isinstance(value, Distribution):
                point = _histogram_point(value, each, time_ns)
                distributions.setdefault(f"{prefix}.{name}", []).append(point)
            else:
                numbers.setdefault(f"{prefix}.{name}", []).append(NumberDataPoint(each.labels, 0, time_ns, value))
    cumulative = AggregationTemporality.CUMULATIVE
    return [
        *(Metric(name, None, None, Gauge(points)) for name, points in numbers.items()),
        *(Metric(name, None, None, Histogram(points, cumulative)) for name, points in distributions.items()),
    ]


def _histogram_point(value: Distribution, measured: Measured, time_ns: int) -> HistogramDataPoint:
    buckets = [0] * (len(BOUNDS) + 1)
    for number, count in zip(value.numbers, value.counts, strict=True):
        buckets[bisect_left(BOUNDS, number)] += count
    least, greatest = (value.numbers[0], value.numbers[-1]) if value.numbers else (0, 0)
    return HistogramDataPoint(
        attributes=measured.labels,
        start_time_unix_nano=0,
        time_unix_nano=time_ns,
        count=value.count,
        sum=value.sum,
        bucket_counts=buckets,
        explicit_bounds=BOUNDS,
        min=least,
        max=greatest,
    )


class _ReasonFilter(logging.Filter):
    """Captures the library's log messages on this thread, because only they contain the reason of a failed export."""

    _LOGGERS = tuple(logging.getLogger(module.__name__) for module in (metric_exporter, trace_exporter))

    def __init__(self) -> None:
        super().__init__()
        self._thread: int | None = None
        self.first = "without a reason"

    def __enter__(self) -> None:
        self._thread, self.first = threading.get_ident(), ""
        for each in self._LOGGERS:
            each.addFilter(self)

    def __exit__(self, *raised: object) -> None:
        for each in self._LOGGERS:
            each.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        arguments = record.args if isinstance(record.args, tuple) else ()
        errors = (str(each) for each in arguments if isinstance(each, BaseException))
        self.first = self.first or next(errors, record.getMessage())
        return False


@dataclass(frozen=True, slots=True)
class Span:
    """The span of an ended checkpoint or restart, with times in milliseconds since the epoch."""

    name: str
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Attribute]


class SpanLog:
    def __init__(self) -> None:
        self._checkpoints: dict[JobId, int] = {}
        self._restarts: dict[JobId, dict[int, int]] = {}

    def new(self, details: JobDetails) -> Iterator[Span]:
        job: dict[str, Attribute] = {"job_id": details.job_id, "job_name": details.name}
        yield from self._ended_checkpoints(details, job)
        reported = self._restarts.setdefault(details.job_id, {})
        for entry in details.exceptions:
            if entry.outcome is FailureOutcome.RESTARTED and reported.get(entry.number) != entry.times:
                reported[entry.number] = entry.times
                yield from _restart(entry, job)

    def _ended_checkpoints(self, details: JobDetails, job: Mapping[str, Attribute]) -> Iterator[Span]:
        # Checkpoints are reported in start order. A checkpoint that ends before an earlier one is reported later.
        in_progress = [each.checkpoint_id for each in details.checkpoints_in_progress]
        last = self._checkpoints.get(details.job_id, 0)
        for each in details.checkpoints:
            if each.checkpoint_id > last and not any(other < each.checkpoint_id for other in in_progress):
                self._checkpoints[details.job_id] = each.checkpoint_id
                yield _checkpoint(each, job)


def _checkpoint(stats: CheckpointStatistics, job: Mapping[str, Attribute]) -> Span:
    attributes = {
        **job,
        "checkpointId": stats.checkpoint_id,
        "checkpointStatus": stats.status.value,
        "checkpointType": "Savepoint" if stats.is_savepoint else "Checkpoint",
        "checkpointedSize": stats.incremental_bytes,
        "fullSize": stats.size_bytes,
        "acknowledgedSubtasks": stats.num_acknowledged_subtasks,
        "subtasks": stats.num_subtasks,
    }
    if stats.reason is not None:
        attributes["failureReason"] = stats.reason.value
    return Span("Checkpoint", stats.ended_ms - stats.duration_ms, stats.ended_ms, attributes)


def _restart(entry: RootExceptionHistoryEntry, job: Mapping[str, Attribute]) -> Iterator[Span]:
    failed_ms = entry.root.timestamp_ms if entry.last_timestamp_ms is None else entry.last_timestamp_ms
    if entry.restarted_ms is None:
        return
    attributes = {**job, "failure": entry.root.cause.message, "failures": entry.times}
    if entry.root.task_name is not None:
        attributes["task_name"] = entry.root.task_name
    if entry.restored_checkpoint is not None:
        attributes["restoredCheckpointId"] = entry.restored_checkpoint
    if entry.restarted_tasks:
        attributes["restartedTasks"] = ", ".join(entry.restarted_tasks)
    yield Span("Restart", failed_ms, entry.restarted_ms, attributes)
