"""Measured values by scope, name and labels: pure functions of what the read model tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.checkpointing.statistics import CheckpointStatsSnapshot
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.monitoring.job_details import JobDetails, JobOverview, JobVertexDetails, SubtaskDetails
from flykka.messages.tasks.exchange import WATERMARK_MIN

JOB_MANAGER = "jobmanager"
JOB = "jobmanager_job"
TASK = "taskmanager_job_task"
OPERATOR = "taskmanager_job_task_operator"
"""Flink's scopes, as its PrometheusReporter writes them behind `flink_`."""

_NONE = -1


@dataclass(frozen=True, slots=True)
class Measured:
    """A value; ms where it is a time, bytes where it is a size."""

    scope: str
    name: str
    labels: Mapping[str, str]
    value: float


def of_cluster(slots: SlotsExplained, jobs: Iterable[JobOverview], host: str) -> Iterator[Measured]:
    """Measure the cluster as a whole."""
    labels = {"host": host}
    yield Measured(JOB_MANAGER, "numRegisteredTaskManagers", labels, len(slots.task_managers))
    yield Measured(JOB_MANAGER, "taskSlotsTotal", labels, slots.slots)
    yield Measured(JOB_MANAGER, "taskSlotsAvailable", labels, slots.free)
    yield Measured(JOB_MANAGER, "numRunningJobs", labels, sum(job.status not in JOB_GLOBALLY_TERMINAL for job in jobs))


def of_job(details: JobDetails, checkpoints: CheckpointStatsSnapshot, host: str, now_ms: int) -> Iterator[Measured]:
    """Measure a job, and its checkpoints."""
    labels = {"host": host, "job_id": details.job_id, "job_name": details.name}
    entered = {stamp.status: stamp.at_ms for stamp in details.timestamps}
    runs, restarts = details.status is JobStatus.RUNNING, details.status is JobStatus.RESTARTING
    counts, last = checkpoints.counts, checkpoints.latest_completed
    values = {
        "numRestarts": details.number_of_restarts,
        "uptime": now_ms - entered[JobStatus.RUNNING] if runs else _NONE,
        "runningTime": now_ms - entered[JobStatus.RUNNING] if runs else 0,
        "restartingTime": now_ms - entered[JobStatus.RESTARTING] if restarts else 0,
        "totalNumberOfCheckpoints": counts.total,
        "numberOfInProgressCheckpoints": counts.in_progress,
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
        "lastCheckpointDuration": _NONE if last is None else last.duration_ms,
        "lastCheckpointSize": _NONE if last is None else last.incremental_bytes,
        "lastCheckpointFullSize": _NONE if last is None else last.size_bytes,
        "lastCompletedCheckpointId": _NONE if last is None else last.checkpoint_id,
    }
    for name, value in values.items():
        yield Measured(JOB, name, labels, value)


def of_vertex(
    details: JobDetails, vertex: JobVertexDetails, subtasks: Iterable[SubtaskDetails], host: str, now_ms: int
) -> Iterator[Measured]:
    """Measure the subtasks of a vertex."""
    for subtask in subtasks:
        labels = {
            "host": host,
            "tm_id": subtask.current.task_manager or "",
            "job_id": details.job_id,
            "job_name": details.name,
            "task_id": vertex.vertex_id,
            "task_name": vertex.name,
            "subtask_index": str(subtask.subtask),
            "task_attempt_num": str(subtask.current.attempt_number),
        }
        for name, value in _of_task(subtask).items():
            yield Measured(TASK, name, labels, value)
        of_chain = {**labels, "operator_id": vertex.vertex_id, "operator_name": vertex.name}
        for name, value in _of_operators(subtask, now_ms).items():
            yield Measured(OPERATOR, name, of_chain, value)


def _of_task(subtask: SubtaskDetails) -> dict[str, float]:
    metrics, shares = subtask.current.metrics, subtask.shares
    busy, waiting, idle = (0.0, 0.0, 0.0) if shares is None else (shares.busy, shares.back_pressured, shares.idle)
    return {
        "numRecordsIn": metrics.rows_in,
        "numRecordsOut": metrics.rows_out,
        "numRecordsInPerSecond": subtask.rows_in_per_second,
        "numRecordsOutPerSecond": subtask.rows_out_per_second,
        "busyTimeMsPerSecond": 1_000 * busy,
        "backPressuredTimeMsPerSecond": 1_000 * waiting,
        "idleTimeMsPerSecond": 1_000 * idle,
        "isBackPressured": float(waiting > 0),
        "buffers_inputQueueLength": metrics.input_queue_length,
        "buffers_outputQueueLength": metrics.output_queue_length,
    }


def _of_operators(subtask: SubtaskDetails, now_ms: int) -> dict[str, float]:
    """Values that Flink has for each operator; here the chain has them as a whole."""
    metrics = subtask.current.metrics
    watermark = WATERMARK_MIN if metrics.watermark_ms is None else metrics.watermark_ms
    values: dict[str, float] = {
        "currentInputWatermark": watermark,
        "numLateRecordsDropped": metrics.late_rows,
        "pendingCommittables": metrics.rows_staged,
        "totalCommittables": metrics.rows_staged + metrics.rows_published,
        "unassignedSplits": metrics.files_unread,
    }
    if metrics.watermark_ms is not None:
        values["watermarkLag"] = now_ms - watermark
    return values
