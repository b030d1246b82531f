"""Keyed state of an operator, by name: immutable segments that are merged when many live, written once, restored once.

Adding to a state costs no job of the engine. Segments are added and read in the order of the stages; merges, and the
notes about snapshots, come from the background: hence the lock.
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
    """The state as it was at a barrier; each part of `to_write` is written by itself.

    `durable` says of what lies in storage which results it is not for. What was `live` is held until all is written.
    """

    live: tuple[Segment[Frame], ...]
    durable: Mapping[Written, ResultBounds]
    to_write: tuple[Unwritten[Frame], ...]

    @property
    def held(self) -> tuple[BatchId, ...]:
        return tuple(segment.batch_id for segment in self.live)

    def placed(self, written: Sequence[Written]) -> list[Segment[Frame]]:
        """The segments with their places in storage, where `to_write` was written to these."""
        places = {
            reading.segment.batch_id: place
            for part, place in zip(self.to_write, written, strict=True)
            for reading in part.readings
        }
        return [replace(each, written=places.get(each.batch_id, each.written)) for each in self.live]


class KeyedStore(Generic[Frame]):
    """A state of an operator."""

    def __init__(self, backend: StateBackend[Frame], segments: Segments[Frame], name: str = "") -> None:
        self.backend = backend
        self.segments = segments
        self._name = name
        self._lock = Lock()
        self._parts: Sequence[StatePart] = ()
        self._is_restored: Future[None] = Future()
        self._noted: dict[int, _AtBarrier[Frame]] = {}
        self._held = 0

    def restore(self, parts: Sequence[StatePart]) -> None:
        """Begin with these parts of a checkpoint, which `read_restored` reads."""
        self._parts = parts

    @property
    def has_to_read(self) -> bool:
        return bool(self._parts) and not self._is_restored.done()

    def read_restored(self) -> None:
        """Read the restored state, part by part; it may be done in the background.

        State may be added meanwhile, which needs nothing of it. What reads the state waits for it, and so do snapshots.
        """
        try:
            for part in self._parts:
                self._begin_with(part)
        except BaseException as raised:
            self._is_restored.set_exception(raised)
            raise
        self._is_restored.set_result(None)

    def _begin_with(self, part: StatePart) -> None:
        """Go on with what is still here of a part, and read the rest of it from the checkpoint."""
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
        """Add rows to the state; where segments are many, they are merged in the background."""
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
                # The merge before this one took all.
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

    def held(
        self, chosen: Callable[[], Sequence[Reading[Frame]]]
    ) -> tuple[Sequence[Reading[Frame]], Callable[[], None]]:
        """Hold the segments to be read, and return what releases them: a merge may replace them meanwhile."""
        self.await_restored()
        with self._lock:
            readings = chosen()
            self._held += 1
            holder, batch_ids = (
                f"{self.backend.attempt} reading {self._held}",
                [each.segment.batch_id for each in readings],
            )
            self.backend.hold(batch_ids, holder)
        return readings, lambda: self.backend.release(batch_ids, holder)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        """Note the state as it is, with `everything` where nothing is shared."""
        self.await_restored()
        with self._lock:
            noted = _AtBarrier(
                live=self.segments.live,
                durable={} if everything else self.segments.durable(),
                to_write=self.segments.to_write(everything=everything),
            )
            self.backend.hold(noted.held, self._holder(checkpoint_id))
        self._noted[checkpoint_id] = noted

    def write(self, checkpoint_id: int, savepoint: str | None, first: int) -> dict[Written, ResultBounds]:
        """Write what was noted, in pieces numbered from `first`; where all of the state lies, with its bounds."""
        noted, written = self._noted.pop(checkpoint_id), list[Written]()
        try:
            state_id = f"{self.backend.attempt}-{checkpoint_id}"
            numbered = enumerate(noted.to_write, start=first)
            parts = [(f"{state_id}-{number}" if number else state_id, part) for number, part in numbered]
            for handle in self.backend.write(parts, savepoint):
                named = replace(handle, state_name=self._name)
                written.append(Written(handles=(named,), checkpoint_id=checkpoint_id))
            if savepoint is None:
                # No later checkpoint may refer to what is a savepoint's own.
                self._mark(noted, written)
                self.backend.local.keep(checkpoint_id, noted.placed(written))
        except BaseException:
            self.delete(written)
            raise
        finally:
            self.backend.release(noted.held, self._holder(checkpoint_id))
        bounds = (part.bounds for part in noted.to_write)
        return {**noted.durable, **dict(zip(written, bounds, strict=True))}

    def delete(self, written: Sequence[Written]) -> None:
        """Delete what was written for a snapshot that cannot be completed."""
        for handle in (handle for each in written for handle in each.handles):
            self.backend.delete(handle)

    def discard(self, checkpoint_id: int) -> None:
        noted = self._noted.pop(checkpoint_id, None)
        if noted is not None:
            self.backend.release(noted.held, self._holder(checkpoint_id))

    def confirm(self, checkpoint_id: int) -> None:
        with self._lock:
            self.segments.confirm(checkpoint_id)
        self.backend.local.confirm(checkpoint_id)

    def _mark(self, noted: _AtBarrier[Frame], written: Sequence[Written]) -> None:
        with self._lock:
            for part, place in zip(noted.to_write, written, strict=True):
                self.segments.mark_written([reading.segment.batch_id for reading in part.readings], place)

    def _holder(self, checkpoint_id: int) -> str:
        return f"{self.backend.attempt} snapshot {checkpoint_id}" + (f" of {self._name}" if self._name else "")

    def await_restored(self) -> None:
        """Wait until all state is there. Raises what its reading has raised, or that the attempt is over."""
        while self.has_to_read:
            self.backend.check()
            with suppress(TimeoutError):
                self._is_restored.exception(_LOOK_AGAIN_SECONDS)
        if self._parts:
            self._is_restored.result()


class KeyedOperator(Operator[Rows], Generic[Rows, Frame]):
    """An operator with keyed state, in stores by name."""

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
        """Begin with the event time of a checkpoint, where state is cut by it; the state that is needed."""
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
        """Later checkpoints may refer to what was written for this one."""
        for store in self.stores.values():
            store.confirm(checkpoint_id)
        return ()
