"""The last records of a run in memory, packed and compressed, with the snapshots that a replay needs to start there.

Records are grouped in generations by sequence numbers, each as large as the ring's limit. The current generation and
the previous one are retained, so that there are always enough records. A snapshot of each actor is taken at its first
turn in a generation, before the turn does anything: this is its state at the start of the generation, because it has
had no turn since then. A ring starts with a generation, and with the snapshots of all actors that have turns in it;
other actors are only named.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from flykka.runtime.cell.lifecycle import CellState
from flykka.runtime.ref import ActorRef
from flykka.runtime.trace.file import frame_format as layout
from flykka.runtime.trace.state.graph_writer import NoFormError, learn_opaque, pack_props
from flykka.runtime.trace.state.snapshots import IDLE, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.system import ActorSystem
    from flykka.runtime.trace.record_tuples import RecordTuple

_SNAPSHOTS_PER_FRAME = 256
_FRAME_BYTES = 1024 * 1024
"""The bytes of snapshots after which a frame is full, however few the snapshots are."""

Row = tuple[Any, ...]


@dataclass
class _Generation:
    """A generation. `snapshots` maps each ref to the turn that spawned an unstarted actor, and to the row to write."""

    chunks: deque[bytes] = field(default_factory=deque)
    blocks: list[bytes] = field(default_factory=list)
    snapshots: dict[Ref, tuple[int | None, Row]] = field(default_factory=dict)
    spawned: dict[Ref, int] = field(default_factory=dict)


class RingBlocks:
    """Retains the chunks of a recorder, and drops old ones. It replaces a `BlockWriter`."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._lock = threading.Lock()
        self._generations: dict[int, _Generation] = {}
        self._newest = 0
        self._names: dict[str, Any] = {}
        self._origin: tuple[str, int] | None = None
        self._system: ActorSystem | None = None
        self.waiting_bytes = 0
        self.ended = False

    def open(self, system: str, seed: int) -> None:
        """Start recording. Raises `OSError` if the file cannot be written, now rather than at the end.

        The file is emptied, so that after a crash the previous run is not mistaken for this one.
        """
        self._origin = (system, seed)
        self._path.open("wb").close()

    def before_turn(self, cell: Cell) -> None:
        sequence = cell.sequence
        assert sequence is not None
        self._system = cell.system
        number = (sequence - 1) // self._limit
        generation = self._generation(number)
        ref = cell.ref
        if number and ref not in generation.snapshots:
            spawned_at = self._spawned_at(cell) if cell.state is CellState.STARTING else None
            generation.snapshots[ref] = (spawned_at, _row(cell, *snapshot_of(cell)))

    def spawned(self, sequence: int, ref: Ref) -> None:
        if isinstance(ref, ActorRef):
            with suppress(NoFormError):  # The error is reported with the actor's snapshot, if it has turns.
                learn_opaque(cast("Cell", ref.actor_inbox.owner))
        self._generation((sequence - 1) // self._limit).spawned[ref] = sequence

    def groups(self, records: Sequence[RecordTuple]) -> Iterator[list[RecordTuple]]:
        for _, group in groupby(records, key=lambda record: (record[1] - 1) // self._limit):
            yield list(group)

    def put(self, first: int, chunk: bytes, names: dict[str, Any]) -> None:
        layout.merge_names(self._names, names)
        number = (first - 1) // self._limit
        if number >= self._newest - 1:
            self._generation(number).chunks.append(chunk)
            self.waiting_bytes += len(chunk)

    def write_waiting(self) -> None:
        with self._lock:
            self.waiting_bytes = 0
            for number in sorted(self._generations):
                generation = self._generations[number]
                chunks = [generation.chunks.popleft() for _ in range(len(generation.chunks))]
                generation.blocks += layout.blocks(chunks)

    def close(self) -> None:
        if self._origin is not None and not self.ended:
            self.ended = True
            self.write(self._path)

    def write(self, path: Path) -> None:
        assert self._origin is not None, "no system has started"
        self.write_waiting()
        with self._lock:
            generations = [(number, self._generations[number]) for number in self._retained()]
            begins_at = generations[0][0] * self._limit + 1 if generations else None
            ring = {"limit": self._limit, "not_kept": (begins_at or 1) - 1, "begins_at": begins_at}
            frames = [layout.header(*self._origin, ring=ring), layout.names(self._names)]
            frames += _snapshot_frames(self._rows(begins_at or 1))
            frames += [block for _, generation in generations for block in generation.blocks]
            frames.append(layout.end({}))
        layout.write_whole(path, frames)

    def _generation(self, number: int) -> _Generation:
        generation = self._generations.get(number)
        if generation is None:
            with self._lock:
                generation = self._generations.setdefault(number, _Generation())
                if number > self._newest:
                    self._newest = number
                    for old in [each for each in self._generations if each < number - 1]:
                        del self._generations[old]
        return generation

    def _retained(self) -> list[int]:
        # A delayed thread may just have requested an older generation.
        return sorted(number for number in self._generations if number >= self._newest - 1)

    def _spawned_at(self, cell: Cell) -> int:
        """Return the number of the turn that spawned an actor without turns, or of its spawn from outside."""
        current = cell.current
        cause = getattr(current, "cause", None)
        if cause is not None:
            return int(cause)
        turns = (generation.spawned.get(cell.ref) for generation in list(self._generations.values()))
        return next((sequence for sequence in turns if sequence is not None), 0)

    def _rows(self, begins_at: int) -> Iterator[Row]:
        if begins_at == 1:
            return
        rows: dict[Ref, tuple[int | None, Row]] = {}
        for number in self._retained():
            for ref, entry in list(self._generations[number].snapshots.items()):
                rows.setdefault(ref, entry)
        born = {ref for ref, (spawned_at, _) in rows.items() if spawned_at is not None and spawned_at >= begins_at}
        living = [] if self._system is None else self._system.cells.living()
        for cell in living:
            if cell.ref not in rows and cell.state is not CellState.STARTING:
                rows[cell.ref] = (None, _row(cell, pack_props(cell.props), None, IDLE))
        current = [row for ref, (_, row) in rows.items() if ref not in born]
        yield from sorted(current, key=lambda row: row[0].count("/") if row[0] != "/" else 0)


def _snapshot_frames(rows: Iterable[Row]) -> Iterator[bytes]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        *_, props, state, _ = row
        batch.append(row)
        size += len(props or b"") + len(state or b"")
        if size >= _FRAME_BYTES or len(batch) == _SNAPSHOTS_PER_FRAME:
            yield layout.snapshots(batch)
            batch, size = [], 0
    if batch:
        yield layout.snapshots(batch)


def _row(cell: Cell, props: bytes | None, state: bytes | None, reason: str | None) -> Row:
    parent = None if cell.parent is None else (cell.parent.ref.path, cell.parent.ref.incarnation)
    return cell.ref.path, cell.ref.incarnation, parent, cell.props.factory_name, props, state, reason
