"""Pure functions that compute measured values, by scope, name and labels, from the read model."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.checkpointing.statistics import CheckpointStatsSnapshot
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.monitoring.job_details import (
    JobDetails,
    JobOverview,
    JobVertexDetails,
    StatusTimestamp,
    SubtaskDetails,
)
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType, HistogramCount
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import JobVertexId


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of numbers: the distinct values in ascending order, and how often each occurs."""

    numbers: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, counts: Iterable[HistogramCount]) -> Distribution:
        ordered = sorted((each.number, each.count) for each in counts)
        return cls(tuple(number for number, _ in ordered), tuple(count for _, count in ordered))

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def sum(self) -> int:
        return sum(number * count for number, count in zip(self.numbers, self.counts, strict=True))

    @property
    def mean(self) -> float:
        return self.sum / self.count if self.count else 0.0

    @property
    def figures(self) -> dict[str, float]:
        median, *above = self.quantiles((0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999))
        mean, each = self.mean, zip(self.numbers, self.counts, strict=True)
        squares = sum(count * (number - mean) ** 2 for number, count in each)
        return {
            "count": self.count,
            "min": self.numbers[0] if self.numbers else 0,
            "max": self.numbers[-1] if self.numbers else 0,
            "mean": mean,
            "stddev": sqrt(squares / self.count) if self.count else 0.0,
            "median": median,
            **dict(zip(("p75", "p90", "p95", "p98", "p99", "p999"), above, strict=True)),
        }

    def quantiles(self, shares: Iterable[float]) -> tuple[int, ...]:
        """Return the quantiles for these fractions (0 to 1) by nearest rank, or zeros if there are no numbers."""
        up_to = list(accumulate(self.counts))
        if not up_to:
            return tuple(0 for _ in shares)
        # The subtraction tolerates rounding, because decimal fractions are not exact in binary.
        return tuple(self.numbers[bisect_left(up_to, max(1.0, share * up_to[-1] - 1e-9))] for share in shares)


JOB_MANAGER = "jobmanager"
JOB = "jobmanager_job"
TASK = "taskmanager_job_task"
OPERATOR = "taskmanager_job_task_operator"
"""Flink's metric scopes, as its PrometheusReporter writes them after `flink_`."""

_NONE = -1
_NS_PER_MS = 1_000_000

_STATUS_NAMES = {
    status: status.value.lower()
    for status in (
        JobStatus.CREATED,
        JobStatus.RUNNING,
        JobStatus.RESTARTING,
        JobStatus.FAILING,
        JobStatus.CANCELLING,
    )
}

