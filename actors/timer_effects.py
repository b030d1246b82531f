"""Applies the timer effects of state machines to the timers of their actor."""

from __future__ import annotations

from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.runtime.context import ActorContext


def set_timer(context: ActorContext, effect: StartTimer | CancelTimer) -> None:
    if isinstance(effect, StartTimer):
        context.timers.start_once(effect.key, effect.delay_ms, effect.message)
    else:
        context.timers.cancel(effect.key)
