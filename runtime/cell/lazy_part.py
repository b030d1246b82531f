"""Parts of a cell that few actors need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell

T = TypeVar("T")


class LazyPart(Generic[T]):
    """Descriptor that makes its part on first access, and keeps it in the slot `_<name>`, which is None until then.

    A hundred thousand cells with all their parts would take Python's garbage collector longer than everything else.
    """

    def __init__(self, make: Callable[[Cell], T]) -> None:
        self._make = make
        self._slot = ""

    def __set_name__(self, owner: type[Cell], name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, cell: Cell, owner: type[Cell]) -> T:
        part: T | None = getattr(cell, self._slot)
        if part is None:
            part = self._make(cell)
            setattr(cell, self._slot, part)
        return part
