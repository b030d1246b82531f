"""An actor's address as a value. On the wire it is path and incarnation; the kernel's refs are its living form."""

from __future__ import annotations

from collections.abc import Callable

from flykka.messages.wire.errors import UnresolvedRefError
from flykka.messages.wire.message import Message


class Ref:
    """Path and incarnation of an actor: equal where both are equal, whatever the class.

    A trace read without an actor system holds plain `Ref`s; in a living system the decoder makes the kernel's
    `ActorRef`, which derives from this.
    """

    def __init__(self, path: str, incarnation: int) -> None:
        self.path = path
        self.incarnation = incarnation

    def tell(self, message: Message) -> None:
        """Send `message` and forget it. Raises `UnresolvedRefError` on an address outside a system."""
        raise UnresolvedRefError(f"{self} is an address from a trace: no actor stands behind it")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and (self.path, self.incarnation) == (other.path, other.incarnation)

    def __hash__(self) -> int:
        return hash((self.path, self.incarnation))

    def __repr__(self) -> str:
        return f"{self.path}#{self.incarnation}"


def is_former(ref: Ref, known: Ref | None) -> bool:
    """Tell whether `known` has replaced the actor of `ref`: at one path, the later actor has a higher number."""
    return known is not None and ref.path == known.path and ref.incarnation < known.incarnation


Resolve = Callable[[str, int], Ref]
"""Makes a ref of a path and an incarnation, for a decoder."""
