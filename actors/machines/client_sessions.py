"""Deadlines of clients that are attached to their jobs (Flink's Dispatcher.checkJobClientAliveness).

Decides when a client has given no sign of life for too long. A heartbeat says until when the client is taken for alive,
by its own clock; the first deadline is that of the submission. What the job is told then is not decided here.

If this process was stopped, the deadline is noticed late, and no sign of life could be noticed either: the client gets
the time by which it was late once more (see `heartbeat`).
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.messages.control.job import JobClientExpired
from flykka.messages.wire.ids import JobId

LATE_MS = 1_000
"""A deadline that is noticed later than this: the process did not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientExpired:
    job_id: JobId


class ClientSessions:
    """The jobs of a JobManager whose clients have to give signs of life."""

    def __init__(self) -> None:
        self._deadlines: dict[JobId, int] = {}

    def heartbeat(self, job_id: JobId, expires_ms: int, now: int) -> list[StartTimer]:
        """The client of a job lives, and is to be taken for dead at `expires_ms`. An earlier one changes nothing."""
        if self._deadlines.get(job_id, expires_ms - 1) >= expires_ms:
            return []
        # One that has passed already is not late: it is due now.
        self._deadlines[job_id] = deadline = max(expires_ms, now)
        timed_out = JobClientExpired(job_id=job_id)
        return [StartTimer(key=_key(job_id), delay_ms=deadline - now, message=timed_out)]

    def end(self, job_id: JobId) -> list[CancelTimer]:
        """The job has ended, or somebody else leads: nobody waits for its client any more."""
        return [] if self._deadlines.pop(job_id, None) is None else [CancelTimer(key=_key(job_id))]

    def expire(self, job_id: JobId, now: int) -> list[StartTimer | ClientExpired]:
        """The time of the client is over, unless it has given another sign of life, or this comes late."""
        deadline = self._deadlines.get(job_id)
        if deadline is None or deadline > now:
            return []
        late_ms = now - deadline
        if late_ms > LATE_MS:
            return [*self.heartbeat(job_id, now + late_ms, now)]
        del self._deadlines[job_id]
        return [ClientExpired(job_id=job_id)]


def _key(job_id: JobId) -> str:
    return f"client-{job_id}"
