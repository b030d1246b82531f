"""Selections: addresses by path only, for the actors that live there when a message is sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flykka.runtime.path import ROOT

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.ref import ActorRef
    from flykka.runtime.system import ActorSystem


class ActorSelection:
    """A path that is looked up for every message, so it outlives the incarnations of an actor (Akka's ActorSelection).

    In a name `*` stands for any characters and `?` for one, so that a path may select many actors: `/user/shop/till-*`.
    """

    __slots__ = ("_has_wildcards", "_system", "path")

    def __init__(self, system: ActorSystem, path: str) -> None:
        self._system = system
        self._has_wildcards = "*" in path or "?" in path
        self.path = path

    def resolve(self) -> list[ActorRef]:
        """Return the refs of all actors that now live at the path, siblings in the order of their spawning."""
        return list(self._system.look_up(self.path, tuple(cell.ref for cell in self._cells())))

    def resolve_one(self) -> ActorRef | None:
        """Return the ref of the first actor that now lives at the path, or None."""
        return next(iter(self.resolve()), None)

    def tell(self, message: Message) -> None:
        """Send `message` to every actor that now lives at the path. It becomes a dead letter if there is none."""
        for ref in self.resolve() or [self._system.dead_ref(self.path)]:
            ref.tell(message)

    def _cells(self) -> list[Cell]:
        cells = self._system.cells
        if not self._has_wildcards:
            cell = cells.find(self.path)
            return [] if cell is None else [cell]
        root = cells.find(ROOT)
        matches = [] if root is None else [root]
        for part in self.path.split("/")[1:]:
            matches = _below(matches, part)
        return matches

    def __repr__(self) -> str:
        return f"ActorSelection({self.path})"


def _below(parents: list[Cell], pattern: str) -> list[Cell]:
    name = re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern))
    children = [child for parent in parents for child in parent.children.all() if child.end_reason is None]
    return [child for child in children if name.fullmatch(child.name)]
