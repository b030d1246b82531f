"""An actor's address as a value. Its wire form is path and incarnation; the kernel's refs are the live form."""

from __future__ import annotations

from collections.abc import Callable

from flykka.messages.wire.errors import UnresolvedRefError
from flykka.messages.wire.message import Message


class Ref:
    """The path and incarnation of an actor. Two refs are equal if both are, whatever their classes.

    A trace that is read without an actor system contains plain `Ref`s. In a running system the decoder creates the
    kernel's `ActorRef`, which derives from this class.
    """

    def __init__(self, path: str, incarnation: int) -> None:
        self.path = path
        self.incarnation = incarnation

    def tell(self, message: Message) -> None:
        """Send `message` without waiting. Raises `UnresolvedRefError` if the address is outside of an actor system."""
        raise UnresolvedRefError(f"{self} is an address from a trace: no actor receives messages there")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and (self.path, self.incarnation) == (other.path, other.incarnation)

    def __hash__(self) -> int:
        return hash((self.path, self.incarnation))

    def __repr__(self) -> str:
        return f"{self.path}#{self.incarnation}"


def is_former(ref: Ref, known: Ref | None) -> bool:
    """Return True if `known` has replaced the actor of `ref`: the later actor at a path has the higher incarnation."""
    return known is not None and ref.path == known.path and ref.incarnation < known.incarnation


Resolve = Callable[[str, int], Ref]
