"""Finds the successor of a dead JobManager at the same path, for a client."""

from __future__ import annotations

from flykka.messages.control.job_manager import LeaderLookupDue
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext

SEEK_INTERVAL_MS = 100
SEEK_TIMEOUT_MS = 60_000
"""Milliseconds to wait for a successor. A cluster that cannot start a JobManager terminates earlier."""


class LeaderRetriever:
    """Looks for the next JobManager at intervals. Used only in the turns of the client's actor."""

    def __init__(self, context: ActorContext, job_manager: Ref) -> None:
        self._context = context
        self._known = job_manager
        self._since_ms: int | None = None

    def on_leader_lost(self) -> None:
        self._since_ms = self._context.now()
        self._wait()

    def find_leader(self) -> Ref | None:
        """Return the new JobManager. If there is none yet, set a timer for the next attempt."""
        leader = self._context.actor_selection(self._known.path).resolve_one()
        if leader is None or leader == self._known:
            self._wait()
            return None
        self._known = leader
        return leader

    @property
    def has_timed_out(self) -> bool:
        return self._since_ms is not None and self._context.now() - self._since_ms >= SEEK_TIMEOUT_MS

    def _wait(self) -> None:
        self._context.timers.start_once("seek-job-manager", SEEK_INTERVAL_MS, LeaderLookupDue())
