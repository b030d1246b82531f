"""Keyed state and operator state are redistributed for another parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.operator_state import repartition
from flykka.messages.state.handles import OperatorListState, OperatorStateMode, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.wire.ids import JobVertexId
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.key_groups.checkpoints import chained_vertex, checkpoint_of_states, keyed_state, operator_state

MODES = {
    "split": OperatorStateMode.SPLIT_DISTRIBUTE,
    "union": OperatorStateMode.UNION,
    "broadcast": OperatorStateMode.BROADCAST,
}
_OPERATOR = "operator"
_MAX_PARALLELISM = 128
_DRAWS = 1_000
"""The number of draws. More draws take longer and find no more errors."""


def keyed_rescale(given: dict[str, Any], expect: dict[str, Any]) -> None:
    """Check the key groups that each new subtask reads, and the old subtasks from which it reads them."""
    only_known_words("given", given, {"max_parallelism", "old_parallelism", "new_parallelism"})
    only_known_words("expect", expect, {"pieces"})
    old = chained_vertex([_OPERATOR], given["old_parallelism"], given["max_parallelism"])
    snapshots = [
        TaskStateSnapshot(operators=(keyed_state(_OPERATOR, subtask, old),)) for subtask in range(old.parallelism)
    ]
    pieces = _assigned(given["old_parallelism"], given["new_parallelism"], given["max_parallelism"], snapshots)
    assert [[_read(state) for state in states] for states in pieces] == expect["pieces"]


def _read(state: OperatorSubtaskState) -> list[Any]:
    [handle] = state.shared
    assert state.key_groups is not None
    return [int(handle.state_id), [state.key_groups.start, state.key_groups.end]]


def operator_rescale(given: dict[str, Any], expect: dict[str, Any]) -> None:
    only_known_words("given", given, {"old", "new_parallelism"})
    old = [_lists(subtask, named or {}) for subtask, named in enumerate(given["old"])]
    snapshots = [TaskStateSnapshot(operators=(operator_state(_OPERATOR, lists),)) if lists else None for lists in old]
    pieces = _assigned(len(old), given["new_parallelism"], _MAX_PARALLELISM, snapshots)
    received = [[each for state in states for each in state.operator_state] for states in pieces]
    for word, wanted in expect.items():
        match word:
            case "pieces_in_total":
                assert Counter(each.name for lists in received for each in lists) == wanted
            case "elements_per_holding_subtask":
                only_known_words(word, wanted, set(MODES))
                assert {mode: _elements_held(received, MODES[mode]) for mode in wanted} == {
                    mode: {count} for mode, count in wanted.items()
                }
            case _:
                raise UnknownWordError(word)


def _lists(subtask: int, named: dict[str, Any]) -> list[OperatorListState]:
    for state in named.values():
        only_known_words("state", state, {"mode", "elements"})
        if state["mode"] not in MODES:
            raise UnknownWordError(f"mode {state['mode']!r}")
    return [_list(name, subtask, state["elements"], MODES[state["mode"]]) for name, state in named.items()]


def _list(name: str, subtask: int, elements: int, mode: OperatorStateMode) -> OperatorListState:
    named = tuple(f"{name} of {subtask}: {number}".encode() for number in range(elements))
    return OperatorListState(name=name, elements=named, mode=mode)


def _elements_held(received: Sequence[Sequence[OperatorListState]], mode: OperatorStateMode) -> set[int]:
    held: set[int] = set()
    for lists in received:
        counts: Counter[str] = Counter()
        for each in lists:
            if each.mode is mode:
                counts[each.name] += len(each.elements)
        held |= set(counts.values())
    return held


def _assigned(
    old_parallelism: int, new_parallelism: int, max_parallelism: int, snapshots: Sequence[TaskStateSnapshot | None]
) -> list[tuple[OperatorSubtaskState, ...]]:
    old, new = (chained_vertex([_OPERATOR], each, max_parallelism) for each in (old_parallelism, new_parallelism))
    assigned = assign(checkpoint_of_states({old.vertex_id: (old, snapshots)}), [new]).states
    places = [(JobVertexId(_OPERATOR), subtask) for subtask in range(new_parallelism)]
    return [assigned[place].operators if place in assigned else () for place in places]


def operator_rescale_property(given: dict[str, Any], expect: dict[str, Any]) -> None:
    only_known_words("given", given, {"draws", "old_parallelism", "new_parallelism", "states", "elements"})
    if given["elements"] != _ELEMENTS or not given["states"].endswith(" names"):
        raise UnknownWordError(f"elements {given['elements']!r} of {given['states']!r}")
    names = _span(given["states"].removesuffix(" names"))
    old_parallelism, new_parallelism = _span(given["old_parallelism"]), _span(given["new_parallelism"])
    chance = Random(0)
    for _ in range(min(given["draws"], _DRAWS)):
        drawn = _draw_lists(chance, chance.choice(old_parallelism), chance.choice(names))
        _check_property(drawn, repartition(drawn, chance.choice(new_parallelism)), expect)


_ELEMENTS = (
    "1..9 each; 1 in 10 union, else split; if the number of names is even the last one is broadcast with 4 elements"
)


def _span(text: str) -> range:
    first, last = text.split("..")
    return range(int(first), int(last) + 1)


def _draw_lists(chance: Random, parallelism: int, names: int) -> list[list[OperatorListState]]:
    split, union, broadcast = MODES["split"], MODES["union"], MODES["broadcast"]
    modes = [union if chance.randrange(10) == 0 else split for _ in range(names)]
    if names % 2 == 0:
        modes[-1] = broadcast
    return [
        [
            _list(str(name), subtask, 4 if mode is broadcast else chance.randint(1, 9), mode)
            for name, mode in enumerate(modes)
        ]
        for subtask in range(parallelism)
    ]


def _check_property(
    old: list[list[OperatorListState]], new: list[list[OperatorListState]], expect: dict[str, Any]
) -> None:
    given = Counter(element for lists in new for each in lists for element in each.elements)
    for word, wanted in expect.items():
        match word:
            case "split_elements_appear_exactly_once":
                assert all(given[element] == 1 for element in _elements(old, "split")) == wanted
            case "union_elements_appear_once_per_new_subtask":
                assert all(given[element] == len(new) for element in _elements(old, "union")) == wanted
            case "broadcast_copies_of_old_subtask_i" if wanted == "floor(new/old) + (1 if i < new mod old else 0)":
                for subtask, lists in enumerate(old):
                    copies = len(new) // len(old) + (subtask < len(new) % len(old))
                    assert all(given[element] == copies for element in _elements([lists], "broadcast"))
            case "max_difference_of_element_counts_between_subtasks_if_parallelism_changed":
                counts = [sum(len(each.elements) for each in lists) for lists in new]
                assert len(old) == len(new) or max(counts) - min(counts) <= wanted
            case _:
                raise UnknownWordError(f"{word}: {wanted}")


def _elements(states: Sequence[Sequence[OperatorListState]], mode: str) -> list[bytes]:
    return [element for lists in states for each in lists if each.mode is MODES[mode] for element in each.elements]
