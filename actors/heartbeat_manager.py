"""Requests heartbeats from the targets of an actor, and reports targets that timed out (Flink's HeartbeatManager)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import assert_never

from flykka.actors.machines import heartbeat
from flykka.messages.control.registration import HeartbeatDue
from flykka.runtime.context import ActorContext
from flykka.runtime.durations import format_ms

_log = logging.getLogger(__name__)

_EXCUSED = (
    "heartbeats missed during this time are not counted against its peers (the process was stopped, or the"
    " machine is overloaded)"
)


class HeartbeatManager:
    """Monitors the peers of one actor, in its turns. `request` sends a heartbeat request to a target, if requests are
    used.
    """

    def __init__(self, context: ActorContext, request: Callable[[str], None] | None = None) -> None:
        self._context = context
        self._request = request
        self._monitor = heartbeat.HeartbeatMonitor()

    def start(self, interval_ms: int) -> None:
        """Send the actor `HeartbeatDue` once per interval, replacing an earlier timer."""
        self.ticks_begin(interval_ms)
        self._context.timers.start_fixed_delay("heartbeat", interval_ms, HeartbeatDue())

    def ticks_begin(self, interval_ms: int) -> None:
        """Expect `HeartbeatDue` once per interval from the timer of another manager."""
        self._monitor.begin_ticks(interval_ms, self._context.now())

    def monitor(self, target: str, timeout_ms: int, *, is_asked: bool) -> None:
        """Monitor the target. If `is_asked` is False, no requests are sent to it: it must send heartbeats or register
        on its own.
        """
        self._perform(self._monitor.monitor(target, timeout_ms, self._context.now(), is_asked=is_asked))

    def unmonitor(self, target: str) -> None:
        self._monitor.unmonitor(target)

    def heartbeat_received(self, target: str) -> None:
        self._monitor.heartbeat_received(target, self._context.now())

    def on_heartbeat_due(self) -> list[heartbeat.TargetTimedOut]:
        return self._perform(self._monitor.tick(self._context.now()))

    def _perform(self, effects: list[heartbeat.HeartbeatEffect]) -> list[heartbeat.TargetTimedOut]:
        timed_out: list[heartbeat.TargetTimedOut] = []
        for effect in effects:
            match effect:
                case heartbeat.SendHeartbeatRequest(target=target):
                    assert self._request is not None, f"this actor cannot send the heartbeat request for {target}"
                    self._request(target)
                case heartbeat.TargetTimedOut():
                    timed_out.append(effect)
                case heartbeat.TickLate(late_ms=late_ms):
                    name = self._context.ref.path.rpartition("/")[2]
                    _log.warning("%s did not run for %s: %s", name, format_ms(late_ms), _EXCUSED)
                case _:
                    assert_never(effect)
        return timed_out
