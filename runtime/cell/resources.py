"""Resources of an actor outside the kernel, closed when it ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell

logger = logging.getLogger("flykka.runtime")


class SupportsClose(Protocol):
    """Anything with a `close`."""

    def close(self) -> object:
        """Release the resource."""


class Resources:
    """Resources, closed last in, first out, each exactly once: the thread that pops one closes it."""

    __slots__ = ("_cell", "_held")

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._held: list[SupportsClose] = []

    def own(self, resource: SupportsClose) -> None:
        """Own `resource`; if the cell has ended in the meantime, close it at once."""
        self._held.append(resource)
        if self._cell.end_reason is not None:
            self.close_all()

    def close_all(self) -> None:
        """Close every resource; one that fails to close does not keep the others open."""
        while self._held:
            try:
                resource = self._held.pop()
            except IndexError:
                return  # The other thread of a racing kill was faster.
            try:
                resource.close()
            except BaseException:
                logger.exception("%s: closing %r failed", self._cell.ref, resource)
