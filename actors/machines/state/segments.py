"""The keyed state of an operator, as values: segments of immutable rows, and their locations in checkpoint storage.

Independent of the data plane: a frame is any object that can read a segment. A segment is never changed; many segments
are merged into one that replaces them.

A handle is reused only when a checkpoint that contains it is known to be complete, as in Flink, because files that an
aborted checkpoint has written are deleted with it. A handle is only reused as a whole: if only some of its segments
were merged into a new one, their rows would be in two handles. So segments that are written together are merged
together.
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
    """The location of segments in checkpoint storage. `checkpoint_id` is `None` once that checkpoint is complete."""

    handles: tuple[SharedStateHandle, ...]
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBounds:
    """The results for which rows of state are no longer needed, and the results that already include the rows.

    Rows are needed only for results later than `closed_to_ms`. Results up to `emitted_to_ms` were emitted with these
    rows. `None` means no bound. If results are emitted only once, both bounds are equal.
    """

    closed_to_ms: int | None = None
    emitted_to_ms: int | None = None


def latest(*bounds: int | None) -> int | None:
    return max((bound for bound in bounds if bound is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Generic[Frame]):
    """Rows of state. `level` counts how often they were merged.

    If state is divided by event time, the rows have times from `first_ms` to `last_ms`, and are needed only for results
    later than `closed_to_ms`, which is `None` if none of their results was closed, fired or not, when they arrived. If
    late rows cause results to be emitted again, the results up to `emitted_to_ms` were emitted with the rows of this
    segment. If newer rows of a key replace older ones, `version` is the version of the newest row in the segment. If
    keys have timers, `first_timers_ms` are the first timers by event time and by processing time.
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
        return self.written is not None and self.written.checkpoint_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[Frame]):
    """A segment to read: its rows from `from_ms` and before `until_ms`. `None` means that the bound excludes no row.

    The rows are for results later than `closed_to_ms` (`None`: no bound). Results up to `emitted_to_ms` already include
    the rows, and are emitted again only for rows of other segments.
    """

    segment: Segment[Frame]
    from_ms: int | None = None
    until_ms: int | None = None
    closed_to_ms: int | None = None
    emitted_to_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten(Generic[Frame]):
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
        return closed_to_ms

    def bounds(self, segment: Segment[Frame]) -> ResultBounds:
        return ResultBounds(closed_to_ms=segment.closed_to_ms)

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        return Reading(segment=segment, closed_to_ms=segment.closed_to_ms)

    def to_write(self, *, everything: bool = False) -> tuple[Unwritten[Frame], ...]:
        """Return the segments that no completed checkpoint contains, in parts to write separately: one for each level.

        The segments of a part have the same bounds, so that they are merged, or fire, at the same time as similar
        segments. Segments that are being merged form their own parts. With `everything` segments of completed
        checkpoints are included.
        """
        parts: dict[tuple[ResultBounds, int, bool, bool], list[Reading[Frame]]] = {}
        for segment in self._live:
            if everything or not segment.is_durable:
                is_merging = segment.batch_id in self._merging
                alike = self.bounds(segment), segment.level, is_merging, self.may_merge(segment)
                parts.setdefault(alike, []).append(self.reading(segment))
        return tuple(Unwritten(readings=tuple(readings), bounds=bounds) for (bounds, *_), readings in parts.items())

    def durable(self) -> dict[Written, ResultBounds]:
        return {
            segment.written: self.bounds(segment)
            for segment in self._live
            if segment.written is not None and segment.is_durable
        }

    def mergeable(self, at_least: int) -> tuple[Segment[Frame], ...]:
        """Return segments to merge, all for the same results.

        They have the lowest level with enough segments, so that each row is merged only a few times.
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
        """Return True if a segment may be merged with others. The result for a segment never changes."""
        return True

    def begin_merge(self, segments: Sequence[Segment[Frame]]) -> None:
        """Mark the segments as being merged until `replace_merged` is called. Only one merge runs at a time."""
        assert not self._merging, "another merge is running"
        self._merging = frozenset(segment.batch_id for segment in segments)

    def are_oldest(self, segments: Sequence[Segment[Frame]]) -> bool:
        newest = max(segment.version for segment in segments)
        ids = {segment.batch_id for segment in segments}
        return all(segment.version > newest for segment in self._live if segment.batch_id not in ids)

    def replace_merged(self, old: Sequence[Segment[Frame]], merged: Segment[Frame] | None) -> None:
        """Replace merged segments by the result, which is `None` if it has no rows.

        The times of a segment's first and last row are only bounds, because its batch may contain only some of the rows
        from which they were computed.
        """
        old_ids, self._merging = {segment.batch_id for segment in old}, frozenset()
        self._live = [segment for segment in self._live if segment.batch_id not in old_ids]
        live_places = {segment.written for segment in self._live} - {None}
        assert not any(segment.written in live_places for segment in old), "a state handle was merged only partially"
        if merged is not None:
            self._live.append(merged)

    def mark_written(self, batch_ids: Sequence[BatchId], written: Written) -> None:
        """Record the location of segments in checkpoint storage. Segments that no longer exist are skipped."""
        ids = frozenset(batch_ids)
        self._live = [
            replace(segment, written=written) if segment.batch_id in ids else segment for segment in self._live
        ]

    def confirm(self, checkpoint_id: int) -> None:
        self._live = [
            replace(segment, written=replace(segment.written, checkpoint_id=None))
            if segment.written is not None and segment.written.checkpoint_id == checkpoint_id
            else segment
            for segment in self._live
        ]

    def check(self) -> None:
        assert len({segment.batch_id for segment in self._live}) == len(self._live)
        assert all(segment.first_ms <= segment.last_ms for segment in self._live)
