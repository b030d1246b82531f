"""What handles the messages of an actor, where that changes while it lives: `become` and `unbecome`."""

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
    """Raise `TypeError` for what cannot handle a message of this cell."""
    if not callable(behaviour):
        raise TypeError(f"{cell.ref} cannot become {behaviour!r}: a behaviour is a function of the message")
    if iscoroutinefunction(behaviour) and not cell.on_loop:
        raise TypeError(
            f"{cell.ref} cannot become {behaviour.__qualname__}, a coroutine function: "
            "only Props.with_dispatcher('loop') can run it"
        )


class Behaviours:
    """The behaviours of one instance, the one in hand on top (Akka's behaviour stack). A restart forgets them."""

    __slots__ = ("_cell", "_first", "_stack")

    def __init__(self, cell: Cell, first: Behaviour) -> None:
        self._cell = cell
        self._first = first
        self._stack = [first]

    @property
    def top(self) -> Behaviour:
        """The one in hand."""
        return self._stack[-1]

    def become(self, behaviour: Behaviour, discard_old: bool) -> None:
        """Put `behaviour` on top, in the place of the one in hand or above it."""
        if discard_old:
            self._stack.pop()
        self._stack.append(behaviour)
        self._cell.behave(behaviour)

    def unbecome(self) -> None:
        """Take the top away; under the last one there is `handle_message`."""
        self._stack.pop()
        if not self._stack:
            self._stack.append(self._first)
        self._cell.behave(self.top)
