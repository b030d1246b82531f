"""Tests to which windows rows are assigned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.windowing.session_windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
)
from flykka.spark_bridge.functions.windowing.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flykka.spark_bridge.functions.windowing.windows import (
    GLOBAL_WINDOW,
    TimeWindow,
    merge_windows,
    namespace_of,
    window_of,
)

TIMES = st.integers(-(10**15), 10**15)
LENGTHS = st.integers(1, 50)


@dataclass(frozen=True)
class Clock:
    now_ms: int = -1

    def get_current_processing_time(self) -> int:
        return self.now_ms


@given(TIMES, LENGTHS, LENGTHS, st.integers(-49, 49))
def test_a_row_is_in_every_sliding_window_that_contains_its_time(time: int, size: int, slide: int, offset: int) -> None:
    windows = SlidingEventTimeWindows.of(size, slide, offset % slide)

    assigned = windows.assign_windows({}, time, Clock())

    starts = range(time - size + 1, time + 1)
    assert assigned == [TimeWindow(start, start + size) for start in starts if (start - offset) % slide == 0] or tuple(
        assigned
    ) == tuple(TimeWindow(start, start + size) for start in starts if (start - offset) % slide == 0)


@given(TIMES, LENGTHS, st.integers(0, 49))
def test_a_row_is_in_one_tumbling_window(time: int, size: int, offset: int) -> None:
    (window,) = TumblingEventTimeWindows.of(size, offset % size).assign_windows({}, time, Clock())

    assert window.start <= time <= window.max_timestamp() == window.start + size - 1
    assert (window.start - offset) % size == 0


@pytest.mark.parametrize(
    ("by_event_time", "by_processing_time"),
    [
        (TumblingEventTimeWindows.of(10, 3), TumblingProcessingTimeWindows.of(10, 3)),
        (SlidingEventTimeWindows.of(10, 4, 1), SlidingProcessingTimeWindows.of(10, 4, 1)),
        (EventTimeSessionWindows.with_gap(7), ProcessingTimeSessionWindows.with_gap(7)),
    ],
)
def test_processing_time_windows_equal_event_time_windows_at_the_clocks_time(
    by_event_time: Any, by_processing_time: Any
) -> None:
    at_event_time = by_event_time.assign_windows({}, 1234, Clock(99))
    at_processing_time = by_processing_time.assign_windows({}, 99, Clock(1234))

    assert list(at_event_time) == list(at_processing_time)
    assert (by_event_time.is_event_time(), by_processing_time.is_event_time()) == (True, False)


def test_a_dynamic_gap_is_computed_from_the_row() -> None:
    sessions = EventTimeSessionWindows.with_dynamic_gap(lambda row: row["gap"])

    assert list(sessions.assign_windows({"gap": "2s"}, 100, Clock())) == [TimeWindow(100, 2100)]
    assert list(sessions.assign_windows({"gap": 5}, 100, Clock())) == [TimeWindow(100, 105)]


@pytest.mark.parametrize("gap", [0, -1, None, "long"])
def test_a_dynamic_gap_that_is_not_positive_is_refused(gap: object) -> None:
    sessions = ProcessingTimeSessionWindows.with_dynamic_gap(lambda _: gap)  # type: ignore[arg-type,return-value]

    with pytest.raises(DurationError, match="dynamic session gap"):
        sessions.assign_windows({}, 0, Clock(0))


def test_a_dynamic_gap_must_be_a_function() -> None:
    with pytest.raises(DurationError, match="takes a function of a row that returns its gap, not '5s'"):
        EventTimeSessionWindows.with_dynamic_gap("5s")  # type: ignore[arg-type]


def test_a_sessions_end_does_not_overflow() -> None:
    (window,) = EventTimeSessionWindows.with_gap("1d").assign_windows({}, WATERMARK_MAX - 5, Clock())

    assert window == TimeWindow(WATERMARK_MAX - 5, WATERMARK_MAX)


def test_the_global_window_contains_every_row() -> None:
    assert list(GlobalWindows.create().assign_windows({}, 5, Clock())) == [GLOBAL_WINDOW]
    assert GLOBAL_WINDOW.max_timestamp() == WATERMARK_MAX


@pytest.mark.parametrize("window", [TimeWindow(-5, 7), TimeWindow(0, 0), GLOBAL_WINDOW])
def test_a_window_round_trips_through_its_name(window: Any) -> None:
    assert window_of(namespace_of(window)) == window


WINDOWS = st.tuples(st.integers(0, 60), st.integers(0, 6)).map(lambda pair: TimeWindow(pair[0], sum(pair)))


@given(st.lists(WINDOWS, unique=True))
def test_touching_windows_merge_into_one_window(windows: list[TimeWindow]) -> None:
    merges = merge_windows(windows)

    left = set(windows).difference(*(parts for _, parts in merges)) | {result for result, _ in merges}
    assert all(not one.intersects(other) for one in left for other in left if one != other)
    for result, parts in merges:
        assert result == (min(part.start for part in parts), max(part.end for part in parts))
        assert len(parts) > 1
