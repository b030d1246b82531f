"""Finds, for a client, the JobManager that succeeds one that has died, at the same path."""

from __future__ import annotations

from flykka.messages.control.job_manager import LeaderLookupDue
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext

SEEK_INTERVAL_MS = 100
SEEK_TIMEOUT_MS = 60_000
"""The time without a JobManager that is accepted. A cluster that cannot start one gives up before, and ends."""


class LeaderRetriever:
    """Looks for the next JobManager at intervals; used in the turns of its client only."""

    def __init__(self, context: ActorContext, job_manager: Ref) -> None:
        self._context = context
        self._known = job_manager
        self._since_ms: int | None = None

    def on_leader_lost(self) -> None:
        """The JobManager has died: begin to look for the next."""
        self._since_ms = self._context.now()
        self._wait()

    def find_leader(self) -> Ref | None:
        """Return the new JobManager; None while none is there, and then a timer is set for the next attempt."""
        found = self._context.actor_selection(self._known.path).resolve_one()
        if found is None or found == self._known:
            self._wait()
            return None
        self._known = found
        return found

    @property
    def has_timed_out(self) -> bool:
        """True once no JobManager was found for `SEEK_TIMEOUT_MS`."""
        return self._since_ms is not None and self._context.now() - self._since_ms >= SEEK_TIMEOUT_MS

    def _wait(self) -> None:
        self._context.timers.start_once("seek-job-manager", SEEK_INTERVAL_MS, LeaderLookupDue())
