"""Behaviours of an actor that change while it lives: `become` and `unbecome`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell

Behaviour = Callable[["Message"], object]
"""A bound method or function that handles one message, as `Actor.handle_message` does."""


def refuse_behaviour(behaviour: Behaviour, cell: Cell) -> None:
    """Raise `TypeError` where `behaviour` cannot handle a message of this cell."""
    if not callable(behaviour):
        raise TypeError(f"{cell.ref} cannot become {behaviour!r}: a behaviour is a function of the message")
    if iscoroutinefunction(behaviour) and not cell.on_loop:
        raise TypeError(
            f"{cell.ref} cannot become {behaviour.__qualname__}, a coroutine function: "
            "only Props.with_dispatcher('loop') can run it"
        )


class Behaviours:
    """Stack of an instance's behaviours, the current one on top (Akka's behaviour stack). A restart drops it."""

    __slots__ = ("_cell", "_first", "_stack")

    def __init__(self, cell: Cell, first: Behaviour) -> None:
        self._cell = cell
        self._first = first
        self._stack = [first]

    @property
    def top(self) -> Behaviour:
        return self._stack[-1]

    def become(self, behaviour: Behaviour, discard_old: bool) -> None:
        """Push `behaviour`, in the place of the current one or above it."""
        if discard_old:
            self._stack.pop()
        self._stack.append(behaviour)
        self._cell.behave(behaviour)

    def unbecome(self) -> None:
        """Pop the current behaviour; below the last one is `handle_message`."""
        self._stack.pop()
        if not self._stack:
            self._stack.append(self._first)
        self._cell.behave(self.top)
