"""Heartbeat deadlines: detects targets that have timed out (Flink's HeartbeatManager, for both directions).

A target that this side polls gets a request once per interval, and times out if it does not respond: a TaskManager
polled by the ResourceManager and by JobMasters, a JobMaster polled by the ResourceManager. A target that polls this
side times out if its requests stop. A timeout is detected at the first tick after the deadline.

A missing heartbeat counts only while this side runs. If the process was stopped, or its actor could not run, the next
tick is late, and no target could have responded meanwhile, so the delay of the tick is added to every deadline. A lost
target is still detected, after the same number of ticks.

Other timeouts of flykka are not extended, because they do not measure whether a target in this process responds:

- leases and leadership concern other processes, which were not stopped: they must end in real time;
- a checkpoint's timeout and a stage's timeout bound work in Spark, which continued meanwhile, and cost one attempt;
- slot requests, registrations, calls (the RPC timeout) and queries are repeated, or get a reply at once when all
  parties run again; the first of these timeouts lasts minutes.

The deadline of an attached client is a deadline of a target, and is extended (`ClientSessions`).

Not here: the timer that ticks, and the types of targets.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.messages.control.job import JobClientExpired
from flykka.messages.wire.ids import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeatRequest:
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTimedOut:
    """The target has sent nothing for too long. It is no longer monitored."""

    target: str
    silent_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TickLate:
    """This process did not run for `late_ms`, so missing heartbeats in that time do not count."""

    late_ms: int


HeartbeatEffect = SendHeartbeatRequest | TargetTimedOut | TickLate


@dataclass(slots=True)
class _Target:
    timeout_ms: int
    is_asked: bool
    last_heard_ms: int


class HeartbeatMonitor:
    """The targets of one actor: those that it polls and those that poll it."""

    def __init__(self) -> None:
        self._targets: dict[str, _Target] = {}
        self._interval_ms: int | None = None
        self._last_tick_ms = 0

    def begin_ticks(self, interval_ms: int, now: int) -> None:
        """Expect a `tick` once per interval. Without this call no tick counts as late."""
        self._interval_ms, self._last_tick_ms = interval_ms, now

    def monitor(self, target: str, timeout_ms: int, now: int, *, is_asked: bool) -> list[HeartbeatEffect]:
        """Monitor this target, or change its timeout.

        A target that is not asked is expected to send messages on its own: requests or a registration.
        """
        assert timeout_ms > 0, f"the heartbeat timeout of {target} must be above 0 ms"
        self._targets[target] = _Target(timeout_ms, is_asked, now)
        return [SendHeartbeatRequest(target=target)] if is_asked else []

    def unmonitor(self, target: str) -> None:
        self._targets.pop(target, None)

    def heartbeat_received(self, target: str, now: int) -> None:
        if target in self._targets:
            self._targets[target].last_heard_ms = now

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self._targets)

    def tick(self, now: int) -> list[HeartbeatEffect]:
        effects = self._excuse_silence(now)
        for name, target in tuple(self._targets.items()):
            silent_ms = now - target.last_heard_ms
            if silent_ms >= target.timeout_ms:
                del self._targets[name]
                effects.append(TargetTimedOut(target=name, silent_ms=silent_ms))
            elif target.is_asked:
                effects.append(SendHeartbeatRequest(target=name))
        return effects

    def _excuse_silence(self, now: int) -> list[HeartbeatEffect]:
        if self._interval_ms is None:
            return []
        late_ms, self._last_tick_ms = now - self._last_tick_ms - self._interval_ms, now
        if late_ms <= self._interval_ms // 2 or not self._targets:
            return []
        for target in self._targets.values():
            target.last_heard_ms = min(now, target.last_heard_ms + late_ms)
        return [TickLate(late_ms=late_ms)]


LATE_MS = 1_000
"""The delay in milliseconds after which a deadline counts as late: this process did not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientExpired:
    job_id: JobId


class ClientSessions:
    """Deadlines of clients that are attached to their jobs (Flink's Dispatcher.checkJobClientAliveness).

    Detects when a client has sent no heartbeat for too long. A heartbeat carries the time until which the client counts
    as alive, by its own clock; the submission sets the first deadline. The reaction of the job is not decided here.

    If this process was stopped, deadlines expire late, and heartbeats could not be received either. The client
    therefore gets the delay as additional time, like any other target.
    """

    def __init__(self) -> None:
        self._deadlines: dict[JobId, int] = {}

    def heartbeat(self, job_id: JobId, expires_ms: int, now: int) -> list[StartTimer]:
        """Extend the deadline of a client to `expires_ms`. An earlier deadline changes nothing."""
        if self._deadlines.get(job_id, expires_ms - 1) >= expires_ms:
            return []
        # If the client's time has already passed, the deadline is now, so that it does not count as late.
        self._deadlines[job_id] = deadline = max(expires_ms, now)
        timed_out = JobClientExpired(job_id=job_id)
        return [StartTimer(key=_key(job_id), delay_ms=deadline - now, message=timed_out)]

    def end(self, job_id: JobId) -> list[CancelTimer]:
        return [] if self._deadlines.pop(job_id, None) is None else [CancelTimer(key=_key(job_id))]

    def expire(self, job_id: JobId, now: int) -> list[StartTimer | ClientExpired]:
        """Handle a due deadline, unless it was extended or expired late."""
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
