"""What a window operator remembers, as values: segments of immutable rows, and where they lie in checkpoint storage.

Knows nothing of Spark: a frame is whatever reads a segment.

A segment is never changed. It has rows by pane (`event_time_windows.py`). Firing moves a bound: windows that start at
`emitted_to_ms` or before are through. Rows that are in no later window may still be in a segment, and are passed over
when it is read; a segment with no others is dropped.

A handle is used again only when a checkpoint that holds it is known to be complete, as in Flink: what an aborted
checkpoint has written is deleted with it. And only as a whole: were some of its segments merged into a new one and the
others not, their rows would be in two handles. So what is written together is what is merged together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.event_time_windows import EventTimeWindows

Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where segments lie in checkpoint storage; `checkpoint_id` is None once that checkpoint is complete."""

    handles: tuple[SharedStateHandle, ...]
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Generic[Frame]):
    """Rows of panes that start from `first_ms` to `last_ms`; `level` counts how often they were merged.

    Where windows overlap, rows may come too late for some of their windows and not for all: `closed_to_ms` is the start
    of the last window that was closed, fired or not, when the rows came; None where none of theirs was.
    """

    batch_id: BatchId
    frame: Frame
    rows: int
    first_ms: int
    last_ms: int
    level: int = 0
    closed_to_ms: int | None = None
    written: Written | None = None

    @property
    def is_durable(self) -> bool:
        """Whether a complete checkpoint has it."""
        return self.written is not None and self.written.checkpoint_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[Frame]):
    """A segment to be read: the panes that start from `from_ms` and before `until_ms`; None where no row is beyond.

    Its rows are for the windows that start after `closed_to_ms`; None is no bound.
    """

    segment: Segment[Frame]
    from_ms: int | None
    until_ms: int | None
    closed_to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Generic[Frame]):
    """Segments that are to be written together, for the windows that start after `closed_to_ms`."""

    readings: tuple[Reading[Frame], ...]
    closed_to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing(Generic[Frame]):
    """What is to be read for the windows that fire, and what is not needed any more when that is done."""

    readings: tuple[Reading[Frame], ...]
    finished: tuple[BatchId, ...]


class Segments(Generic[Frame]):
    """The live segments of one operator, in the order in which they were taken in."""

    def __init__(self, windows: EventTimeWindows, emitted_to_ms: int | None = None) -> None:
        self.emitted_to_ms = emitted_to_ms
        self._windows = windows
        self._live: list[Segment[Frame]] = []

    @property
    def live(self) -> tuple[Segment[Frame], ...]:
        """The segments with rows of windows above the bound."""
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
        until_ms, next_ms = self._windows.end_of_last(to_ms), self._windows.next_start(to_ms)
        readings = tuple(self._reading(segment, until_ms) for segment in self._live if self._fires(segment, to_ms))
        finished = tuple(segment.batch_id for segment in self._live if segment.last_ms < next_ms)
        self._live = [segment for segment in self._live if segment.last_ms >= next_ms]
        self.emitted_to_ms = to_ms
        return Firing(readings=readings, finished=finished)

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        """How to read all of a segment that some window still needs."""
        return self._reading(segment, None)

    def to_write(self, *, everything: bool = False) -> tuple[Unwritten[Frame], ...]:
        """What no complete checkpoint has, in parts that are each written by themselves: the segments of one level.

        They are for the same windows, too: so they are merged with all others that are alike, and at once, or fire.
        With `everything` it is what such checkpoints have as well.
        """
        parts: dict[tuple[int, int | None], list[Reading[Frame]]] = {}
        for segment in self._live:
            if everything or not segment.is_durable:
                parts.setdefault((segment.level, self._closed_to(segment)), []).append(self.reading(segment))
        return tuple(
            Unwritten(readings=tuple(readings), closed_to_ms=closed_to) for (_, closed_to), readings in parts.items()
        )

    def durable(self) -> dict[Written, int | None]:
        """What a complete checkpoint has, and the start of the last window that each is not for."""
        return {
            segment.written: self._closed_to(segment)
            for segment in self._live
            if segment.written is not None and segment.is_durable
        }

    def mergeable(self, at_least: int) -> tuple[Segment[Frame], ...]:
        """Segments of the lowest level of which there are enough, so that each row is merged a few times at most.

        They are all for the same windows.
        """
        alike: dict[tuple[int, int | None], list[Segment[Frame]]] = {}
        for segment in self._live:
            alike.setdefault((segment.level, self._closed_to(segment)), []).append(segment)
        enough = [segments for segments in alike.values() if len(segments) >= at_least]
        if not enough:
            return ()
        lowest = min(enough, key=lambda segments: segments[0].level)
        return tuple(lowest)

    def replace(self, old: Sequence[Segment[Frame]], merged: Segment[Frame] | None) -> None:
        """Put one segment in the place of those it was merged from; None where no row was left of them.

        What is known of a segment's first and last row are bounds: its batch may be a part of what they were taken of.
        """
        gone = {segment.batch_id for segment in old}
        self._live = [segment for segment in self._live if segment.batch_id not in gone]
        left = {segment.written for segment in self._live} - {None}
        assert not any(segment.written in left for segment in old), "a handle was merged in part"
        if merged is not None:
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
        """Assert the invariants: no segment twice, none empty, none that no window needs."""
        assert len({segment.batch_id for segment in self._live}) == len(self._live)
        assert all(segment.first_ms <= segment.last_ms for segment in self._live)
        bound = self.emitted_to_ms
        assert bound is None or all(segment.last_ms >= self._windows.next_start(bound) for segment in self._live)

    def _fires(self, segment: Segment[Frame], to_ms: int) -> bool:
        """Whether a segment has rows for a window up to `to_ms`."""
        is_open = segment.closed_to_ms is None or segment.closed_to_ms < to_ms
        return is_open and segment.first_ms < self._windows.end_of_last(to_ms)

    def _reading(self, segment: Segment[Frame], until_ms: int | None) -> Reading[Frame]:
        from_ms = None if self.emitted_to_ms is None else self._windows.next_start(self.emitted_to_ms)
        return Reading(
            segment=segment,
            from_ms=from_ms if from_ms is not None and segment.first_ms < from_ms else None,
            until_ms=until_ms if until_ms is not None and segment.last_ms >= until_ms else None,
            closed_to_ms=self._closed_to(segment),
        )

    def _closed_to(self, segment: Segment[Frame]) -> int | None:
        bounds = (self.emitted_to_ms, segment.closed_to_ms)
        return max((bound for bound in bounds if bound is not None), default=None)
