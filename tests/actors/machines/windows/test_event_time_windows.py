"""Windows are computed by arithmetic, and compared with Flink's loop over the windows of a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from tests.actors.machines.windows.flink_windows import window_starts

LENGTHS = st.integers(1, 30)
TIMES = st.integers(-100, 100)


@st.composite
def event_time_windows(draw: st.DrawFn) -> EventTimeWindows:
    """Draw tumbling windows, sliding windows, or windows with gaps between them."""
    slide_ms = draw(LENGTHS)
    size_ms = draw(st.one_of(LENGTHS, st.just(slide_ms)))
    return EventTimeWindows(size_ms=size_ms, slide_ms=slide_ms, offset_ms=draw(st.integers(0, slide_ms - 1)))


@given(event_time_windows(), TIMES, TIMES)
def test_a_window_fires_when_the_watermark_reaches_its_last_millisecond(
    windows: EventTimeWindows, time: int, watermark: int
) -> None:
    for start in window_starts(windows, time):
        is_over = start + windows.size_ms - 1 <= watermark

        assert (start <= windows.last_fired_start(watermark)) is is_over


@given(event_time_windows(), TIMES, TIMES, st.integers(0, 100))
def test_a_window_closes_after_its_allowed_lateness(
    windows: EventTimeWindows, time: int, watermark: int, lateness: int
) -> None:
    for start in window_starts(windows, time):
        is_over = start + windows.size_ms - 1 + lateness <= watermark

        assert (start <= windows.last_closed_start(watermark, lateness)) is is_over


@given(event_time_windows())
def test_the_bound_of_any_allowed_lateness_fits_64_bits(windows: EventTimeWindows) -> None:
    assert windows.last_closed_start(0, 10**30) > WATERMARK_MIN
    assert windows.last_closed_start(WATERMARK_MAX, 10**30) == WATERMARK_MAX


@given(event_time_windows(), TIMES, TIMES)
def test_a_row_is_retained_until_its_last_window_has_fired(windows: EventTimeWindows, time: int, bound: int) -> None:
    of_time = window_starts(windows, time)

    if of_time:
        assert (time >= windows.next_start(bound)) is (max(of_time) > bound)


@given(event_time_windows(), TIMES, TIMES)
def test_a_row_is_read_when_one_of_its_windows_fires(windows: EventTimeWindows, time: int, bound: int) -> None:
    of_time = window_starts(windows, time)

    if of_time:
        assert (time < windows.end_of_last(bound)) is (min(of_time) <= bound)


@given(event_time_windows(), TIMES)
def test_the_number_of_windows_of_a_row_depends_on_overlap_and_gaps(windows: EventTimeWindows, time: int) -> None:
    assert windows.overlap or len(window_starts(windows, time)) <= 1
    assert windows.have_gaps or len(window_starts(windows, time)) >= 1


@given(event_time_windows())
def test_the_final_watermark_fires_all_windows(windows: EventTimeWindows) -> None:
    assert windows.last_fired_start(WATERMARK_MAX) == WATERMARK_MAX
