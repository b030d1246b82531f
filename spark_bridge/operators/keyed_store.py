"""Named keyed state of an operator: immutable segments, which are merged when there are many, and written to storage
once.

Adding to a state runs no job of the engine. Segments are added and read in the order of the stages, but merges and
snapshots run in the background. A lock protects the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import ClassVar, Generic

from flykka.actors.machines.state.keyed_state import RestoredKeyedState, StatePart, keyed_state, restored_keyed_state
from flykka.actors.machines.state.segments import Frame, Reading, ResultBounds, Segment, Segments, Unwritten, Written
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.wire.ids import BatchId, OperatorId
from flykka.spark_bridge.operators.operator import Operator, OperatorSnapshot, Rows
from flykka.spark_bridge.state.state_backend import StateBackend

_LOOK_AGAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtBarrier(Generic[Frame]):
    """The state as it was at a barrier. Each element of `to_write` is written separately.

    `durable` maps state that is already in storage to the bounds of results that it no longer counts for. `live`
    segments are held until all state is written.
    """

    live: tuple[Segment[Frame], ...]
    durable: Mapping[Written, ResultBounds]
    to_write: tuple[Unwritten[Frame], ...]

    @property
    def batch_ids(self) -> tuple[BatchId, ...]:
        return tuple(segment.batch_id for segment in self.live)

    def placed(self, places_of_parts: Sequence[Written]) -> list[Segment[Frame]]:
        """Return the live segments with their locations. `places_of_parts` are the locations of `to_write`, in
        order.
        """
        places = {
            reading.segment.batch_id: place
            for part, place in zip(self.to_write, places_of_parts, strict=True)
            for reading in part.readings
        }
        return [replace(each, written=places.get(each.batch_id, each.written)) for each in self.live]


class KeyedStore(Generic[Frame]):
    def __init__(self, backend: StateBackend[Frame], segments: Segments[Frame], name: str = "") -> None:
        self.backend = backend
        self.segments = segments
        self._name = name
        self._lock = Lock()
        self._parts: Sequence[StatePart] = ()
        self._is_restored: Future[None] = Future()
        self._snapshots: dict[int, _AtBarrier[Frame]] = {}
        self._holds = 0

    def restore(self, parts: Sequence[StatePart]) -> None:
        """Set the state of a checkpoint, which `read_restored` will read."""
        self._parts = parts

    @property
    def has_to_read(self) -> bool:
        return bool(self._parts) and not self._is_restored.done()

    def read_restored(self) -> None:
        """Read the restored state, possibly in the background.

        State may be added at the same time. Readers of the state and snapshots wait until all state is restored.
        """
        try:
            for part in self._parts:
                self._restore_part(part)
        except BaseException as raised:
            self._is_restored.set_exception(raised)
            raise
        self._is_restored.set_result(None)

    def _restore_part(self, part: StatePart) -> None:
        """Reuse the segments of a part that are still on the executors, and read all others from the checkpoint."""
        for handles, segments in self.backend.local.find(part.own_ids).items():
            batch_ids = [each.batch_id for each in segments]
            if not self.backend.has_memory_for(batch_ids):
                continue
            self.backend.hold(batch_ids)
            place = Written(handles=handles, checkpoint_id=None)
            for segment in segments:
                self._add_restored(segment, part.bounds, place)
            part = part.without(handles)
        loaded = self.backend.keep(self.backend.load(part)) if part.handles else None
        if loaded is not None:
            self._add_restored(replace(loaded, level=1), part.bounds, part.written)

    def _add_restored(self, segment: Segment[Frame], bounds: ResultBounds, written: Written | None) -> None:
        with self._lock:
            self.segments.add(replace(self._bounded(segment, bounds), written=written))

    def _bounded(self, segment: Segment[Frame], bounds: ResultBounds) -> Segment[Frame]:
        closed_to = self.segments.bound_of(segment, bounds.closed_to_ms)
        return replace(segment, closed_to_ms=closed_to, emitted_to_ms=bounds.emitted_to_ms)

    def add(self, segment: Segment[Frame] | None) -> None:
        """Add rows to the state. If there are many segments, they are merged in the background."""
        if segment is None:
            return
        with self._lock:
            self.segments.add(segment)
            are_many = bool(self.segments.mergeable(self.backend.merge_at))
        if are_many:
            self.backend.in_background(self._merge)

    def _merge(self) -> None:
        with self._lock:
            merging = self.segments.mergeable(self.backend.merge_at)
            if not merging:
                # The previous merge has merged all segments.
                return
            self.segments.begin_merge(merging)
            readings = [self.segments.reading(each) for each in merging]
            are_oldest = not self.has_to_read and self.segments.are_oldest(merging)
            bounds = self.segments.bounds(merging[0])
        merged = self.backend.keep(self.backend.merge(self.backend.read(readings), are_oldest=are_oldest))
        with self._lock:
            if merged is not None:
                merged = replace(self._bounded(merged, bounds), level=merging[0].level + 1)
            self.segments.replace_merged(merging, merged)
        self.backend.release([each.batch_id for each in merging])

    def hold(
        self, chosen: Callable[[], Sequence[Reading[Frame]]]
    ) -> tuple[Sequence[Reading[Frame]], Callable[[], None]]:
        """Hold the chosen segments, which a merge may replace meanwhile. Return them and a function to release them."""
        self.await_restored()
        with self._lock:
            readings = chosen()
            self._holds += 1
            holder, batch_ids = (
                f"{self.backend.attempt} reading {self._holds}",
                [each.segment.batch_id for each in readings],
            )
            self.backend.hold(batch_ids, holder)
        return readings, lambda: self.backend.release(batch_ids, holder)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        """Record the state at a barrier. With `everything` the snapshot shares no files of earlier checkpoints."""
        self.await_restored()
        with self._lock:
            snapshot = _AtBarrier(
                live=self.segments.live,
                durable={} if everything else self.segments.durable(),
                to_write=self.segments.to_write(everything=everything),
            )
            self.backend.hold(snapshot.batch_ids, self._holder(checkpoint_id))
        self._snapshots[checkpoint_id] = snapshot

    def write(self, checkpoint_id: int, savepoint: str | None, first: int) -> dict[Written, ResultBounds]:
        """Write the recorded state in parts numbered from `first`. Return the locations and bounds of all state."""
        snapshot, written = self._snapshots.pop(checkpoint_id), list[Written]()
        try:
            state_id = f"{self.backend.attempt}-{checkpoint_id}"
            numbered = enumerate(snapshot.to_write, start=first)
            parts = [(f"{state_id}-{number}" if number else state_id, part) for number, part in numbered]
            for handle in self.backend.write(parts, savepoint):
                handle_of_state = replace(handle, state_name=self._name)
                written.append(Written(handles=(handle_of_state,), checkpoint_id=checkpoint_id))
            if savepoint is None:
                # Later checkpoints may not refer to files of a savepoint.
                self._mark(snapshot, written)
                self.backend.local.keep(checkpoint_id, snapshot.placed(written))
        except BaseException:
            self.delete(written)
            raise
        finally:
            self.backend.release(snapshot.batch_ids, self._holder(checkpoint_id))
        bounds = (part.bounds for part in snapshot.to_write)
        return {**snapshot.durable, **dict(zip(written, bounds, strict=True))}

    def delete(self, written: Sequence[Written]) -> None:
        for handle in (handle for each in written for handle in each.handles):
            self.backend.delete(handle)

    def discard(self, checkpoint_id: int) -> None:
        snapshot = self._snapshots.pop(checkpoint_id, None)
        if snapshot is not None:
            self.backend.release(snapshot.batch_ids, self._holder(checkpoint_id))

    def confirm(self, checkpoint_id: int) -> None:
        with self._lock:
            self.segments.confirm(checkpoint_id)
        self.backend.local.confirm(checkpoint_id)

    def _mark(self, snapshot: _AtBarrier[Frame], written: Sequence[Written]) -> None:
        with self._lock:
            for part, place in zip(snapshot.to_write, written, strict=True):
                self.segments.mark_written([reading.segment.batch_id for reading in part.readings], place)

    def _holder(self, checkpoint_id: int) -> str:
        return f"{self.backend.attempt} snapshot {checkpoint_id}" + (f" of {self._name}" if self._name else "")

    def await_restored(self) -> None:
        """Wait until the state is restored. Raises the error of the restore, or that the attempt was cancelled."""
        while self.has_to_read:
            self.backend.check()
            with suppress(TimeoutError):
                self._is_restored.exception(_LOOK_AGAIN_SECONDS)
        if self._parts:
            self._is_restored.result()


class KeyedOperator(Operator[Rows], Generic[Rows, Frame]):
    keeps_state: ClassVar[bool] = True

    def __init__(self, operator_id: OperatorId, stores: Mapping[str, KeyedStore[Frame]]) -> None:
        super().__init__(operator_id)
        self.stores = stores

    @property
    def has_to_read(self) -> bool:
        return any(store.has_to_read for store in self.stores.values())

    def read_restored(self) -> None:
        for store in self.stores.values():
            store.read_restored()

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        restored = self.restore_bounds(restored_keyed_state(states))
        for name, store in self.stores.items():
            store.restore(restored.parts.get(name, ()))

    def restore_bounds(self, restored: RestoredKeyedState) -> RestoredKeyedState:
        """Restore the event time of a checkpoint if it divides the state. Return the state that is still needed."""
        return restored

    def bounds_at(self, checkpoint_id: int) -> ResultBounds:
        return ResultBounds()

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        for store in self.stores.values():
            store.snapshot_state(checkpoint_id, everything=everything)

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        bounds = self.bounds_at(checkpoint_id)
        written: dict[Written, ResultBounds] = {}
        new: list[Written] = []
        for store in self.stores.values():
            try:
                places = store.write(checkpoint_id, savepoint, len(new))
            except BaseException:
                store.delete(new)
                for each in self.stores.values():
                    each.discard(checkpoint_id)
                raise
            written.update(places)
            new += [place for place in places if place.checkpoint_id is not None]
        owned = next(iter(self.stores.values())).backend.owned
        state = keyed_state(self.operator_id, owned, written, bounds=bounds, in_savepoint=savepoint is not None)
        size = sum(handle.size_bytes for place in new for handle in place.handles)
        return OperatorSnapshot(state=state, incremental_bytes=size)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        for store in self.stores.values():
            store.discard(checkpoint_id)

    def commit_checkpoint(self, checkpoint_id: int) -> tuple[str, ...]:
        """Allow later checkpoints to refer to the files written for this checkpoint."""
        for store in self.stores.values():
            store.confirm(checkpoint_id)
        return ()
