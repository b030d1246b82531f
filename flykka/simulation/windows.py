"""The windows of one simulated attempt, on the segments of the product: only what reads them is simple.

A row that comes late is a result of its own, at once: so no row is ever lost, and the truth stays known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from flykka.actors.machines.state.key_groups import covers, key_groups_of
from flykka.messages.state.handles import ExclusiveStateHandle, KeyGroupRange, OperatorSubtaskState, SharedStateHandle
from flykka.messages.state.operator_state import ClosedTo, WindowOperatorState
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.simulation.operators import Window
from flykka.simulation.rows import Row, Rows, size_of, within
from flykka.simulation.world import World
from flykka.spark_bridge.state.segments import Reading, Segment, Segments, Unwritten, Written

_MERGE_AT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsAtBarrier:
    """The state as it was at a barrier: what lies in complete checkpoints, and what is to be written."""

    emitted_to_ms: int | None
    durable: dict[Written, int | None]
    to_write: tuple[Unwritten[Rows], ...]


class SimulatedWindows:
    """Window state of one attempt."""

    def __init__(self, behaviour: Window, operator_id: OperatorId, descriptor: TaskDeploymentDescriptor) -> None:
        vertex = descriptor.vertex
        self.operator_id = operator_id
        self._behaviour = behaviour
        self._attempt = descriptor.attempt
        self._max_parallelism = vertex.max_parallelism
        self.owned: KeyGroupRange = key_groups_of(descriptor.subtask, vertex.max_parallelism, vertex.parallelism)
        self._segments: Segments[Rows] = Segments(behaviour.windows)
        self._numbers = count()

    def look_at(self, rows: Rows, watermark_ms: int) -> tuple[Rows, Rows]:
        """The rows to keep for their windows, and the results of those that come too late for theirs."""
        assert rows == within(rows, self.owned, self._max_parallelism), "rows have come to the wrong subtask"
        closed_to = self._closed_to(watermark_ms)
        late = tuple(row for row in rows if closed_to is not None and self._start(row) <= closed_to)
        return tuple(row for row in rows if row not in late), self._behaviour.fired(late)

    def fold(self, rows: Rows) -> None:
        """Keep rows."""
        self._add(rows, level=0)
        alike = self._segments.mergeable(_MERGE_AT)
        if alike:
            merged = tuple(row for segment in alike for row in self._read(self._segments.reading(segment)))
            made = self._segment(merged, alike[0].level + 1, alike[0].closed_to_ms)
            self._segments.replace(alike, made)

    def fire(self, watermark_ms: int) -> Rows:
        """What the windows give that the watermark closes."""
        if watermark_ms == WATERMARK_MIN:
            return ()
        firing = self._segments.fire(self._behaviour.windows.last_fired_start(watermark_ms))
        return self._behaviour.fired(row for reading in firing.readings for row in self._read(reading))

    def at_barrier(self, *, everything: bool) -> WindowsAtBarrier:
        """The state as it is now."""
        emitted_to_ms = self._segments.emitted_to_ms
        return WindowsAtBarrier(
            # As the bridge has it: who goes on from a job that was drained begins event time anew.
            emitted_to_ms=None if emitted_to_ms == WATERMARK_MAX else emitted_to_ms,
            durable={} if everything else self._segments.durable(),
            to_write=self._segments.to_write(everything=everything),
        )

    def write(
        self, state: WindowsAtBarrier, world: World, checkpoint_id: int, folder: str, *, is_savepoint: bool
    ) -> tuple[OperatorSubtaskState, int]:
        """Write what is to be written; the state of the operator, and the bytes that are new. Raises `OSError`."""
        parts = dict(state.durable)
        written: list[SharedStateHandle] = []
        try:
            for number, part in enumerate(state.to_write):
                rows = tuple(row for reading in part.readings for row in self._read(reading))
                state_id = f"{self._attempt}-{checkpoint_id}" + (f"-{number}" if number else "")
                world.storage.write(world.path(f"{folder}/{state_id}"), rows)
                handle = SharedStateHandle(
                    state_id=state_id,
                    path=f"{folder}/{state_id}",
                    rows=len(rows),
                    size_bytes=size_of(rows),
                    key_groups=self.owned,
                )
                written.append(handle)
                parts[Written(handles=(handle,), checkpoint_id=checkpoint_id)] = part.closed_to_ms
        except OSError:
            # A storage that cannot be written may not be able to delete either: what stays, nobody refers to.
            for handle in written:
                world.storage.files.pop(world.path(handle.path), None)
            raise
        if not is_savepoint:
            for part, place in zip(state.to_write, list(parts)[len(state.durable) :], strict=True):
                self._segments.mark_written([reading.segment.batch_id for reading in part.readings], place)
        size_bytes = sum(handle.size_bytes for handle in written)
        return self._noted(state, parts, is_savepoint=is_savepoint), size_bytes

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""
        self._segments.confirm(checkpoint_id)

    def restore(self, states: Iterable[OperatorSubtaskState], world: World) -> None:
        """Begin with what a checkpoint holds: pieces of the subtasks before, of which this one owns some key groups."""
        bounds: list[int | None] = []
        own: dict[int | None, list[SharedStateHandle]] = {}
        cut: list[tuple[int | None, Rows]] = []
        for state in states:
            if state.key_groups is None:
                continue
            noted = decode(state.keyed_state) if state.keyed_state else WindowOperatorState()
            assert isinstance(noted, WindowOperatorState)
            bounds.append(noted.emitted_to_ms)
            closed = {each.state_id: each.closed_to_ms for each in noted.closed}
            handles: tuple[SharedStateHandle | ExclusiveStateHandle, ...] = (*state.shared, *state.exclusive)
            for handle in handles:
                state_id = handle.path.rsplit("/", 1)[-1]
                closed_to = closed.get(state_id, noted.emitted_to_ms)
                if isinstance(handle, SharedStateHandle) and _is_own(handle, state.key_groups):
                    own.setdefault(closed_to, []).append(handle)
                else:
                    rows = world.storage.read_rows(world.path(handle.path))
                    cut.append((closed_to, within(rows, state.key_groups, self._max_parallelism)))
        emitted = None if None in bounds else min((bound for bound in bounds if bound is not None), default=None)
        self._segments = Segments(self._behaviour.windows, emitted)
        for closed_to, mine in own.items():
            rows = tuple(row for each in mine for row in world.storage.read_rows(world.path(each.path)))
            self._add(rows, level=1, closed_to=closed_to, written=Written(handles=tuple(mine), checkpoint_id=None))
        for closed_to, rows in cut:
            self._add(rows, level=1, closed_to=closed_to)

    def check(self) -> None:
        """Assert the invariants of the segments."""
        self._segments.check()

    def _noted(
        self, state: WindowsAtBarrier, parts: dict[Written, int | None], *, is_savepoint: bool
    ) -> OperatorSubtaskState:
        handles = {handle.state_id: handle for part in parts for handle in part.handles}
        closed = tuple(
            ClosedTo(state_id=handle.state_id, closed_to_ms=closed_to)
            for part, closed_to in parts.items()
            for handle in part.handles
            if closed_to is not None and closed_to != state.emitted_to_ms
        )
        noted = encode(WindowOperatorState(emitted_to_ms=state.emitted_to_ms, closed=closed))
        exclusive = tuple(ExclusiveStateHandle(path=each.path, size_bytes=each.size_bytes) for each in handles.values())
        return OperatorSubtaskState(
            operator_id=self.operator_id,
            shared=() if is_savepoint else tuple(handles.values()),
            exclusive=exclusive if is_savepoint else (),
            key_groups=self.owned,
            keyed_state=noted,
        )

    def _closed_to(self, watermark_ms: int) -> int | None:
        emitted = self._segments.emitted_to_ms
        if watermark_ms == WATERMARK_MIN:
            return emitted
        closed = self._behaviour.windows.last_fired_start(watermark_ms)
        return closed if emitted is None else max(closed, emitted)

    def _start(self, row: Row) -> int:
        return self._behaviour.start_of(row.time_ms)

    def _read(self, reading: Reading[Rows]) -> Sequence[Row]:
        def is_read(start_ms: int) -> bool:
            return (
                (reading.from_ms is None or start_ms >= reading.from_ms)
                and (reading.until_ms is None or start_ms < reading.until_ms)
                and (reading.closed_to_ms is None or start_ms > reading.closed_to_ms)
            )

        return [row for row in reading.segment.frame if is_read(self._start(row))]

    def _add(self, rows: Rows, *, level: int, closed_to: int | None = None, written: Written | None = None) -> None:
        kept = tuple(row for row in rows if closed_to is None or self._start(row) > closed_to)
        made = self._segment(kept, level, closed_to, written)
        if made is not None:
            self._segments.add(made)

    def _segment(
        self, rows: Rows, level: int, closed_to: int | None, written: Written | None = None
    ) -> Segment[Rows] | None:
        starts = [self._start(row) for row in rows]
        if not starts:
            return None
        return Segment(
            batch_id=BatchId(f"{self._attempt}/segment-{next(self._numbers)}"),
            frame=rows,
            rows=len(rows),
            first_ms=min(starts),
            last_ms=max(starts),
            level=level,
            closed_to_ms=closed_to,
            written=written,
        )


def _is_own(handle: SharedStateHandle, wanted: KeyGroupRange) -> bool:
    return handle.key_groups is not None and covers(wanted, handle.key_groups)
