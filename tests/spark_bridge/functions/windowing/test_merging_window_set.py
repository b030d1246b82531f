"""Tests the merging windows of a key, and the names under which their contents are stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flykka.spark_bridge.functions.windowing.window_operator import Merge, MergingWindowSet
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, merge_windows

WINDOWS = st.tuples(st.integers(0, 60), st.integers(0, 6)).map(lambda pair: TimeWindow(pair[0], sum(pair)))


@given(st.lists(WINDOWS))
def test_windows_added_one_by_one_equal_windows_merged_at_once(added: list[TimeWindow]) -> None:
    windows = MergingWindowSet({})
    for window in added:
        windows.add_window(window)

    merges = merge_windows(set(added))
    alone = set(added).difference(*(parts for _, parts in merges))
    assert windows.state_windows.keys() == alone | {result for result, _ in merges}


@given(st.lists(WINDOWS))
def test_contents_follow_their_merged_windows(added: list[TimeWindow]) -> None:
    windows, contents = MergingWindowSet({}), dict[TimeWindow, list[TimeWindow]]()
    for window in added:
        actual, merges = windows.add_window(window)
        for merge in merges:
            for merged in merge.merged_state_windows:
                contents[merge.state_window] += contents.pop(merged)
        contents.setdefault(windows.state_windows[actual], []).append(window)

    assert sorted(contents) == sorted(windows.state_windows.values())
    for window, state_window in windows.state_windows.items():
        assert all(window.start <= each.start and each.end <= window.end for each in contents[state_window])
    assert sum(map(len, contents.values())) == len(added)


def test_contents_keep_the_name_of_the_first_window() -> None:
    windows = MergingWindowSet({})
    windows.add_window(TimeWindow(5, 8))
    windows.add_window(TimeWindow(11, 14))

    actual, merges = windows.add_window(TimeWindow(8, 11))

    assert actual == TimeWindow(5, 14)
    assert merges == (
        Merge(
            result=TimeWindow(5, 14),
            merged=(TimeWindow(5, 8), TimeWindow(11, 14)),
            state_window=TimeWindow(5, 8),
            merged_state_windows=(TimeWindow(11, 14),),
        ),
    )


def test_a_window_within_another_changes_no_window() -> None:
    windows = MergingWindowSet({TimeWindow(0, 10): TimeWindow(2, 5)})

    assert windows.add_window(TimeWindow(3, 4)) == (TimeWindow(0, 10), ())
    assert windows.add_window(TimeWindow(0, 10)) == (TimeWindow(0, 10), ())
    assert not windows.has_changed


def test_a_retired_window_is_removed() -> None:
    windows = MergingWindowSet({TimeWindow(0, 10): TimeWindow(2, 5)})

    windows.retire_window(TimeWindow(0, 10))

    assert windows.get_state_window(TimeWindow(0, 10)) is None
    assert windows.has_changed
