"""Each element of split list state is assigned to one subtask; union and broadcast state to all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.errors import UnreadableStateError
from flykka.actors.machines.state.operator_state import elements_of, list_state, repartition
from flykka.messages.state.handles import (
    ClosedTo,
    OperatorListState,
    OperatorStateMode,
    OperatorSubtaskState,
    StagingFolder,
)
from flykka.messages.wire.codec import encode
from flykka.messages.wire.ids import OperatorId


def list_state_of(
    name: str, elements: int, *, of: int = 0, mode: OperatorStateMode = OperatorStateMode.SPLIT_DISTRIBUTE
) -> OperatorListState:
    return OperatorListState(
        name=name, elements=tuple(f"{name}{of}.{number}".encode() for number in range(elements)), mode=mode
    )


def received(lists: list[OperatorListState]) -> list[str]:
    return [element.decode() for each in lists for element in each.elements]


def test_remaining_elements_of_split_lists_go_to_the_next_subtasks() -> None:
    made = repartition([[list_state_of("a", 4), list_state_of("b", 4)]], 3)

    assert [len(received(lists)) for lists in made] == [3, 3, 2]


def test_neighbouring_elements_of_a_split_list_stay_in_order() -> None:
    made = repartition([[list_state_of("a", 3)], [list_state_of("a", 2, of=1)]], 2)

    assert [received(lists) for lists in made] == [["a0.0", "a0.1", "a0.2"], ["a1.0", "a1.1"]]


def test_a_split_list_is_not_moved_at_an_unchanged_parallelism() -> None:
    made = repartition([[list_state_of("a", 5)], []], 2)

    assert [received(lists) for lists in made] == [["a0.0", "a0.1", "a0.2", "a0.3", "a0.4"], []]


def test_lost_broadcast_state_is_restored_from_another_subtask() -> None:
    made = repartition([[], [list_state_of("a", 1, of=1, mode=OperatorStateMode.BROADCAST)]], 2)

    assert [received(lists) for lists in made] == [["a1.0"], ["a1.0"]]


def test_values_of_one_name_are_restored_from_all_lists() -> None:
    folders = [StagingFolder(path=path) for path in "abc"]
    states = [
        OperatorSubtaskState(operator_id=OperatorId("op"), operator_state=(list_state("x", folders[:2]),)),
        OperatorSubtaskState(
            operator_id=OperatorId("op"), operator_state=(list_state("y", folders), list_state("x", folders[2:]))
        ),
    ]

    assert elements_of(states, "x", StagingFolder) == folders


@pytest.mark.parametrize(
    ("element", "refusal"),
    [
        (b"damaged", r"list 'x' of operator op cannot be read: "),
        (encode(ClosedTo(state_id="s", closed_to_ms=1)), "contains a ClosedTo instead of a StagingFolder"),
    ],
)
def test_an_invalid_list_element_is_refused_with_its_operator(element: bytes, refusal: str) -> None:
    lists = (OperatorListState(name="x", elements=(element,)),)

    with pytest.raises(UnreadableStateError, match=refusal):
        elements_of([OperatorSubtaskState(operator_id=OperatorId("op"), operator_state=lists)], "x", StagingFolder)


MODES = st.sampled_from(OperatorStateMode)
STATES = st.lists(st.tuples(MODES, st.lists(st.integers(0, 9), min_size=1, max_size=6)), min_size=1, max_size=6)


@given(states=STATES, parallelism=st.integers(1, 9))
def test_no_split_is_lost_or_assigned_twice(
    states: list[tuple[OperatorStateMode, list[int]]], parallelism: int
) -> None:
    width = max(len(counts) for _, counts in states)
    previous = [
        [
            list_state_of(str(name), counts[of % len(counts)], of=of, mode=mode)
            for name, (mode, counts) in enumerate(states)
        ]
        for of in range(width)
    ]

    made = repartition(previous, parallelism)

    everywhere = Counter(element for lists in made for element in received(lists))
    for lists in previous:
        for each in lists:
            for element in received([each]):
                match each.mode:
                    case OperatorStateMode.SPLIT_DISTRIBUTE:
                        assert everywhere[element] == 1
                    case OperatorStateMode.UNION:
                        assert everywhere[element] == parallelism
    for lists in made:
        names = Counter(each.name for each in lists if each.mode is OperatorStateMode.BROADCAST)
        assert all(
            names[str(name)] == 1 for name, (mode, _) in enumerate(states) if mode is OperatorStateMode.BROADCAST
        )
