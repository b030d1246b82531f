"""Blocking work that an actor has started in a turn, as a trace records it."""

from __future__ import annotations

from flykka.messages.wire.message import Value, value


@value("blocking_work.live_object")
class LiveObject(Value):
    """The placeholder for an object that a trace cannot record, such as a connection."""


_Part = None | bool | int | float | str | bytes | Value
_Parts = _Part | tuple[_Part | tuple[_Part | tuple[_Part, ...], ...], ...]


@value("blocking_work.begun")
class BlockingWork(Value):
    """The name of a function, and its arguments. The last arguments are those named in `keywords`."""

    function: str
    arguments: tuple[_Parts, ...] = ()
    keywords: tuple[str, ...] = ()