Value = float | Distribution


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of one measured object, by name. Times are in ms, or in ns if Flink uses ns. Sizes are in bytes."""

    scope: str
    labels: Mapping[str, str]
    values: Mapping[str, Value]


TASK_METRICS: Mapping[str, Callable[[SubtaskDetails], float]] = {
    "numRecordsIn": lambda subtask: subtask.current.metrics.rows_in,
    "numRecordsOut": lambda subtask: subtask.current.metrics.rows_out,
    "numRecordsInPerSecond": lambda subtask: subtask.rows_in_per_second,
    "numRecordsOutPerSecond": lambda subtask: subtask.rows_out_per_second,
    "busyTimeMsPerSecond": lambda subtask: 0 if subtask.shares is None else 1_000 * subtask.shares.busy,
    "backPressuredTimeMsPerSecond": lambda subtask: (
        0 if subtask.shares is None else 1_000 * subtask.shares.back_pressured
    ),
    "idleTimeMsPerSecond": lambda subtask: 0 if subtask.shares is None else 1_000 * subtask.shares.idle,
    "isBackPressured": lambda subtask: int(subtask.shares is not None and subtask.shares.back_pressured > 0),
    "accumulateBusyTimeMs": lambda subtask: subtask.current.metrics.busy_ms,
    "accumulateBackPressuredTimeMs": lambda subtask: subtask.current.metrics.back_pressured_ms,
    "accumulateIdleTimeMs": lambda subtask: subtask.current.metrics.idle_ms,
    "buffers.inputQueueLength": lambda subtask: subtask.current.metrics.input_queue_length,
    "buffers.outputQueueLength": lambda subtask: subtask.current.metrics.output_queue_length,
    "checkpointAlignmentTime": lambda subtask: (
        0 if subtask.last_checkpoint is None else subtask.last_checkpoint.alignment_ms * _NS_PER_MS
    ),
    "checkpointStartDelayNanos": lambda subtask: (
        0 if subtask.last_checkpoint is None else subtask.last_checkpoint.start_delay_ms * _NS_PER_MS
    ),
}

CHAIN_METRICS: Mapping[str, Callable[[SubtaskDetails], float]] = {
    "currentInputWatermark": lambda subtask: _watermark(subtask.current.metrics.watermark_ms),
    "currentOutputWatermark": lambda subtask: _watermark(subtask.current.metrics.watermark_ms),
    "numLateRecordsDropped": lambda subtask: subtask.current.metrics.late_rows,
}
SOURCE_METRICS: Mapping[str, Callable[[SubtaskDetails], float]] = {
    "unassignedSplits": lambda subtask: subtask.current.metrics.files_unread,
}
SINK_METRICS: Mapping[str, Callable[[SubtaskDetails], float]] = {
    "pendingCommittables": lambda subtask: subtask.current.metrics.rows_staged,
    "totalCommittables": lambda subtask: subtask.current.metrics.rows_staged + subtask.current.metrics.rows_published,
}
"""Metrics that Flink reports per operator. Here they are reported for the whole chain of a subtask."""


def running(jobs: Iterable[JobOverview]) -> list[JobOverview]:
    return [job for job in jobs if job.status not in JOB_GLOBALLY_TERMINAL]


def of_cluster(slots: SlotsExplained, jobs: Iterable[JobOverview], host: str) -> Measured:
    values = {
        "numRegisteredTaskManagers": len(slots.task_managers),
        "taskSlotsTotal": slots.slots,
        "taskSlotsAvailable": slots.free,
        "numRunningJobs": len(running(jobs)),
    }
    return Measured(JOB_MANAGER, {"host": host}, values)


def of_job(details: JobDetails, checkpoints: CheckpointStatsSnapshot, host: str, now_ms: int) -> Measured:
    counts, last = checkpoints.counts, checkpoints.latest_completed
    times = _status_times(details, now_ms)
    values = {
        "numRestarts": details.number_of_restarts,
        "fullRestarts": details.number_of_restarts,
        "uptime": times["runningTime"] if details.status is JobStatus.RUNNING else _NONE,
        **times,
        "totalNumberOfCheckpoints": counts.total,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
        "lastCheckpointDuration": _NONE if last is None else last.duration_ms,
        "lastCheckpointSize": _NONE if last is None else last.incremental_bytes,
        "lastCheckpointFullSize": _NONE if last is None else last.size_bytes,
        "lastCheckpointProcessedData": _NONE if last is None else last.processed_bytes,
        "lastCheckpointPersistedData": _NONE if last is None else last.persisted_bytes,
        "lastCheckpointCompletedTimestamp": _NONE if last is None else last.ended_ms,
        "lastCompletedCheckpointId": _NONE if last is None else last.checkpoint_id,
        "lastCheckpointRestoreTimestamp": _NONE if details.restored_ms is None else details.restored_ms,
    }
    return Measured(JOB, _job_labels(details, host), values)


def _status_times(details: JobDetails, now_ms: int) -> dict[str, int]:
    times: dict[str, int] = {}
    entered = {stamp.status: stamp for stamp in details.timestamps}
    for status, name in _STATUS_NAMES.items():
        stamp = entered.get(status, StatusTimestamp(status=status, at_ms=now_ms))
        since_ms = stamp.at_ms if status is details.status else None
        times |= _times(name, since_ms, stamp.total_ms, now_ms)
    return times | _times("deploying", details.deploying.since_ms, details.deploying.total_ms, now_ms)


def _times(name: str, since_ms: int | None, total_ms: int, now_ms: int) -> dict[str, int]:
    lasts_ms = 0 if since_ms is None else max(0, now_ms - since_ms)
    return {
        f"{name}State": int(since_ms is not None),
        f"{name}Time": lasts_ms,
        f"{name}TimeTotal": total_ms + lasts_ms,
    }


def of_subtasks(
    details: JobDetails, vertex: JobVertexDetails, subtasks: Iterable[SubtaskDetails], host: str, now_ms: int
) -> Iterator[Measured]:
    of_vertex = _vertex_labels(details, vertex, host)
    of_operators = {
        **CHAIN_METRICS,
        **(SOURCE_METRICS if vertex.sources else {}),
        **(SINK_METRICS if vertex.sinks else {}),
    }
    for subtask in subtasks:
        labels = {
            **of_vertex,
            "tm_id": subtask.current.task_manager or "",
            "subtask_index": str(subtask.subtask),
            "task_attempt_num": str(subtask.current.attempt_number),
        }
        yield Measured(TASK, labels, {name: read(subtask) for name, read in TASK_METRICS.items()})
        of_chain = {name: read(subtask) for name, read in of_operators.items()}
        if subtask.current.metrics.watermark_ms is not None:
            of_chain["watermarkLag"] = now_ms - subtask.current.metrics.watermark_ms
        yield Measured(OPERATOR, {**labels, "operator_id": vertex.vertex_id, "operator_name": vertex.name}, of_chain)
        for metric in user_metrics(subtask.accumulators):
            yield Measured(OPERATOR, {**labels, **_operator_labels(metric)}, values_of_metric(metric))


def of_vertices(details: JobDetails, host: str) -> Iterator[Measured]:
    """Measure the vertices of a job, aggregated over their subtasks, including user metrics."""
    acknowledged = () if details.last_completed is None else details.last_completed.vertices
    last: dict[JobVertexId, dict[str, float]] = {
        each.vertex_id: {
            "checkpointAlignmentTime": each.alignment_ms.maximum * _NS_PER_MS,
            "checkpointStartDelayNanos": each.start_delay_ms.maximum * _NS_PER_MS,
        }
        for each in acknowledged
    }
    for vertex in details.vertices:
        labels = _vertex_labels(details, vertex, host)
        yield Measured(TASK, labels, _of_vertex(vertex) | last.get(vertex.vertex_id, {}))
        of_chain = {
            "currentInputWatermark": _watermark(vertex.watermark_ms),
            "currentOutputWatermark": _watermark(vertex.watermark_ms),
            "numLateRecordsDropped": vertex.late_rows,
        }
        if vertex.sources:
            of_chain["unassignedSplits"] = vertex.files_waiting
        if vertex.sinks:
            of_chain["pendingCommittables"] = vertex.rows_staged
            of_chain["totalCommittables"] = vertex.rows_staged + vertex.rows_published
        if vertex.watermark_lag_ms is not None:
            of_chain["watermarkLag"] = vertex.watermark_lag_ms
        yield Measured(OPERATOR, {**labels, "operator_id": vertex.vertex_id, "operator_name": vertex.name}, of_chain)
    for metric in user_metrics(details.accumulators.merged):
        values = values_of_metric(metric)
        if metric.type is AccumulatorType.METER:
            # Rates are only reported per subtask.
            del values[metric.metric_name]
        yield Measured(OPERATOR, {**_job_labels(details, host), **_operator_labels(metric)}, values)


def user_metrics(accumulators: Iterable[AccumulatorSnapshot]) -> Iterator[AccumulatorSnapshot]:
    """Return the accumulators that are metrics, except late rows, which the chain reports under the same name."""
    return (each for each in accumulators if each.operator_id is not None and each.metric_name not in CHAIN_METRICS)


def values_of_metric(metric: AccumulatorSnapshot) -> dict[str, Value]:
    """Return the values of a user metric. A meter has a rate per second and a count."""
    name = metric.metric_name
    match metric.type:
        case AccumulatorType.METER:
            return {name: metric.per_second, f"{name}_count": metric.count}
        case AccumulatorType.HISTOGRAM:
            return {name: Distribution.of(metric.counts)}
        case AccumulatorType.GAUGE:
            return {name: metric.total}
        case _:
            return {name: metric.count}


def numbers(values: Mapping[str, Value]) -> dict[str, float]:
    """Return the values as numbers. A distribution yields one number per statistic, `<name>_<figure>`."""
    result: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Distribution):
            result |= {f"{name}_{figure}": number for figure, number in value.figures.items()}
        else:
            result[name] = value
    return result


def _of_vertex(vertex: JobVertexDetails) -> dict[str, float]:
    shares = vertex.shares
    busy, waiting, idle = (0.0, 0.0, 0.0) if shares is None else (shares.busy, shares.back_pressured, shares.idle)
    return {
        "numRecordsIn": vertex.rows_in,
        "numRecordsOut": vertex.rows_out,
        "numRecordsInPerSecond": vertex.rows_in_per_second,
        "numRecordsOutPerSecond": vertex.rows_out_per_second,
        "busyTimeMsPerSecond": 1_000 * busy,
        "backPressuredTimeMsPerSecond": 1_000 * waiting,
        "idleTimeMsPerSecond": 1_000 * idle,
        "isBackPressured": int(waiting > 0),
        "buffers.inputQueueLength": vertex.input_queue_length,
        "buffers.outputQueueLength": vertex.output_queue_length,
    }


def _job_labels(details: JobDetails, host: str) -> dict[str, str]:
    return {"host": host, "job_id": details.job_id, "job_name": details.name}


def _vertex_labels(details: JobDetails, vertex: JobVertexDetails, host: str) -> dict[str, str]:
    return {**_job_labels(details, host), "task_id": vertex.vertex_id, "task_name": vertex.name}


def _operator_labels(metric: AccumulatorSnapshot) -> dict[str, str]:
    return {"operator_id": metric.operator_id or "", "operator_name": metric.operator_name}


def _watermark(at_ms: int | None) -> int:
    return WATERMARK_MIN if at_ms is None else at_ms
