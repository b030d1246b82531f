"""Who still breathes: the deadlines behind the heartbeats (Flink's HeartbeatManager, in both its forms).

The asking side (ResourceManager, JobMaster) sends a request to every target once per interval and gives up one that has
not answered within its timeout. The asked side (TaskManager) sends nothing of itself and gives up one that has not
asked. A silence is noticed at the first tick behind its timeout.

Not here: the timer that ticks, and what a target is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from flykka.actors.ignore import Ignore

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorTarget:
    """Watch over this target from now on, or under this timeout from now on."""

    target: str
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmonitorTarget:
    """The target is nothing to us any more."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReceived:
    """A sign of life."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatTick:
    """Another interval has passed."""


HeartbeatEvent = MonitorTarget | UnmonitorTarget | HeartbeatReceived | HeartbeatTick


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeatRequest:
    """Ask the target for a sign of life."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTimedOut:
    """The target has been silent for too long; it is watched no more."""

    target: str
    silent_ms: int


HeartbeatEffect = SendHeartbeatRequest | TargetTimedOut | Ignore


@dataclass(slots=True)
class _Target:
    timeout_ms: int
    last_heard_ms: int


class HeartbeatMonitor:
    """The targets of one actor; `asks` says on which side of the conversation it stands."""

    def __init__(self, *, asks: bool) -> None:
        self._asks = asks
        self._targets: dict[str, _Target] = {}

    def handle(self, event: HeartbeatEvent, now: int) -> list[HeartbeatEffect]:
        """Take one event at `now` (ms); what is to be done about it, in the order in which the targets came."""
        match event:
            case MonitorTarget(target=target, timeout_ms=timeout_ms):
                assert timeout_ms > 0, f"{target} has no time to answer"
                self._targets[target] = _Target(timeout_ms, now)
                return [SendHeartbeatRequest(target=target)] if self._asks else []
            case UnmonitorTarget(target=target):
                return [] if self._targets.pop(target, None) else [_unknown(target)]
            case HeartbeatReceived(target=target):
                return self._on_heartbeat(target, now)
            case HeartbeatTick():
                return self._on_tick(now)
            case _:
                assert_never(event)

    @property
    def targets(self) -> tuple[str, ...]:
        """Who is watched."""
        return tuple(self._targets)

    def check(self) -> None:
        """Assert the invariants."""
        assert all(target.timeout_ms > 0 for target in self._targets.values())

    def _on_heartbeat(self, target: str, now: int) -> list[HeartbeatEffect]:
        watched = self._targets.get(target)
        if watched is None:
            return [_unknown(target)]
        watched.last_heard_ms = now
        return []

    def _on_tick(self, now: int) -> list[HeartbeatEffect]:
        effects: list[HeartbeatEffect] = []
        for name, target in tuple(self._targets.items()):
            silent_ms = now - target.last_heard_ms
            if silent_ms >= target.timeout_ms:
                del self._targets[name]
                effects.append(TargetTimedOut(target=name, silent_ms=silent_ms))
            elif self._asks:
                effects.append(SendHeartbeatRequest(target=name))
        return effects


def _unknown(target: str) -> Ignore:
    return Ignore(reason=f"{target} is not watched")
