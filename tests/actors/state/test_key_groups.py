"""Every key group has one owner, neighbours stay together, and nobody goes without."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flykka.actors.errors import GraphError
from flykka.actors.state.key_groups import intersection, key_group_range, key_groups_of, owner
from flykka.messages.state import KeyGroupRange

GROUPS = st.integers(1, 60).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most)))


@settings(max_examples=20)
@given(GROUPS)
def test_the_ranges_of_the_subtasks_divide_the_key_groups(groups: tuple[int, int]) -> None:
    max_parallelism, parallelism = groups

    ranges = [key_groups_of(subtask, max_parallelism, parallelism) for subtask in range(parallelism)]

    assert [ranges[0].start, ranges[-1].end] == [0, max_parallelism - 1]
    assert all(left.end + 1 == right.start for left, right in pairwise(ranges))
    assert all(keys.start <= keys.end for keys in ranges)


@settings(max_examples=20)
@given(GROUPS, st.data())
def test_the_owner_of_a_key_group_has_it_in_its_range(groups: tuple[int, int], data: st.DataObject) -> None:
    max_parallelism, parallelism = groups
    key_group = data.draw(st.integers(0, max_parallelism - 1))

    keys = key_groups_of(owner(key_group, max_parallelism, parallelism), max_parallelism, parallelism)

    assert keys.start <= key_group <= keys.end


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [((0, 10), (3, 7), (3, 7)), ((0, 10), (5, 20), (5, 10)), ((0, 10), (0, 10), (0, 10)), ((0, 4), (5, 9), None)],
)
def test_an_intersection_holds_what_is_in_both(
    left: tuple[int, int], right: tuple[int, int], both: tuple[int, int] | None
) -> None:
    expected = None if both is None else _range(both)

    assert intersection(_range(left), _range(right)) == expected
    assert intersection(_range(right), _range(left)) == expected


def test_there_are_no_key_groups_below_the_first() -> None:
    assert key_group_range(3, 2) is None

    with pytest.raises(GraphError, match="from -3 to 2"):
        key_group_range(-3, 2)


def _range(ends: tuple[int, int]) -> KeyGroupRange:
    return KeyGroupRange(start=ends[0], end=ends[1])
