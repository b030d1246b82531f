"""The beginning of a ring: the actors as they were there, made of their snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.cell.lifecycle import Life
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ForeignModuleError, TraceError
from flykka.runtime.replay.props_resolver import REFUSALS, GraphReader
from flykka.runtime.replay.system import BOUNDARY
from flykka.runtime.trace.state.snapshots import IDLE, Snapshot, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.replay.props_resolver import PropsResolver
    from flykka.runtime.replay.system import ReplaySystem

_NOT_WANTED = "not asked for"


class RingStart:
    """Fills a system with the actors that lived where a ring begins.

    Args:
        system: nobody but the guardians lives there yet.
        resolver: finds their Props.
        leave_out: makes an actor a boundary, for a reason.
    """

    def __init__(self, system: ReplaySystem, resolver: PropsResolver, leave_out: Callable[[Ref, str], Cell]) -> None:
        self._system = system
        self._resolver = resolver
        self._leave_out = leave_out

    def fill(self, snapshots: Iterable[Snapshot], is_wanted: Callable[[Ref], bool]) -> None:
        """Attach everybody, parents before children, and then restore those who take turns."""
        attached = []
        for snapshot in snapshots:
            entry = self._attached(snapshot, is_wanted(snapshot.ref))
            if entry is not None:
                attached.append(entry)
        for cell, reader in attached:
            self._restore(cell, reader)

    def _attached(self, snapshot: Snapshot, is_wanted: bool) -> tuple[Cell, _StateReader] | None:
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
        try:
            reader = _StateReader(snapshot.state, self._resolver, system)
            if guardian is not None:
                return guardian, reader
            props = self._resolver.given(ref) or self._resolver.checked(reader.graph.read(0))
        except ForeignModuleError:
            raise
        except REFUSALS as reason:
            if guardian is not None:
                raise TraceError(f"the snapshot of {ref} cannot be read: {reason}") from reason
            self._leave_out(ref, str(reason))
            return None
        return system.attach(props, ref), reader

    def _restore(self, cell: Cell, reader: _StateReader) -> None:
        try:
            reader.restore(cell)
        except ForeignModuleError:
            raise
        except REFUSALS as refusal:
            if cell.parent is None or cell.parent.parent is None:
                raise TraceError(f"the snapshot of {cell.ref} is not one of this version: {refusal}") from refusal
            self._leave_out(cell.ref, f"its snapshot cannot be restored: {refusal}")


def _begun(guardian: Cell | None) -> Cell | None:
    if guardian is not None and guardian.life is Life.STARTING:
        guardian.make_instance()
        guardian.life = Life.RUNNING
    return guardian


class _StateReader:
    """Reads the Props of an actor, and its state when it has a cell of these and its children have theirs."""

    def __init__(self, state: bytes, resolver: PropsResolver, system: ReplaySystem) -> None:
        self.graph = GraphReader(state, resolver, system.resolve, self._outside)
        self._system = system
        self._cell: Cell | None = None

    def restore(self, cell: Cell) -> None:
        self._cell = cell
        restore(cell, self.graph.read(1))

    def _outside(self, kind: str) -> object:
        match kind:
            case "context" if self._cell is not None:
                return ActorContext(self._cell)
            case "system":
                return self._system
            case _:
                raise ValueError(f"a snapshot holds a {kind!r}, which this version does not know")
