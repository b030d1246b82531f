"""What a window operator remembers, as values: segments of immutable rows, and where they lie in checkpoint storage.

Knows nothing of Spark: a frame is whatever reads a segment.

A segment is never changed. Firing moves a bound: windows that start at `emitted_to_ms` or before are through, and rows
of theirs that are still in a segment are passed over when it is read. A segment with nothing above the bound is
dropped.

A handle is used again only when a checkpoint that holds it is known to be complete, as in Flink: what an aborted
checkpoint has written is deleted with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from flykka.messages.ids import BatchId
from flykka.messages.state import SharedStateHandle

Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where segments lie in checkpoint storage; `checkpoint_id` is None once that checkpoint is complete."""

    handles: tuple[SharedStateHandle, ...]
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Generic[Frame]):
    """Rows of windows that start from `first_ms` to `last_ms`; `level` counts how often they were merged."""

    batch_id: BatchId
    frame: Frame
    rows: int
    first_ms: int
    last_ms: int
    level: int = 0
    written: Written | None = None

    @property
    def is_durable(self) -> bool:
        """Whether a complete checkpoint has it."""
        return self.written is not None and self.written.checkpoint_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[Frame]):
    """A segment to be read between two bounds on the start of windows; None where no row is beyond."""

    segment: Segment[Frame]
    after_ms: int | None
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing(Generic[Frame]):
    """What is to be read for the windows that fire, and what is not needed any more when that is done."""

    readings: tuple[Reading[Frame], ...]
    finished: tuple[BatchId, ...]


class Segments(Generic[Frame]):
    """The live segments of one operator, oldest first."""

    def __init__(self, emitted_to_ms: int | None = None) -> None:
        self.emitted_to_ms = emitted_to_ms
        self._live: list[Segment[Frame]] = []

    @property
    def live(self) -> tuple[Segment[Frame], ...]:
        """The segments in which something lies above the bound."""
        return tuple(self._live)

    def add(self, segment: Segment[Frame]) -> None:
        """Take in a segment."""
        self._live.append(segment)

    def fire(self, to_ms: int) -> Firing[Frame]:
        """Move the bound: the windows from the old one to the new one fire, if there are any.

        It moves where there are none, too: what is late must not depend on what came before.
        """
        if self.emitted_to_ms is not None and to_ms <= self.emitted_to_ms:
            return Firing(readings=(), finished=())
        readings = tuple(self._reading(segment, to_ms) for segment in self._live if segment.first_ms <= to_ms)
        finished = tuple(segment.batch_id for segment in self._live if segment.last_ms <= to_ms)
        self._live = [segment for segment in self._live if segment.last_ms > to_ms]
        self.emitted_to_ms = to_ms
        return Firing(readings=readings, finished=finished)

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        """How to read all of a segment that has not been emitted."""
        return self._reading(segment, segment.last_ms)

    def mergeable(self, at_least: int) -> tuple[Segment[Frame], ...]:
        """Segments of the lowest level of which there are enough, so that each row is merged a few times at most."""
        for level in sorted({segment.level for segment in self._live}):
            same = tuple(segment for segment in self._live if segment.level == level)
            if len(same) >= at_least:
                return same
        return ()

    def replace(self, old: Sequence[Segment[Frame]], merged: Segment[Frame]) -> None:
        """Put one segment in the place of those it was merged from."""
        gone = {segment.batch_id for segment in old}
        self._live = [segment for segment in self._live if segment.batch_id not in gone]
        self._live.append(merged)

    def mark_written(self, batch_ids: Sequence[BatchId], written: Written) -> None:
        """Segments lie in checkpoint storage; those that are gone by now are passed over."""
        chosen = frozenset(batch_ids)
        self._live = [
            replace(segment, written=written) if segment.batch_id in chosen else segment for segment in self._live
        ]

    def confirm(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: what was written for it stays."""
        self._live = [
            replace(segment, written=replace(segment.written, checkpoint_id=None))
            if segment.written is not None and segment.written.checkpoint_id == checkpoint_id
            else segment
            for segment in self._live
        ]

    def check(self) -> None:
        """Assert the invariants: no segment twice, none empty, none wholly below the bound."""
        assert len({segment.batch_id for segment in self._live}) == len(self._live)
        assert all(segment.first_ms <= segment.last_ms for segment in self._live)
        bound = self.emitted_to_ms
        assert bound is None or all(segment.last_ms > bound for segment in self._live)

    def _reading(self, segment: Segment[Frame], to_ms: int) -> Reading[Frame]:
        bound = self.emitted_to_ms
        return Reading(
            segment=segment,
            after_ms=bound if bound is not None and segment.first_ms <= bound else None,
            to_ms=to_ms if segment.last_ms > to_ms else None,
        )
