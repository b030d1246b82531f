"""What older traces do not tell of an effect, and what therefore cannot be held against a replay of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flykka.runtime.trace.effects import (
    Awaited,
    CancelTimer,
    Effect,
    Pipe,
    Reply,
    Send,
    SetReceiveTimeout,
    Spawn,
    StartTimer,
    Stash,
    Stop,
    UnstashAll,
    Unwatch,
    Watch,
)

_FIRST = (
    Send,
    Reply,
    Spawn,
    Stop,
    Watch,
    Unwatch,
    StartTimer,
    CancelTimer,
    SetReceiveTimeout,
    Pipe,
    Stash,
    UnstashAll,
)
"""The effects that traces of the first format tell of."""


def as_in_first_format(effects: Iterable[Effect]) -> list[Effect]:
    """The effects of a replay as a trace of the first format would have told them."""
    return [_as_first(each) for each in effects if isinstance(each, _FIRST)]


def as_far_as_told(recorded: Effect, now: Effect) -> Effect:
    """The effect of a replay without what the record of it does not tell: later versions tell more."""
    match recorded, now:
        case Pipe(work=None), Pipe():
            return Pipe()
        case Spawn(actor=""), Spawn():
            return replace(now, actor="")
        case Awaited(), Awaited():
            # When it went on is what the record tells it, and no deed of its own.
            return replace(now, now_ms=recorded.now_ms, promise=now.promise if recorded.promise else None)
        case _:
            return now


def _as_first(effect: Effect) -> Effect:
    match effect:
        case Send():
            return replace(effect, promise=None, forwarded=False)
        case Spawn():
            return replace(effect, actor="")
        case StartTimer():
            return replace(effect, fixed_rate=False)
        case Pipe():
            return Pipe()
        case _:
            return effect
