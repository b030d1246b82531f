"""The keyed state of an operator, as values: segments of immutable rows, and where they lie in checkpoint storage.

Knows nothing of the data plane: a frame is whatever reads a segment. A segment is never changed; segments are merged
when many live, which leaves one in their place.

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

Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The place of segments in checkpoint storage; `checkpoint_id` is None once that checkpoint is complete."""

    handles: tuple[SharedStateHandle, ...]
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBounds:
    """The results that rows of state are of no use for any more, and those that have all that the rows tell.

    Rows are for results later than `closed_to_ms` only. Those up to `emitted_to_ms` were emitted with these rows in
    them. None is no bound. Where results are emitted once, the two are one.
    """

    closed_to_ms: int | None = None
    emitted_to_ms: int | None = None


def latest(*bounds: int | None) -> int | None:
    """Return the greatest of some bounds, None where all are no bound."""
    return max((bound for bound in bounds if bound is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Generic[Frame]):
    """Rows of state; `level` counts how often they were merged.

    Where state is cut by event time, its rows are of times from `first_ms` to `last_ms`, and are for results later than
    `closed_to_ms` only: None where no result that they belong to was closed, fired or not, when they came. Where rows
    that come late have results emitted again, those up to `emitted_to_ms` were emitted with the rows of the segment.

    Where newer rows of a key take the place of older ones, `version` is that of the newest in the segment. Where keys
    have timers, `first_timers_ms` are the first by event time and by processing time.
    """

    batch_id: BatchId
    frame: Frame
    rows: int
    version: int = 0
    first_timers_ms: tuple[int | None, int | None] = (None, None)
    first_ms: int = 0
    last_ms: int = 0
    level: int = 0
    closed_to_ms: int | None = None
    emitted_to_ms: int | None = None
    written: Written | None = None

    @property
    def is_durable(self) -> bool:
        """True if a complete checkpoint has it."""
        return self.written is not None and self.written.checkpoint_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[Frame]):
    """A segment to be read: the rows of times from `from_ms` and before `until_ms`; None where no row is beyond.

    Its rows are for results later than `closed_to_ms`; None is no bound. Where some of these have its rows already,
    they are those up to `emitted_to_ms`, which are emitted again only for rows of other segments.
    """

    segment: Segment[Frame]
    from_ms: int | None = None
    until_ms: int | None = None
    closed_to_ms: int | None = None
    emitted_to_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Generic[Frame]):
    """Segments that are to be written together, for the same results."""

    readings: tuple[Reading[Frame], ...]
    bounds: ResultBounds


class Segments(Generic[Frame]):
    """The live segments of one state, in the order in which they were added."""

    def __init__(self) -> None:
        self._live: list[Segment[Frame]] = []
        self._merging: frozenset[BatchId] = frozenset()

    @property
    def live(self) -> tuple[Segment[Frame], ...]:
        return tuple(self._live)

    def add(self, segment: Segment[Frame]) -> None:
        self._live.append(segment)

    def bound_of(self, segment: Segment[Frame], closed_to_ms: int | None) -> int | None:
        """The bound that a segment has whose rows came when results up to `closed_to_ms` were closed."""
        return closed_to_ms

    def bounds(self, segment: Segment[Frame]) -> ResultBounds:
        return ResultBounds(closed_to_ms=segment.closed_to_ms)

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        return Reading(segment=segment, closed_to_ms=segment.closed_to_ms)

    def to_write(self, *, everything: bool = False) -> tuple[Unwritten[Frame], ...]:
        """Return the segments that no complete checkpoint has, in parts written by themselves: one for each level.

        They are for the same results, too: so they are merged with all others that are alike, and at once, or fire.
        Those that are being merged are parts of their own. With `everything` it is what such checkpoints have as well.
        """
        parts: dict[tuple[ResultBounds, int, bool, bool], list[Reading[Frame]]] = {}
        for segment in self._live:
            if everything or not segment.is_durable:
                is_merging = segment.batch_id in self._merging
                alike = self.bounds(segment), segment.level, is_merging, self.may_merge(segment)
                parts.setdefault(alike, []).append(self.reading(segment))
        return tuple(Unwritten(readings=tuple(readings), bounds=bounds) for (bounds, *_), readings in parts.items())

    def durable(self) -> dict[Written, ResultBounds]:
        """Return the segments that a complete checkpoint has, with the results that each is not for."""
        return {
            segment.written: self.bounds(segment)
            for segment in self._live
            if segment.written is not None and segment.is_durable
        }

    def mergeable(self, at_least: int) -> tuple[Segment[Frame], ...]:
        """Segments of the lowest level of which there are enough, so that each row is merged a few times at most.

        They are all for the same results.
        """
        alike: dict[tuple[int, ResultBounds], list[Segment[Frame]]] = {}
        for segment in filter(self.may_merge, self._live):
            alike.setdefault((segment.level, self.bounds(segment)), []).append(segment)
        enough = [segments for segments in alike.values() if len(segments) >= at_least]
        if not enough:
            return ()
        lowest = min(enough, key=lambda segments: segments[0].level)
        return tuple(lowest)

    def may_merge(self, segment: Segment[Frame]) -> bool:
        """True if a segment is to become one with others; the answer stays what it was."""
        return True

    def begin_merge(self, segments: Sequence[Segment[Frame]]) -> None:
        """Segments are being merged, until `replace_merged` is told of them; no others may be meanwhile."""
        assert not self._merging, "one merge goes on at a time"
        self._merging = frozenset(segment.batch_id for segment in segments)

    def are_oldest(self, segments: Sequence[Segment[Frame]]) -> bool:
        """True if no other live segment has an older version."""
        newest = max(segment.version for segment in segments)
        chosen = {segment.batch_id for segment in segments}
        return all(segment.version > newest for segment in self._live if segment.batch_id not in chosen)

    def replace_merged(self, old: Sequence[Segment[Frame]], merged: Segment[Frame] | None) -> None:
        """Put one segment in the place of those it was merged from; None where no row was left of them.

        What is known of a segment's first and last row are bounds: its batch may be a part of what they were taken of.
        """
        gone, self._merging = {segment.batch_id for segment in old}, frozenset()
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
        assert len({segment.batch_id for segment in self._live}) == len(self._live)
        assert all(segment.first_ms <= segment.last_ms for segment in self._live)
