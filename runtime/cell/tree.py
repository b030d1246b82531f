"""The tree of cells. Its lock orders spawning, stopping and killing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from flykka.runtime import path as paths
from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.cell.pinned_cell import PinnedCell
from flykka.runtime.errors import SpawnRefusedError
from flykka.runtime.events import EndReason
from flykka.runtime.props import Props, require_props
from flykka.runtime.pykka_seam import register

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.system import ActorSystem

_ENDING = (CellState.STOPPING, CellState.ENDING, CellState.ENDED)


class Tree:
    """The living cells by path. `lock` is held while cells are added or removed, never while user code runs."""

    def __init__(self, system: ActorSystem) -> None:
        self.lock = threading.RLock()
        self._system = system
        self._cells: dict[str, Cell] = {}
        self._incarnations: dict[str, int] = {}
        self._displaced: dict[Ref, Cell] = {}

    def create_root(self, props: Props) -> Cell:
        root = Cell(self._system, None, props, "", paths.ROOT, 1)
        self._enter(root)
        return root

    def attach(self, parent: Cell, props: Props, name: str, *, is_sure: bool = False) -> Cell:
        """Add a new cell under `parent`, not started yet. `is_sure` is set if a replay knows that the cell was
        admitted.

        Raises:
            InvalidActorNameError: the name is malformed, or a living child has it.
            SpawnRefusedError: the parent is ending.
            TypeError: `props` is not a Props.
        """
        require_props(props)
        path = paths.child_path(parent.ref.path, name)
        with self.lock:
            is_late = parent.end_reason is not None or parent.state in _ENDING
            if is_late and not is_sure:
                raise SpawnRefusedError(f"{parent.ref} is ending, so {name!r} cannot be spawned below it")
            incarnation = self._system.incarnation(path, self._incarnations.get(path, 0) + 1)
            cell = self._kind_of_cell(props)(self._system, parent, props, name, path, incarnation)
            parent.children.add(name, cell)
            if is_late:
                parent.children.expect_end(cell)
            self._enter(cell)
        return cell

    def set_next_incarnation(self, path: str, incarnation: int) -> None:
        self._incarnations[path] = incarnation - 1

    def displace(self, cell: Cell) -> None:
        """Free the path for the next actor before this actor has ended. For a replay, which sees that end later."""
        assert cell.parent is not None
        self._displaced[cell.ref] = cell
        cell.parent.children.remove(cell)
        self._forget(cell)

    def find(self, path: str) -> Cell | None:
        return self._cells.get(path)

    def find_incarnation(self, ref: Ref) -> Cell | None:
        cell = self._cells.get(ref.path)
        return cell if cell is not None and cell.ref.incarnation == ref.incarnation else self._displaced.get(ref)

    def mark_stopped(self, cell: Cell) -> bool:
        with self.lock:
            if cell.end_reason is not None:
                return False
            cell.end_reason = EndReason.STOPPED
            self._forget(cell)
            return True

    def mark_killed(self, ref: Ref) -> list[Cell]:
        """Mark a living cell and its descendants as killed, parents first. The caller releases them."""
        with self.lock:
            cell = self.find_incarnation(ref)
            return [] if cell is None else self._mark_killed(cell)

    def living(self) -> list[Cell]:
        """Return all living cells: parents before children, otherwise in the order of their spawning."""
        with self.lock:
            return list(self._cells.values())

    def living_paths(self) -> list[str]:
        """Return the sorted paths of all living actors without the guardians, or of the guardians if no other actor
        lives.
        """
        living = sorted(self._cells)
        return [path for path in living if path not in (paths.ROOT, paths.USER)] or living

    def _kind_of_cell(self, props: Props) -> type[Cell]:
        match props.dispatcher:
            case "loop":
                return AsyncCell
            case "pinned" if self._system.dispatcher.has_threads:
                return PinnedCell
            case _:
                return Cell

    def _mark_killed(self, cell: Cell) -> list[Cell]:
        if cell.end_reason is not None:
            return []
        cell.end_reason = EndReason.KILLED
        self._forget(cell)
        return [cell, *(each for child in cell.children.all() for each in self._mark_killed(child))]

    def _enter(self, cell: Cell) -> None:
        self._cells[cell.ref.path] = cell
        self._incarnations[cell.ref.path] = cell.ref.incarnation
        register(cell.ref)

    def _forget(self, cell: Cell) -> None:
        if self._cells.get(cell.ref.path) is cell:
            del self._cells[cell.ref.path]
        elif cell.end_reason is not None:
            self._displaced.pop(cell.ref, None)
