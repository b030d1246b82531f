"""The beginning of a ring: the actors as they were there, made of their snapshots."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from flykka.messages.errors import CodecError
from flykka.messages.ref import Ref
from flykka.runtime.errors import TraceError
from flykka.runtime.life import Life
from flykka.runtime.trace.records import Spawned
from flykka.runtime.trace.replay.casting import CastingError, named
from flykka.runtime.trace.replay.system import BOUNDARY
from flykka.runtime.trace.snapshots import Snapshot, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flykka.runtime.cell import Cell
    from flykka.runtime.props import Props
    from flykka.runtime.trace.recipes import Recipe
    from flykka.runtime.trace.replay.casting import Casting
    from flykka.runtime.trace.replay.system import ReplaySystem

_NOBODY = Ref("", 0)


class RingStart:
    """Fills a system with those who lived where a ring begins.

    Args:
        system: nobody but the guardians lives there yet.
        casting: finds their Props.
        leave_out: makes an actor a boundary, for a reason.
    """

    def __init__(self, system: ReplaySystem, casting: Casting, leave_out: Callable[[Ref, str], Cell]) -> None:
        self._system = system
        self._casting = casting
        self._leave_out = leave_out

    def fill(self, snapshots: Iterable[Snapshot], is_wanted: Callable[[Ref], bool]) -> None:
        """Attach everybody, parents before children, and then restore those who take turns."""
        attached = []
        for snapshot in snapshots:
            cell = self._attached(snapshot, is_wanted(snapshot.ref))
            if cell is not None:
                attached.append((snapshot, cell))
        for snapshot, cell in attached:
            if snapshot.state is not None:
                self._restore(cell, snapshot.state)

    def _attached(self, snapshot: Snapshot, is_wanted: bool) -> Cell | None:
        """The cell to restore, None where there is nothing to restore."""
        system, ref = self._system, snapshot.ref
        if snapshot.parent is None or snapshot.parent.path == "/":
            return _begun(system.cells.find(ref.path))
        if snapshot.state is None and is_wanted:
            # Who takes no turn is there for the others to see.
            idle = system.attach(BOUNDARY, ref)
            idle.life = Life.RUNNING
            return None
        if not is_wanted or snapshot.state is None:
            self._leave_out(ref, snapshot.reason or "not asked for")
            return None
        try:
            return system.attach(self._props(snapshot.recipe, ref), ref)
        except CastingError as reason:
            self._leave_out(ref, str(reason))
            return None

    def _restore(self, cell: Cell, state: bytes) -> None:
        try:
            restore(cell, state, find=_find, make=self._props)
        except (CastingError, CodecError, LookupError, TypeError, ValueError, AttributeError) as refusal:
            if cell.parent is None or cell.parent.parent is None:
                raise TraceError(f"the snapshot of {cell.ref} is not one of this version: {refusal}") from refusal
            self._leave_out(cell.ref, f"its snapshot cannot be restored: {refusal}")

    def _props(self, recipe: Recipe | None, ref: Ref = _NOBODY) -> Props:
        told = Spawned(sequence=0, now_ms=0, ref=ref, parent=_NOBODY, actor="", recipe=recipe)
        return self._casting.props_of(told, self._system.resolve)


def _begun(guardian: Cell | None) -> Cell | None:
    """A guardian, begun long ago."""
    if guardian is not None and guardian.life is Life.STARTING:
        guardian.make_instance()
        guardian.life = Life.RUNNING
    return guardian


def _find(name: str) -> Any:
    """A class or function of a module; of Python's own only the types that everybody has."""
    module, _, qualname = name.partition(":")
    found = getattr(builtins, qualname, None) if module == "builtins" else None
    return found if isinstance(found, type) else named(name)
