"""Deadlines of clients that are attached to their jobs (Flink's Dispatcher.checkJobClientAliveness).

Decides when a client has given no sign of life for too long. A heartbeat says until when the client is taken for alive,
by its own clock; the first deadline is that of the submission. What the job is told then is not decided here.
"""

from __future__ import annotations

from flykka.actors.machines.timers import CancelTimer, StartTimer
from flykka.messages.control.job import JobClientExpired
from flykka.messages.wire.ids import JobId


class ClientSessions:
    """The jobs of a JobManager whose clients have to give signs of life."""

    def __init__(self) -> None:
        self._deadlines: dict[JobId, int] = {}

    def heartbeat(self, job_id: JobId, expires_ms: int, now: int) -> list[StartTimer]:
        """The client of a job lives, and is to be taken for dead at `expires_ms`. An earlier one changes nothing."""
        if self._deadlines.get(job_id, expires_ms - 1) >= expires_ms:
            return []
        self._deadlines[job_id] = expires_ms
        timed_out = JobClientExpired(job_id=job_id)
        return [StartTimer(key=_key(job_id), delay_ms=max(0, expires_ms - now), message=timed_out)]

    def end(self, job_id: JobId) -> list[CancelTimer]:
        """The job has ended, or somebody else leads: nobody waits for its client any more."""
        return [] if self._deadlines.pop(job_id, None) is None else [CancelTimer(key=_key(job_id))]

    def expire(self, job_id: JobId, now: int) -> bool:
        """True if the time of the client is over, and it has given no other sign of life. It is told once."""
        deadline = self._deadlines.get(job_id)
        if deadline is None or deadline > now:
            return False
        del self._deadlines[job_id]
        return True


def _key(job_id: JobId) -> str:
    return f"client-{job_id}"
