"""Tests which rows an evictor leaves in a window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.errors import WindowError
from flykka.spark_bridge.functions.windowing.evictors import (
    CountEvictor,
    DeltaEvictor,
    Elements,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from flykka.spark_bridge.functions.windowing.windows import GLOBAL_WINDOW


class Times:
    """A context of times, which no evictor in this file reads."""

    def get_current_watermark(self) -> int:
        raise AssertionError

    def get_current_processing_time(self) -> int:
        raise AssertionError


def before(evictor: Evictor, elements: Elements) -> Elements:
    return evictor.evict_before(list(elements), GLOBAL_WINDOW, Times())


def after(evictor: Evictor, elements: Elements) -> Elements:
    return evictor.evict_after(list(elements), GLOBAL_WINDOW, Times())


def distance(one: dict[str, Any], last: dict[str, Any]) -> float:
    return abs(last["x"] - one["x"])


ELEMENTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))).map(
    lambda pairs: [TimestampedValue({"x": x}, time) for x, time in pairs]
)


@given(ELEMENTS, st.integers(1, 9))
def test_a_count_evictor_keeps_the_last_rows(elements: Elements, count: int) -> None:
    left = before(CountEvictor.of(count), elements)

    assert left == elements[max(0, len(elements) - count) :]


@given(ELEMENTS, st.integers(1, 60))
def test_a_time_evictor_keeps_rows_near_the_latest(elements: Elements, size: int) -> None:
    latest = max((each.timestamp or 0 for each in elements), default=0)

    left = before(TimeEvictor.of(size), elements)

    assert left == [each for each in elements if latest - (each.timestamp or 0) < size]


@given(ELEMENTS, st.integers(1, 60))
def test_a_delta_evictor_keeps_rows_close_to_the_last(elements: Elements, threshold: int) -> None:
    left = before(DeltaEvictor.of(threshold, distance), elements)

    assert left == [each for each in elements if distance(each.value, elements[-1].value) < threshold]


def test_rows_without_a_time_are_not_evicted_by_age() -> None:
    elements = [TimestampedValue({"x": x}, time) for x, time in enumerate((None, 5, 100))]

    assert [each.value["x"] for each in before(TimeEvictor.of(10), elements)] == [0, 2]
    assert before(TimeEvictor.of(10), elements[:1]) == elements[:1]


@pytest.mark.parametrize("make", [CountEvictor.of, TimeEvictor.of])
def test_rows_are_evicted_before_or_after_the_function(make: Any) -> None:
    elements = [TimestampedValue({"x": x}, x) for x in range(5)]

    first, later = make(2), make(2, do_evict_after=True)

    assert (len(before(first, elements)), len(after(first, elements))) == (2, 5)
    assert (len(before(later, elements)), len(after(later, elements))) == (5, 2)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_an_eviction_count_must_be_at_least_one(count: Any) -> None:
    with pytest.raises(WindowError, match="the number of rows that stay, at least 1, not"):
        CountEvictor.of(count)


def test_an_eviction_delta_must_be_a_function() -> None:
    with pytest.raises(WindowError, match="takes a function of two rows, not 'x'"):
        DeltaEvictor.of(1, "x")  # type: ignore[arg-type]
