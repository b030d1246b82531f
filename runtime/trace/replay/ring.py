"""The beginning of a ring: the actors as they were there, made of their snapshots."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.errors import CodecError
from flykka.runtime.cell.lifecycle import Life
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.replay.casting import CastingError, named
from flykka.runtime.trace.replay.system import BOUNDARY
from flykka.runtime.trace.snapshots import IDLE, Restoring, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.trace.replay.casting import Casting
    from flykka.runtime.trace.replay.system import ReplaySystem

_NOT_WANTED = "not asked for"
_REFUSALS = (CastingError, CodecError, LookupError, TypeError, ValueError, AttributeError)


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
            entry = self._attached(snapshot, is_wanted(snapshot.ref))
            if entry is not None:
                attached.append(entry)
        for cell, restoring in attached:
            self._restore(cell, restoring)

    def _attached(self, snapshot: Snapshot, is_wanted: bool) -> tuple[Cell, Restoring] | None:
        """The cell and what is to be put into it; None where there is nothing."""
        system, ref = self._system, snapshot.ref
        is_guardian = snapshot.parent is None or snapshot.parent.path == "/"
        guardian = _begun(system.cells.find(ref.path)) if is_guardian else None
        if snapshot.state is None:
            if guardian is None and is_wanted and snapshot.reason == IDLE:
                # Who takes no turn is there for the others to see.
                system.attach(BOUNDARY, ref).life = Life.RUNNING
            elif guardian is None:
                self._leave_out(ref, snapshot.reason or _NOT_WANTED)
            return None
        if not is_wanted and guardian is None:
            self._leave_out(ref, _NOT_WANTED)
            return None
        casting = self._casting
        restoring = Restoring(
            snapshot.state, system, stand_in=casting.stand_in_for, opaque=casting.stand_in, find=_find
        )
        if guardian is not None:
            return guardian, restoring
        try:
            props = casting.given(ref) or restoring.props()
        except _REFUSALS as reason:
            self._leave_out(ref, str(reason))
            return None
        if props is BOUNDARY:
            self._leave_out(ref, "its recorded messages are used instead")
            return None
        return system.attach(props, ref), restoring

    def _restore(self, cell: Cell, restoring: Restoring) -> None:
        try:
            restoring.put_into(cell)
        except _REFUSALS as refusal:
            if cell.parent is None or cell.parent.parent is None:
                raise TraceError(f"the snapshot of {cell.ref} is not one of this version: {refusal}") from refusal
            self._leave_out(cell.ref, f"its snapshot cannot be restored: {refusal}")


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
