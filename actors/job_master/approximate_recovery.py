"""Warnings of jobs that have approximate local recovery: each failure loses rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flykka.actors.machines.job_graph.validation import recovers_approximately
from flykka.messages.graph.job_graph import JobGraph

_log = logging.getLogger(__name__)


def warn_of_approximation(job_graph: JobGraph) -> None:
    """Warn at the begin of such a job."""
    if recovers_approximately(job_graph):
        _log.warning("job %s has APPROXIMATE local recovery: each failure loses rows for good", job_graph.job_id)


def warn_of_loss(job_graph: JobGraph, restarted: Sequence[str]) -> None:
    """Warn where only these tasks of such a job restart."""
    is_part = 0 < len(restarted) < sum(vertex.parallelism for vertex in job_graph.vertices)
    if is_part and recovers_approximately(job_graph):
        _log.warning(
            "job %s LOSES ROWS (approximate local recovery): those on their way to %s, and those that these have taken"
            " in since the last checkpoint; all other tasks run on",
            job_graph.job_id,
            ", ".join(restarted),
        )
