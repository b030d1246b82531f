"""The buffered rows of one side of an interval join: matching, expired and retained rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.joins.interval_segments import MERGED_ROWS, Interval, IntervalSegments
from flykka.actors.machines.state.segments import Segment, Written
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.wire.ids import BatchId

TIMES = st.integers(0, 20)
BOUNDS = st.integers(-5, 5)
Times = frozenset[int]


def segment(name: int, first: int, last: int, rows: int = 1) -> Segment[Times]:
    times = frozenset(range(first, last + 1))
    return Segment(batch_id=BatchId(str(name)), frame=times, rows=rows, first_ms=first, last_ms=last)


def side(
    lower: int, upper: int, *segments: Segment[Times], emits: bool = False, other_emits: bool = False
) -> IntervalSegments[Times]:
    made: IntervalSegments[Times] = IntervalSegments(
        Interval(lower_ms=lower, upper_ms=upper), emits_unmatched=emits, other_emits_unmatched=other_emits
    )
    for each in segments:
        made.add(each)
    return made


def closed_times(segments: IntervalSegments[Times], watermark_ms: int) -> list[int]:
    readings = segments.closing(watermark_ms)
    return sorted(
        time
        for each in readings
        for time in each.segment.frame
        if (each.from_ms is None or time >= each.from_ms) and (each.until_ms is None or time < each.until_ms)
    )


@pytest.mark.parametrize(
    ("lower", "upper", "is_inclusive", "is_empty"),
    [(0, 0, True, False), (0, 0, False, True), (1, 0, True, True), (-1, 0, False, False)],
)
def test_an_interval_without_rows_between_its_bounds_is_empty(
    lower: int, upper: int, is_inclusive: bool, is_empty: bool
) -> None:
    interval = Interval(lower_ms=lower, upper_ms=upper, is_upper_inclusive=is_inclusive)

    assert interval.is_empty is is_empty
    assert interval.reversed.is_empty is is_empty
    assert interval.reversed.reversed == interval


def test_segments_within_the_interval_of_some_other_row_are_matched() -> None:
    # A row matches rows of the other side from 2 before to 3 after its own time.
    segments = side(-2, 3, segment(1, 0, 4), segment(2, 5, 9), segment(3, 10, 12))

    assert [each.segment.batch_id for each in segments.met(7, 7)] == ["1", "2"]
    assert [each.segment.batch_id for each in segments.met(8, 8)] == ["2", "3"]
    assert segments.met(16, 20) == ()


def test_a_segment_is_dropped_when_no_timely_row_can_match_it() -> None:
    segments = side(-2, 3, segment(1, 0, 4))

    before, at = segments.close(7), segments.close(8)

    assert (before, at) == ((), ("1",))
    segments.check()


def test_a_segment_is_kept_longer_if_unmatched_rows_are_emitted() -> None:
    # The last possible match of a row with time 4 has time 7, and expires 2 later.
    segments = side(-2, 3, segment(1, 0, 4), other_emits=True)

    before, at = segments.close(9), segments.close(10)

    assert (before, at) == ((), ("1",))


def test_rows_expire_once() -> None:
    segments = side(0, 3, segment(1, 0, 9), emits=True)

    first = closed_times(segments, 5)
    segments.close(5)
    again = closed_times(segments, 5)
    second = closed_times(segments, 9)
    segments.close(9)
    rest = closed_times(segments, WATERMARK_MAX)

    assert (first, again, second, rest) == ([0, 1], [], [2, 3, 4, 5], [6, 7, 8, 9])


def test_no_row_expires_before_the_first_watermark() -> None:
    segments = side(0, 3, segment(1, 0, 9), emits=True)

    assert segments.closing(WATERMARK_MIN) == ()
    assert segments.close(WATERMARK_MIN) == ()
    assert segments.closed_to_ms is None


def test_results_emitted_at_a_later_watermark_are_not_emitted_again() -> None:
    segments = side(0, 3, replace(segment(1, 0, 9), closed_to_ms=7), segment(2, 0, 9), emits=True)
    segments.closed_to_ms = 5

    (ahead, behind) = segments.closing(8)

    assert (ahead.from_ms, behind.from_ms) == (4, 2)


def test_only_small_segments_written_together_are_merged() -> None:
    large = replace(segment(9, 0, 1), rows=MERGED_ROWS + 1)
    segments = side(0, 3, segment(1, 0, 1), large, segment(2, 0, 1))

    parts = [[each.segment.batch_id for each in part.readings] for part in segments.to_write()]
    for number, part in enumerate(segments.to_write()):
        handle = SharedStateHandle(state_id=str(number), path="p", rows=1, size_bytes=1)
        ids = [each.segment.batch_id for each in part.readings]
        segments.mark_written(ids, Written(handles=(handle,), checkpoint_id=1))
    merging = segments.mergeable(2)
    segments.replace_merged(merging, segment(3, 0, 1))

    assert parts == [["1", "2"], ["9"]]
    assert [each.batch_id for each in segments.live] == ["9", "3"]


def test_expired_rows_are_not_written() -> None:
    segments = side(0, 3, segment(1, 0, 9))

    segments.close(8)

    (part,) = segments.to_write()
    assert [each.from_ms for each in part.readings] == [5]
    assert part.bounds.closed_to_ms == 8


@given(
    lower=BOUNDS,
    width=st.integers(0, 5),
    outer=st.tuples(st.booleans(), st.booleans()),
    arrivals=st.lists(st.tuples(st.booleans(), TIMES, st.integers(0, 4)), max_size=12),
)
def test_every_pair_matches_once_and_every_unmatched_row_is_emitted_once(
    lower: int, width: int, outer: tuple[bool, bool], arrivals: list[tuple[bool, int, int]]
) -> None:
    """Test the rows of one key; the watermark advances after each row."""
    interval = Interval(lower_ms=lower, upper_ms=lower + width)
    left = side(interval.lower_ms, interval.upper_ms, emits=outer[0], other_emits=outer[1])
    right = side(interval.reversed.lower_ms, interval.reversed.upper_ms, emits=outer[1], other_emits=outer[0])
    sides, watermark = (left, right), WATERMARK_MIN
    rows: tuple[list[int], list[int]] = ([], [])
    pairs: Counter[tuple[int, int]] = Counter()
    alone: tuple[Counter[int], Counter[int]] = (Counter(), Counter())

    def meets(of: int, time: int, other: int) -> bool:
        least, most = (lower, lower + width) if of == 0 else (-lower - width, -lower)
        return least <= other - time <= most

    def advance(to: int) -> None:
        closing = [closed_times(each, to) for each in sides]
        for of, times in enumerate(closing):
            for time in times:
                kept = [other for met in sides[1 - of].met(time, time) for other in met.segment.frame]
                if not any(meets(of, time, other) for other in kept):
                    alone[of][time] += 1
        for each in sides:
            each.close(to)
            each.check()

    for number, (is_right, time, step) in enumerate(arrivals):
        of = int(is_right)
        closed_to = sides[of].closed_at(watermark)
        if closed_to is None or time >= closed_to:
            for reading in sides[1 - of].met(time, time):
                for other in reading.segment.frame:
                    if meets(of, time, other):
                        pairs[(time, other) if of == 0 else (other, time)] += 1
            sides[of].add(segment(number, time, time))
            rows[of].append(time)
        watermark = max(watermark, 0) + step
        advance(watermark)
    advance(WATERMARK_MAX)

    assert pairs == Counter((one, other) for one in rows[0] for other in rows[1] if meets(0, one, other))
    for of in (0, 1):
        unmatched = Counter(time for time in rows[of] if not any(meets(of, time, other) for other in rows[1 - of]))
        assert alone[of] == (unmatched if outer[of] else Counter())
        assert sides[of].live == ()
