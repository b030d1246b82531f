"""The children of a cell, in the order of their spawning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.errors import InvalidActorNameError
from flykka.runtime.signals import Stop

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell


class Children:
    """The children of a cell. A child is removed when the parent handles the child's end, as in Akka.

    So a parent sees its children change in its own turns only. Additions and removals hold the tree's lock, under which
    a kill removes the subtree, because other actors may spawn under `/user` too.
    """

    __slots__ = ("_by_name", "_dying")

    def __init__(self) -> None:
        self._by_name: dict[str, Cell] = {}
        self._dying: dict[Cell, None] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def all(self) -> list[Cell]:
        return list(self._by_name.values())

    def find(self, ref: Ref) -> Cell | None:
        child = self._by_name.get(ref.path.rpartition("/")[2])
        return child if child is not None and child.ref == ref else None

    def add(self, name: str, child: Cell) -> None:
        present = self._by_name.get(name)
        if present is not None:
            if present.end_reason is None:
                raise InvalidActorNameError(f"{present.ref} is alive, so the name {name!r} is not free")
            # The child has ended, but the parent has not handled the notification yet.
            self.remove(present)
        self._by_name[name] = child

    def stop(self, child: Cell) -> None:
        if child not in self._dying:
            self._dying[child] = None
            child.ref.signal(Stop())

    def expect_end(self, child: Cell) -> None:
        """Mark as dying a child that this cell itself has not stopped."""
        self._dying[child] = None

    def remove(self, child: Cell) -> None:
        self._dying.pop(child, None)
        if self._by_name.get(child.name) is child:
            del self._by_name[child.name]

    @property
    def any_dying(self) -> bool:
        return bool(self._dying)
