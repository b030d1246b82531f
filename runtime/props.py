"""How an actor is made: a recipe that the kernel keeps and uses again for every restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from flykka.runtime.actor import Actor

DispatcherName = Literal["default", "pinned"]


class Props:
    """A class or factory with its arguments. The arguments are live objects; they never travel in a message.

    Every restart calls the factory again: what it closes over is shared by all instances of the actor.
    """

    __slots__ = ("_args", "_factory", "_kwargs", "dispatcher")

    def __init__(self, factory: Callable[..., Actor], *args: Any, **kwargs: Any) -> None:
        self._factory = factory
        self._args = args
        self._kwargs = kwargs
        self.dispatcher: DispatcherName = "default"

    def with_dispatcher(self, dispatcher: DispatcherName) -> Props:
        """The same recipe on another dispatcher: `pinned` gives the actor a thread of its own, so that it may block."""
        if dispatcher not in ("default", "pinned"):
            raise ValueError(f"no dispatcher {dispatcher!r}: there are 'default' and 'pinned'")
        props = Props(self._factory, *self._args, **self._kwargs)
        props.dispatcher = dispatcher
        return props

    def make(self) -> Actor:
        """A new instance; called in the actor's own turn."""
        return self._factory(*self._args, **self._kwargs)

    def __repr__(self) -> str:
        return f"Props({getattr(self._factory, '__qualname__', self._factory)})"
