"""A job in a few words: numbers and times as a notebook shows them, and the text where no HTML can be shown."""

from __future__ import annotations

from datetime import UTC, datetime

from flykka.console import format_bytes
from flykka.job_details import CheckpointStatistics, JobDetails, JobVertexDetails
from flykka.messages.failure import SerializedThrowable
from flykka.messages.task import ExecutionState
from flykka.runtime.durations import format_ms

SHOWN_CHECKPOINTS = 5
SHOWN_RESTARTS = 3

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


def job_text(details: JobDetails) -> str:
    """The job as plain text: a line for itself, one per vertex, one for its last checkpoint and its last failure."""
    lines = [f"job {details.name!r} {details.status}, {headline(details)}"]
    lines += [f"  {vertex.name}: {', '.join(_vertex_facts(vertex))}" for vertex in details.vertices]
    if details.last_completed is not None:
        lines.append(f"  checkpoint {details.last_completed.checkpoint_id}: {outcome(details.last_completed)}")
    if details.last_failure is not None:
        lines.append(f"  {'failed' if failed(details) else 'last failure'}: {reason(details.last_failure)}")
    return "\n".join(lines)


def headline(details: JobDetails) -> str:
    """How long the job runs, and how often it was restarted."""
    restarts = len(details.restarts)
    return duration(details.duration_ms) + (f", {restarts} restart{'s' * (restarts > 1)}" if restarts else "")


def failed(details: JobDetails) -> bool:
    """Whether its last failure is what has ended the job."""
    return details.status in ("FAILED", "FAILING")


def state(vertex: JobVertexDetails) -> str:
    """The state of a vertex, and how many of its subtasks are in it where not all are."""
    there = vertex.subtasks.get(vertex.state, 0)
    return str(vertex.state) if there in (0, vertex.parallelism) else f"{vertex.state} {there}/{vertex.parallelism}"


def rate(vertex: JobVertexDetails) -> float:
    """Rows per second that went into a vertex; out of it where it reads a source."""
    return max(vertex.rows_in_per_second, vertex.rows_out_per_second if vertex.sources else 0.0)


def watermark(vertex: JobVertexDetails) -> str:
    """How far event time is; empty where there is none."""
    if vertex.event_time_ended:
        return "end of input"
    if vertex.watermark_ms is None:
        return ""
    return datetime.fromtimestamp(vertex.watermark_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def lag(vertex: JobVertexDetails) -> str:
    """How far event time is behind the clock; empty where there is no watermark."""
    if vertex.watermark_lag_ms is None:
        return ""
    return duration(max(0, vertex.watermark_lag_ms))


def duration(ms: int) -> str:
    """A length of time; from an hour on without its seconds."""
    if ms < _HOUR_MS:
        return format_ms(ms)
    days, rest = divmod(ms, _DAY_MS)
    hours, rest = divmod(rest, _HOUR_MS)
    return f"{days:,} d {hours} h" if days else f"{hours} h {rest // 60_000} min"


def outcome(checkpoint: CheckpointStatistics) -> str:
    """What a completed checkpoint has cost, or why one was given up."""
    if checkpoint.reason is not None:
        return str(checkpoint.reason)
    new = format_bytes(checkpoint.incremental_bytes)
    return f"{duration(checkpoint.duration_ms)}, {format_bytes(checkpoint.size_bytes)}, {new} of it new"


def reason(cause: SerializedThrowable | None) -> str:
    """A failure in a line: the name of its type without the module, and the first line of its text."""
    if cause is None:
        return "for a reason that was not told"
    return f"{cause.type_name.rpartition('.')[2]}: {cause.message.strip().partition(chr(10))[0]}"


def _vertex_facts(vertex: JobVertexDetails) -> list[str]:
    facts = [state(vertex), f"{vertex.rows_in:,} rows in", f"{vertex.rows_out:,} out"]
    if vertex.state is ExecutionState.RUNNING:
        facts.append(f"{rate(vertex):,.0f}/s")
    if vertex.late_rows:
        facts.append(f"{vertex.late_rows:,} late")
    return facts
