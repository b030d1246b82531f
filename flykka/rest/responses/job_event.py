"""Events of the page: a summary of all jobs, one job with its graph and checkpoints, attempts of a vertex.

Values that change with the clock are omitted, so that an unchanged job yields an equal event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flykka.actors.machines.states import JOB_GLOBALLY_TERMINAL
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsSnapshot
from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex, ResultPartitionType
from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.messages.monitoring.job_details import (
    AttemptDetails,
    JobDetails,
    JobOverview,
    JobVertexDetails,
    SubtaskDetails,
)
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.rest.responses.io_metrics import Json, by_state, terminal_ms

if TYPE_CHECKING:
    from flykka.spark_bridge.attempt.attempt_work import AttemptWork

CHECKPOINTS_SHOWN = 120
EXCEPTIONS_SHOWN = 20
ATTEMPTS_SHOWN = 400
_RATES_SHOWN = 180
_MESSAGE_CHARACTERS = 1_000


def jobs_event(jobs: Iterable[JobOverview], history_of: str | None) -> Json:
    """Format all jobs, newest first. For jobs of a history, the directory of the archives is included."""
    return {"historyOf": history_of, "jobs": [_job_summary(job) for job in reversed(list(jobs))]}


def _job_summary(job: JobOverview) -> Json:
    return {
        "id": job.job_id,
        "name": job.name,
        "type": job.job_type.value,
        "state": job.status.value,
        "started": job.started_ms,
        "ended": job.ended_ms,
        "duration": job.duration_ms if job.status in JOB_GLOBALLY_TERMINAL else None,
        "restarts": job.number_of_restarts,
        "tasks": by_state(job.subtask_counts),
    }


def job_event(
    details: JobDetails, graph: JobGraph, checkpoints: CheckpointStatsSnapshot, history_of: str | None
) -> Json:
    """Format a job with values per vertex, not per subtask, and its last checkpoints, oldest first.

    `history_of` is set for an archived job, which is read-only.
    """
    of_graph = {vertex.vertex_id: vertex for vertex in graph.vertices}
    names = {vertex.vertex_id: vertex.name for vertex in details.vertices}
    rates = details.throughput
    return {
        "historyOf": history_of,
        "id": details.job_id,
        "name": details.name,
        "type": graph.job_type.value,
        "state": details.status.value,
        "isStopped": details.was_stopped,
        "started": details.started_ms,
        "ended": details.ended_ms,
        "duration": details.duration_ms if details.status in JOB_GLOBALLY_TERMINAL else None,
        "restarts": details.number_of_restarts,
        "keptCheckpoint": details.kept_checkpoint,
        "throughput": {"stepMs": rates.step_ms, "values": rates.values[-_RATES_SHOWN:]},
        "vertices": [_vertex(vertex, of_graph[vertex.vertex_id]) for vertex in details.vertices],
        "edges": [
            {"from": edge.source, "to": vertex.vertex_id, "strategy": _exchanged(edge)}
            for vertex in graph.vertices
            for edge in vertex.inputs
        ],
        "checkpoints": _checkpoints(checkpoints, names),
        "exceptionCount": details.number_of_exceptions,
        "exceptions": [_outcome(entry) for entry in reversed(details.exceptions[-EXCEPTIONS_SHOWN:])],
    }


def _exchanged(edge: JobEdge) -> str:
    """Format the partitioning of an edge. An edge that loses rows in a failure is marked."""
    is_approximate = edge.result_partition_type is ResultPartitionType.PIPELINED_APPROXIMATE
    return f"{'APPROXIMATE ' if is_approximate else ''}{edge.ship_strategy.value}"


def _vertex(vertex: JobVertexDetails, of_graph: JobVertex) -> Json:
    shares, hold = vertex.shares, vertex.held_back_by
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "operators": [operator.name for operator in of_graph.operators],
        "parallelism": vertex.parallelism,
        "state": vertex.state.value,
        "tasks": by_state(vertex.subtask_counts),
        "rowsIn": vertex.rows_in,
        "rowsOut": vertex.rows_out,
        "inPerSecond": round(vertex.rows_in_per_second, 1),
        "outPerSecond": round(vertex.rows_out_per_second, 1),
        "late": vertex.late_rows,
        "shares": None if shares is None else [round(part, 3) for part in _parts(vertex)],
        "watermark": vertex.watermark_ms,
        "lag": vertex.watermark_lag_ms,
        "eventTimeEnded": vertex.event_time_ended,
        "heldBackBy": None
        if hold is None
        else {"partition": hold.partition, "subtask": hold.subtask, "since": hold.since_ms},
        "filesWaiting": vertex.files_waiting,
        "isSource": bool(vertex.sources),
        "isSink": bool(vertex.sinks),
        "published": vertex.rows_published,
        "staged": vertex.rows_staged,
    }


def _parts(vertex: JobVertexDetails) -> tuple[float, ...]:
    assert vertex.shares is not None
    return vertex.shares.busy, vertex.shares.back_pressured, vertex.shares.idle


def _checkpoints(stats: CheckpointStatsSnapshot, names: Mapping[JobVertexId, str]) -> Json:
    counts = stats.counts
    return {
        "total": counts.total,
        "completed": counts.completed,
        "failed": counts.failed,
        "inProgress": counts.in_progress,
        "restored": stats.latest_restored,
        "averageMs": stats.summary.duration_ms.average,
        "history": [_checkpoint(each, names) for each in reversed(stats.history[:CHECKPOINTS_SHOWN])],
    }


def _checkpoint(stats: CheckpointStatistics, names: Mapping[JobVertexId, str]) -> Json:
    slowest = max(stats.vertices, key=lambda each: each.duration_ms, default=None)
    return {
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        "isSavepoint": stats.is_savepoint,
        "at": stats.trigger_ms,
        # The duration of a running checkpoint would change with the clock.
        "duration": stats.duration_ms if stats.ended_ms else None,
        "size": stats.size_bytes,
        "written": stats.incremental_bytes,
        "alignment": max((each.alignment_ms.maximum for each in stats.vertices), default=None),
        "slowest": None if slowest is None else names.get(slowest.vertex_id, slowest.vertex_id),
        "slowestMs": None if slowest is None else slowest.duration_ms,
        "acknowledged": stats.num_acknowledged_subtasks,
        "subtasks": stats.num_subtasks,
        "reason": None if stats.reason is None else stats.reason.value,
        "failure": None if stats.failure is None else str(stats.failure),
    }


def _outcome(entry: RootExceptionHistoryEntry) -> Json:
    return {
        "number": entry.number,
        # Flink's exceptions only contain the stack. The message begins with the user's own line.
        "message": entry.root.cause.message[:_MESSAGE_CHARACTERS],
        "outcome": entry.outcome.value,
        "times": entry.times,
        "restored": entry.restored_checkpoint,
        "restartedAt": entry.restarted_ms,
        "whyNot": entry.why_not_restarted,
        "labels": {label.key: label.value for label in entry.root.failure_labels},
    }


def attempts(vertex: JobVertexDetails, subtasks: Sequence[SubtaskDetails]) -> Json:
    """Format the newest attempts of a vertex, ordered by start time."""
    events = [
        each
        for subtask in subtasks
        for attempt in (*subtask.earlier, subtask.current)
        if (each := _attempt(subtask.subtask, attempt)) is not None
    ]
    events.sort(key=lambda each: (each["begun"], each["subtask"], each["number"]))
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "total": len(events),
        "attempts": events[-ATTEMPTS_SHOWN:],
    }


def _attempt(subtask: int, attempt: AttemptDetails) -> Json | None:
    """Format an attempt. Returns None if its first state is not known yet."""
    if not attempt.timestamps:
        return None
    started, ended = min(stamp.at_ms for stamp in attempt.timestamps), terminal_ms(attempt)
    return {
        "subtask": subtask,
        "number": attempt.attempt_number,
        "state": attempt.state.value,
        "taskManager": attempt.task_manager,
        "begun": started,
        "ended": None if ended < 0 else ended,
        "failure": None if attempt.failure is None else attempt.failure.type_name,
    }


LastWork = Callable[[JobId, JobVertexId, int], "AttemptWork | None"]
"""A function that returns the work of a subtask's newest attempt, or None if unknown. May block."""


def no_work(job_id: JobId, vertex_id: JobVertexId, subtask: int) -> AttemptWork | None:
    return None


def attempt_work(work: AttemptWork, now_ms: int) -> Json:
    """Format the work of an attempt, newest first. Times are in ms, null if the work has not ended or moves no rows."""
    return {
        "attempt": work.attempt,
        "sparkUi": work.spark_ui,
        "work": [
            {
                "what": each.what,
                "begun": now_ms - each.age_ms,
                "took": each.took_ms,
                "rowsIn": each.rows_in,
                "rowsOut": each.rows_out,
                "failed": each.has_failed,
                "sparkJobs": list(each.spark_jobs),
            }
            for each in work.pieces
        ],
    }
