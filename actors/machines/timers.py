"""Timers as effects: an actor has one timer of each name, and a timer that is started again replaces the former."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.messages.wire.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    """Come back with the message after `delay_ms`."""

    key: str
    delay_ms: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """The timer of this name is not needed any more."""

    key: str
