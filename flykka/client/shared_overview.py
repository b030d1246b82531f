"""The overview of a job where one thread writes and any thread reads."""

from __future__ import annotations

import threading

from flykka.client.job_details import JobDetails
from flykka.client.job_overview import JobOverview
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.message import Message

CHECKPOINTS = 1_000
"""How many of the last checkpoints are kept: those of a quarter of an hour, where there is one per second."""


class SharedJobOverview:
    """A `JobOverview` behind a lock."""

    def __init__(self, job_graph: JobGraph) -> None:
        self._lock = threading.Lock()
        self._overview = JobOverview(job_graph, checkpoints=CHECKPOINTS)
        self.taken = 0
        """How many messages were taken in: where this has not changed, only clocks have."""

    def take(self, message: Message, at_ms: int) -> None:
        """As `JobOverview.take`."""
        with self._lock:
            self._overview.take(message, at_ms)
            self.taken += 1

    def details(self, at_ms: int) -> JobDetails:
        """As `JobOverview.details`."""
        with self._lock:
            return self._overview.details(at_ms)
