"""The memory of a window operator, as values: what fires, what stays, what a snapshot may refer to."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flykka.messages.ids import BatchId
from flykka.messages.state import SharedStateHandle
from flykka.spark_bridge.state.segments import Segment, Segments, Written

WINDOWS = st.integers(0, 20)


def segment(name: int, first: int, last: int, level: int = 0) -> Segment[frozenset[int]]:
    rows = frozenset(range(first, last + 1))
    return Segment(batch_id=BatchId(str(name)), frame=rows, rows=len(rows), first_ms=first, last_ms=last, level=level)


def written(checkpoint_id: int | None) -> Written:
    handle = SharedStateHandle(state_id="s", path="p", rows=1, size_bytes=1)
    return Written(handles=(handle,), checkpoint_id=checkpoint_id)


def of(*segments: Segment[frozenset[int]]) -> Segments[frozenset[int]]:
    made: Segments[frozenset[int]] = Segments()
    for each in segments:
        made.add(each)
    return made


def test_a_segment_that_straddles_the_bound_is_read_on_both_sides_of_it_once() -> None:
    segments = of(segment(1, 0, 5))

    early = segments.fire(2)
    late = segments.fire(9)

    assert [(reading.after_ms, reading.to_ms) for reading in early.readings] == [(None, 2)]
    assert early.finished == ()
    assert [(reading.after_ms, reading.to_ms) for reading in late.readings] == [(2, None)]
    assert late.finished == ("1",)
    segments.check()


def test_a_segment_within_the_bound_is_read_without_one() -> None:
    segments = of(segment(1, 0, 2))

    (reading,) = segments.fire(2).readings

    assert (reading.after_ms, reading.to_ms) == (None, None)
    assert segments.live == ()


def test_nothing_fires_before_the_first_window_is_over() -> None:
    segments = of(segment(1, 5, 9))

    early, at_its_end = segments.fire(4), segments.fire(5)

    assert (early.readings, early.finished) == ((), ())
    assert [(reading.after_ms, reading.to_ms) for reading in at_its_end.readings] == [(None, 5)]
    segments.check()


def test_the_bound_moves_also_where_nothing_fires() -> None:
    segments = of(segment(1, 5, 9))

    segments.fire(4)

    assert segments.emitted_to_ms == 4
    segments.check()


def test_the_bound_never_moves_back() -> None:
    segments = of(segment(1, 0, 9))

    segments.fire(4)
    again = segments.fire(2)

    assert (again.readings, again.finished, segments.emitted_to_ms) == ((), (), 4)


def test_only_what_a_complete_checkpoint_holds_is_durable() -> None:
    segments = of(segment(1, 0, 1), segment(2, 0, 1))

    segments.mark_written([BatchId("1")], written(7))
    before = [live.is_durable for live in segments.live]
    segments.confirm(6)
    segments.confirm(7)

    assert before == [False, False]
    assert [live.is_durable for live in segments.live] == [True, False]


def test_segments_of_one_level_merge_when_there_are_enough() -> None:
    segments = of(*(segment(number, 0, 1) for number in range(3)), segment(9, 0, 1, level=1))

    few = segments.mergeable(4)
    enough = segments.mergeable(3)
    segments.replace(enough, replace(enough[0], batch_id=BatchId("merged"), level=1))

    assert few == ()
    assert [each.batch_id for each in enough] == ["0", "1", "2"]
    assert [each.batch_id for each in segments.live] == ["9", "merged"]
    assert segments.mergeable(3) == ()


@given(st.lists(st.tuples(WINDOWS, WINDOWS), max_size=8), st.lists(WINDOWS, max_size=6))
def test_every_window_of_every_segment_fires_exactly_once(spans: list[tuple[int, int]], bounds: list[int]) -> None:
    segments: Segments[frozenset[int]] = Segments()
    fired: list[tuple[BatchId, int]] = []
    wanted: set[tuple[BatchId, int]] = set()
    for number, (bound, (one, other)) in enumerate(zip([*bounds, *[20] * len(spans)], spans, strict=False)):
        # As the operator does: what the bound has closed is late and not taken in.
        first = max(min(one, other), -1 if segments.emitted_to_ms is None else segments.emitted_to_ms + 1)
        if first <= max(one, other):
            made = segment(number, first, max(one, other))
            segments.add(made)
            wanted |= {(made.batch_id, window) for window in made.frame}
        for reading in segments.fire(bound).readings:
            low = -1 if reading.after_ms is None else reading.after_ms
            high = 99 if reading.to_ms is None else reading.to_ms
            fired += [(reading.segment.batch_id, window) for window in reading.segment.frame if low < window <= high]
        segments.check()

    for reading in segments.fire(99).readings:
        low = -1 if reading.after_ms is None else reading.after_ms
        fired += [(reading.segment.batch_id, window) for window in reading.segment.frame if window > low]

    assert len(fired) == len(set(fired))
    assert set(fired) == wanted
