"""Every key group has one owner, owners have contiguous ranges, and every subtask has at least one key group."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flykka.actors.errors import GraphError
from flykka.actors.machines.state.key_groups import intersection, key_group_range, key_groups_of
from flykka.messages.state.handles import KeyGroupRange

GROUPS = st.integers(1, 60).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most)))


@settings(max_examples=20)
@given(GROUPS)
def test_the_ranges_of_the_subtasks_divide_the_key_groups(groups: tuple[int, int]) -> None:
    max_parallelism, parallelism = groups

    ranges = [key_groups_of(subtask, max_parallelism, parallelism) for subtask in range(parallelism)]

    assert [ranges[0].start, ranges[-1].end] == [0, max_parallelism - 1]
    assert all(left.end + 1 == right.start for left, right in pairwise(ranges))
    assert all(keys.start <= keys.end for keys in ranges)


def test_adjacent_key_group_ranges_do_not_intersect() -> None:
    left, right = KeyGroupRange(start=0, end=4), KeyGroupRange(start=5, end=9)

    assert intersection(left, right) is None
    assert intersection(right, left) is None


def test_negative_key_groups_are_refused() -> None:
    assert key_group_range(3, 2) is None

    with pytest.raises(GraphError, match="from -3 to 2"):
        key_group_range(-3, 2)
