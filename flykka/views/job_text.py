"""A job as short texts: for tables in notebooks, and as plain text if HTML cannot be shown."""

from __future__ import annotations

from flykka.actors.machines.states import JOB_TERMINAL
from flykka.messages.checkpointing.statistics import CheckpointStatistics
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.job_details import JobDetails, JobVertexDetails, Restart
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.runtime.durations import format_ms
from flykka.views.text.formats import (
    displayed_status,
    format_bytes,
    format_count,
    format_event_time,
    format_files_waiting,
    format_lag,
)

_REPORT_MS = 1_000


def job_text(details: JobDetails) -> str:
    lines = [f"job {details.name!r} {displayed_status(details)}, {headline(details)}"]
    lines += [f"  {vertex.name}: {', '.join(_facts(vertex))}" for vertex in details.vertices]
    if details.last_completed is not None:
        lines.append(f"  checkpoint {details.last_completed.checkpoint_id}: {_cost(details.last_completed)}")
    if details.restarts and details.started_ms is not None:
        lines.append(f"  restarted {into_the_run(details.restarts[-1], details.started_ms)}")
    if details.last_failure is not None:
        lines.append(f"  {'failed' if has_failed(details) else 'last failure'}: {details.last_failure.headline}")
    return "\n".join(lines)


def headline(details: JobDetails) -> str:
    restarts = details.number_of_restarts
    restarts_text = f", {restarts} restart{'s' * (restarts > 1)}" if restarts else ""
    waiting = format_files_waiting(details.files_waiting)
    return format_ms(details.duration_ms) + restarts_text + (f", {waiting}" if waiting else "")


def rates(details: JobDetails) -> tuple[float | None, ...]:
    """Return the rows per second that the sources have read in each step. A step that has just begun is left out.

    Tasks report once a second, so the rate of such a step would be too low.
    """
    series = details.throughput
    if not series.values or details.status in JOB_TERMINAL:
        return series.values
    began_ms = series.start_ms + (len(series.values) - 1) * series.step_ms
    lasts_ms = (details.started_ms or 0) + details.duration_ms - began_ms
    return series.values if lasts_ms >= _REPORT_MS else series.values[:-1]


def into_the_run(restart: Restart, started_ms: int) -> str:
    return f"{format_ms(max(0, restart.at_ms - started_ms))} into the run"


def read_again(vertex: JobVertexDetails) -> str:
    """Format the number of rows that a vertex read again after a restart, or return "" for 0."""
    return f"up to {format_count(vertex.rows_read_again)}" if vertex.rows_read_again else ""


def has_failed(details: JobDetails) -> bool:
    return details.status in (JobStatus.FAILING, JobStatus.FAILED)


def vertex_state(vertex: JobVertexDetails) -> str:
    there = vertex.subtasks.get(vertex.state, 0)
    return str(vertex.state) if there in (0, vertex.parallelism) else f"{vertex.state} {there}/{vertex.parallelism}"


def watermark(vertex: JobVertexDetails) -> str:
    if vertex.event_time_ended:
        return "end of input"
    return "" if vertex.watermark_ms is None else format_event_time(vertex.watermark_ms)


def lag(vertex: JobVertexDetails) -> str:
    return "" if vertex.watermark_lag_ms is None else format_lag(vertex.watermark_lag_ms)


def why(cause: SerializedThrowable | None) -> str:
    return "no reason was given" if cause is None else cause.headline


def _facts(vertex: JobVertexDetails) -> list[str]:
    again = f" ({read_again(vertex)} of them read again)" if vertex.rows_read_again else ""
    facts = [
        vertex_state(vertex),
        f"{format_count(vertex.rows_in)} rows in{again}",
        f"{format_count(vertex.rows_out)} out",
    ]
    if vertex.sinks:
        staged = f" ({format_count(vertex.rows_staged)} more are staged)" if vertex.rows_staged else ""
        facts.append(f"{format_count(vertex.rows_published)} published{staged}")
    if vertex.state is ExecutionState.RUNNING:
        facts.append(f"{format_count(vertex.rows_in_per_second)}/s")
    if vertex.late_rows:
        facts.append(f"{format_count(vertex.late_rows)} late")
    return facts


def _cost(checkpoint: CheckpointStatistics) -> str:
    new = format_bytes(checkpoint.incremental_bytes)
    return f"{format_ms(checkpoint.duration_ms)}, {format_bytes(checkpoint.size_bytes)}, {new} of it new"
