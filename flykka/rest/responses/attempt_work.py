"""The work of an attempt: its last stages, snapshots and commits, with the Spark jobs of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.rest.responses.io_metrics import Json

if TYPE_CHECKING:
    from flykka.spark_bridge.attempt.attempt_work import AttemptWork

LastWork = Callable[[JobId, JobVertexId, int], "AttemptWork | None"]
"""Tells of the newest attempt of a subtask; None where nothing is known of it. It may block."""


def no_work(job_id: JobId, vertex_id: JobVertexId, subtask: int) -> AttemptWork | None:
    """Tell nothing: of a data plane that does not say what it does."""
    return None


def attempt_work(found: AttemptWork, now_ms: int) -> Json:
    """The work, the newest first; times in ms, null where it is not over or moves no rows."""
    return {
        "attempt": found.attempt,
        "sparkUi": found.spark_ui,
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
            for each in found.pieces
        ],
    }
