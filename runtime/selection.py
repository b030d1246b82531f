"""An address by path alone: whoever lives there when something is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.messages.message import Message
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem


class ActorSelection:
    """A path, looked up anew for every message: it outlives the incarnations of an actor (Akka's ActorSelection)."""

    __slots__ = ("_system", "path")

    def __init__(self, system: ActorSystem, path: str) -> None:
        self._system = system
        self.path = path

    def resolve_one(self) -> ActorRef | None:
        """The ref of the actor that lives at the path now."""
        return self._system.find(self.path)

    def tell(self, message: Message) -> None:
        """Send `message` to whoever lives at the path now; a dead letter if no one does."""
        (self.resolve_one() or self._system.dead_ref(self.path)).tell(message)

    def __repr__(self) -> str:
        return f"ActorSelection({self.path})"
