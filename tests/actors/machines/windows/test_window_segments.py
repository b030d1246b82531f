"""The segments of a window operator: firing windows, retained rows, and the segments in a snapshot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.state.segments import Reading, ResultBounds, Segment, Written
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.actors.machines.windows.window_segments import WindowSegments
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import BatchId
from tests.actors.machines.windows.flink_windows import window_starts

TIMES = st.integers(0, 20)
SECONDS = EventTimeWindows(size_ms=1, slide_ms=1)
"""Windows whose size is the time unit of these tests."""


def segment(name: int, first: int, last: int, level: int = 0) -> Segment[frozenset[int]]:
    rows = frozenset(range(first, last + 1))
    return Segment(batch_id=BatchId(str(name)), frame=rows, rows=len(rows), first_ms=first, last_ms=last, level=level)


def written_state(checkpoint_id: int | None) -> Written:
    handle = SharedStateHandle(state_id="s", path="p", rows=1, size_bytes=1)
    return Written(handles=(handle,), checkpoint_id=checkpoint_id)


def of(*segments: Segment[frozenset[int]]) -> WindowSegments[frozenset[int]]:
    made: WindowSegments[frozenset[int]] = WindowSegments(SECONDS)
    for each in segments:
        made.add(each)
    return made


def test_a_segment_across_the_bound_is_read_once_on_each_side() -> None:
    segments = of(segment(1, 0, 5))

    early = segments.fire(2)
    late = segments.fire(9)

    assert [(reading.from_ms, reading.until_ms) for reading in early.readings] == [(None, 3)]
    assert early.finished == ()
    assert [(reading.from_ms, reading.until_ms) for reading in late.readings] == [(3, None)]
    assert late.finished == ("1",)
    segments.check()


def test_a_segment_within_the_bound_is_read_without_a_bound() -> None:
    segments = of(segment(1, 0, 2))

    (reading,) = segments.fire(2).readings

    assert (reading.from_ms, reading.until_ms) == (None, None)
    assert segments.live == ()


def test_no_window_fires_before_the_first_one_has_ended() -> None:
    segments = of(segment(1, 5, 9))

    early, at_its_end = segments.fire(4), segments.fire(5)

    assert (early.readings, early.finished) == ((), ())
    assert [(reading.from_ms, reading.until_ms) for reading in at_its_end.readings] == [(None, 6)]
    segments.check()


def test_the_bound_moves_even_if_no_window_fires() -> None:
    segments = of(segment(1, 5, 9))

    segments.fire(4)

    assert segments.emitted_to_ms == 4
    segments.check()


def test_the_bound_never_moves_back() -> None:
    segments = of(segment(1, 0, 9))

    segments.fire(4)
    again = segments.fire(2)

    assert (again.readings, again.finished, segments.emitted_to_ms) == ((), (), 4)


def test_only_segments_of_a_completed_checkpoint_are_durable() -> None:
    segments = of(segment(1, 0, 1), segment(2, 0, 1))

    segments.mark_written([BatchId("1")], written_state(7))
    before = [live.is_durable for live in segments.live]
    segments.confirm(6)
    segments.confirm(7)

    assert before == [False, False]
    assert [live.is_durable for live in segments.live] == [True, False]


def test_enough_segments_of_one_level_are_merged() -> None:
    segments = of(*(segment(number, 0, 1) for number in range(3)), segment(9, 0, 1, level=1))

    few = segments.mergeable(4)
    enough = segments.mergeable(3)
    segments.replace_merged(enough, replace(enough[0], batch_id=BatchId("merged"), level=1))

    assert few == ()
    assert [each.batch_id for each in enough] == ["0", "1", "2"]
    assert [each.batch_id for each in segments.live] == ["9", "merged"]
    assert segments.mergeable(3) == ()


def test_merging_segments_without_retained_rows_yields_no_segment() -> None:
    segments = of(*(segment(number, 0, 1) for number in range(3)))

    segments.replace_merged(segments.mergeable(3), None)

    assert segments.live == ()


def test_segments_of_different_windows_are_not_merged() -> None:
    overlapping: WindowSegments[frozenset[int]] = WindowSegments(EventTimeWindows(size_ms=10, slide_ms=5))
    for number, closed_to in enumerate((None, 0, 0, 5)):
        overlapping.add(replace(segment(number, 10, 15), closed_to_ms=closed_to))

    alike = overlapping.mergeable(2)
    overlapping.fire(9)
    alike_now = overlapping.mergeable(3)

    assert [each.batch_id for each in alike] == ["1", "2"]
    assert [each.batch_id for each in alike_now] == ["0", "1", "2"]


def test_a_segment_is_dropped_with_the_last_window_that_needs_it() -> None:
    segments: WindowSegments[frozenset[int]] = WindowSegments(EventTimeWindows(size_ms=10, slide_ms=5))
    segments.add(segment(1, 5, 5))

    first, second = segments.fire(9), segments.fire(14)

    assert [(reading.closed_to_ms, reading.until_ms) for reading in first.readings] == [(None, None)]
    assert first.finished == ()
    assert [(reading.closed_to_ms, reading.until_ms) for reading in second.readings] == [(0, None)]
    assert second.finished == ("1",)


def test_a_late_row_fires_its_window_again_with_all_rows() -> None:
    segments: WindowSegments[frozenset[int]] = WindowSegments(SECONDS, allowed_lateness_ms=10)
    segments.add(segment(1, 0, 5))
    segments.fire(5)
    segments.add(segment(2, 3, 4))

    again, once_more = segments.fire(5), segments.fire(5)

    assert [(each.segment.batch_id, each.from_ms, each.until_ms, each.emitted_to_ms) for each in again.readings] == [
        ("1", 3, 5, 5),
        ("2", None, None, None),
    ]
    assert (again.to_ms, again.finished, once_more.readings) == (4, (), ())
    segments.check()


def test_a_segment_is_kept_until_the_allowed_lateness_has_passed() -> None:
    segments: WindowSegments[frozenset[int]] = WindowSegments(SECONDS, allowed_lateness_ms=10)
    segments.add(segment(1, 0, 5))

    kept, gone = segments.fire(14), segments.fire(15)

    assert (kept.finished, gone.finished) == ((), ("1",))
    assert (segments.emitted_to_ms, segments.closed_to_ms) == (15, 5)
    segments.check()


def test_fired_rows_are_written_separately_from_late_unfired_rows() -> None:
    segments: WindowSegments[frozenset[int]] = WindowSegments(SECONDS, allowed_lateness_ms=10)
    segments.add(segment(1, 0, 5))
    segments.fire(5)
    segments.add(segment(2, 3, 4))
    segments.add(segment(3, 6, 9))

    parts = segments.to_write()

    assert [([each.segment.batch_id for each in part.readings], part.bounds) for part in parts] == [
        (["1", "3"], ResultBounds(closed_to_ms=-5, emitted_to_ms=5)),
        (["2"], ResultBounds(closed_to_ms=-5, emitted_to_ms=-5)),
    ]


def test_no_further_window_is_closed_before_the_first_watermark() -> None:
    segments: WindowSegments[frozenset[int]] = WindowSegments(SECONDS, allowed_lateness_ms=10)
    before = segments.closed_at(WATERMARK_MIN)
    segments.fire(20)

    assert (before, segments.closed_at(WATERMARK_MIN), segments.closed_at(12)) == (None, 10, 10)
    assert segments.closed_at(25) == 15


@given(
    sizes=st.sampled_from([(1, 1), (3, 3), (4, 2), (5, 2), (7, 3), (2, 5)]),
    batches=st.lists(st.tuples(TIMES, TIMES, TIMES), max_size=8),
    fired_behind=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_every_row_is_in_each_of_its_open_windows_once(
    sizes: tuple[int, int], batches: list[tuple[int, int, int]], fired_behind: list[bool]
) -> None:
    """Rows are times. A batch arrives after the watermark has passed the end of some windows, which may not have fired
    yet.
    """
    windows = EventTimeWindows(size_ms=sizes[0], slide_ms=sizes[1])
    segments: WindowSegments[frozenset[int]] = WindowSegments(windows)
    fired: list[tuple[BatchId, int, int]] = []
    wanted: set[tuple[BatchId, int, int]] = set()
    watermark = -50
    for number, ((one, other, later), fires) in enumerate(zip(batches, fired_behind, strict=False)):
        watermark = max(watermark, later - 4)
        closed_to = windows.last_fired_start(watermark)
        times = [time for time in range(min(one, other), max(one, other) + 1) if window_starts(windows, time)]
        kept = [time for time in times if max(window_starts(windows, time)) > closed_to]
        if kept:
            made = replace(segment(number, kept[0], kept[-1]), frame=frozenset(kept), closed_to_ms=closed_to)
            segments.add(made)
            wanted |= {(made.batch_id, t, s) for t in kept for s in window_starts(windows, t) if s > closed_to}
        if fires:
            fired += fire(windows, segments, watermark)
            segments.check()

    fired += fire(windows, segments, WATERMARK_MAX)

    assert len(fired) == len(set(fired))
    assert set(fired) == wanted
    assert segments.live == ()


@dataclass
class Storage:
    """Snapshots of segments whose rows are pairs of batch and time, and the files that are written for them."""

    segments: WindowSegments[frozenset[tuple[int, int]]] = field(default_factory=lambda: WindowSegments(SECONDS))
    rows: set[tuple[int, int]] = field(default_factory=set)
    folders: dict[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    under_way: list[tuple[list[BatchId], Written]] = field(default_factory=list)
    checkpoint_id: int = 0
    made: int = 0

    def take_in(self, times: range) -> None:
        """Add a batch, and merge if a level has three segments."""
        rows = frozenset((self.made, time) for time in times)
        self.rows |= rows
        self.segments.add(self._made(rows, level=0))
        if merging := self.segments.mergeable(3):
            whole = frozenset().union(*(self._read(self.segments.reading(each)) for each in merging))
            self.segments.replace_merged(merging, self._made(whole, merging[0].level + 1))

    def fire(self, to_ms: int) -> None:
        self.segments.fire(to_ms)
        self.rows = {(batch, time) for batch, time in self.rows if time > to_ms}

    def pass_barrier(self) -> Counter[tuple[int, int]]:
        """Take a snapshot, which is written later, and return the rows that would be restored from this snapshot."""
        self.checkpoint_id += 1
        held = {handle for live in self.segments.live if live.is_durable for handle in handles(live)}
        for number, part in enumerate(self.segments.to_write()):
            handle = SharedStateHandle(state_id=f"{self.checkpoint_id}-{number}", path="", rows=1, size_bytes=1)
            self.folders[handle.state_id] = frozenset().union(*(self._read(reading) for reading in part.readings))
            place = Written(handles=(handle,), checkpoint_id=self.checkpoint_id)
            self.under_way.append(([reading.segment.batch_id for reading in part.readings], place))
            held.add(handle)
        bound = -1 if self.segments.emitted_to_ms is None else self.segments.emitted_to_ms
        return Counter(row for handle in held for row in self.folders[handle.state_id] if row[1] > bound)

    def complete(self) -> None:
        for batch_ids, place in self.under_way:
            self.segments.mark_written(batch_ids, place)
        self.under_way = []
        for checkpoint_id in range(1, self.checkpoint_id + 1):
            self.segments.confirm(checkpoint_id)

    def _made(self, rows: frozenset[tuple[int, int]], level: int) -> Segment[frozenset[tuple[int, int]]]:
        self.made += 1
        times = [time for _, time in rows]
        return Segment(
            batch_id=BatchId(str(self.made)),
            frame=rows,
            rows=len(rows),
            first_ms=min(times),
            last_ms=max(times),
            level=level,
        )

    def _read(self, reading: Reading[frozenset[tuple[int, int]]]) -> frozenset[tuple[int, int]]:
        low = -1 if reading.from_ms is None else reading.from_ms
        return frozenset(row for row in reading.segment.frame if row[1] >= low)


def handles(live: Segment[frozenset[tuple[int, int]]]) -> tuple[SharedStateHandle, ...]:
    return () if live.written is None else live.written.handles


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(TIMES, TIMES).map(lambda ends: range(min(ends), max(ends) + 1)),
            st.sampled_from(["barrier", "complete"]),
            TIMES,
        ),
        max_size=30,
    )
)
def test_a_checkpoint_contains_every_unfired_row_once(steps: list[range | str | int]) -> None:
    storage = Storage()
    for step in steps:
        match step:
            case range():
                open_ms = 0 if storage.segments.emitted_to_ms is None else storage.segments.emitted_to_ms + 1
                if times := range(max(step.start, open_ms), step.stop):
                    storage.take_in(times)
            case int():
                storage.fire(step if storage.segments.emitted_to_ms is None else storage.segments.emitted_to_ms + 1)
            case "barrier":
                assert storage.pass_barrier() == Counter(storage.rows)
            case _:
                storage.complete()

    assert storage.pass_barrier() == Counter(storage.rows)


def fire(
    windows: EventTimeWindows, segments: WindowSegments[frozenset[int]], watermark: int
) -> list[tuple[BatchId, int, int]]:
    fired = segments.fire(watermark)
    return [each for reading in fired.readings for each in window_starts_read(windows, reading, fired.to_ms)]


def window_starts_read(
    windows: EventTimeWindows, reading: Reading[frozenset[int]], to_ms: int
) -> list[tuple[BatchId, int, int]]:
    low = -99 if reading.from_ms is None else reading.from_ms
    high = 99 if reading.until_ms is None else reading.until_ms
    after = -99 if reading.closed_to_ms is None else reading.closed_to_ms
    return [
        (reading.segment.batch_id, time, start)
        for time in reading.segment.frame
        if low <= time < high
        for start in window_starts(windows, time)
        if after < start <= to_ms
    ]
