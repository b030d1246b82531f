"""Blocking work that an actor has begun, as a trace tells it: what is to be done is decided in its turn."""

from __future__ import annotations

from flykka.messages.wire.message import Value, value


@value("blocking_work.live_object")
class LiveObject(Value):
    """Stands for an object that has no form in a trace, such as a connection."""


_Part = None | bool | int | float | str | bytes | Value
_Parts = _Part | tuple[_Part | tuple[_Part | tuple[_Part, ...], ...], ...]


@value("blocking_work.begun")
class BlockingWork(Value):
    """A function by its name, and what it is given; the last of the arguments are those that have `keywords`."""

    function: str
    arguments: tuple[_Parts, ...] = ()
    keywords: tuple[str, ...] = ()
