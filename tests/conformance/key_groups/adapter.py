"""Area 07: runs each case on its machine, and checks its expectations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from flykka.actors.errors import JobRuntimeError
from flykka.actors.machines.state.key_groups import (
    VertexParallelism,
    groups_in,
    intersection,
    key_group_range,
    key_groups_of,
    owner,
)
from flykka.errors import FlykkaError
from flykka.messages.state.handles import KeyGroupRange
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.key_groups.channels import keyed_channel, selector
from tests.conformance.key_groups.redistribution import keyed_rescale, operator_rescale, operator_rescale_property
from tests.conformance.key_groups.restore import restore

Given = dict[str, Any]
Expect = dict[str, Any]

_EMPTY = [0, -1]
"""The empty range, represented as null in the test cases."""

_GROUPS_LOOKED_AT = 20
"""The number of key groups to check in each drawn vertex, besides the first and the last. Checking all of them would be
too slow.
"""


def run_case(case: Case) -> None:
    given, expect = dict(case["given"]), dict(case["expect"])
    kind = given.pop("kind")
    if kind not in _KINDS:
        raise UnknownWordError(f"kind {kind!r}")
    if case.get("steps"):
        raise UnknownWordError(f"steps of {kind}: {case['steps']}")
    is_refused = expect.pop("error", False)
    if not is_refused:
        _KINDS[kind](given, expect)
        return
    # A broadcast selects several channels and has no single channel, so it raises ValueError.
    refusals = (JobRuntimeError, FlykkaError, *((ValueError,) if kind == "selector" else ()))
    with pytest.raises(refusals):
        _KINDS[kind](given, expect)


def _ranges(given: Given, expect: Expect) -> None:
    only_known_words("given", given, {"max_parallelism", "parallelism"})
    vertex = VertexParallelism.of(given["parallelism"], given["max_parallelism"])
    _check_ranges(vertex, expect, range(vertex.max_parallelism))


def _ranges_property(given: Given, expect: Expect) -> None:
    only_known_words("given", given, {"draws", "max_parallelism_between", "parallelism"})
    if given["parallelism"] != "uniform 1..max_parallelism":
        raise UnknownWordError(f"parallelism {given['parallelism']!r}")
    only_known_words("expect", expect, {"every_key_group_lies_in_the_range_of_its_owner"})
    chance = Random(0)
    for _ in range(given["draws"]):
        most = chance.randint(*given["max_parallelism_between"])
        vertex = VertexParallelism.of(chance.randint(1, most), most)
        groups = [0, most - 1, *(chance.randrange(most) for _ in range(_GROUPS_LOOKED_AT))]
        _check_ranges(vertex, expect, groups)


def _check_ranges(vertex: VertexParallelism, expect: Expect, groups: list[int] | range) -> None:
    most, parallelism = vertex.max_parallelism, vertex.parallelism
    for word, wanted in expect.items():
        match word:
            case "ranges":
                ranges = [key_groups_of(subtask, most, parallelism) for subtask in range(parallelism)]
                assert [[each.start, each.end] for each in ranges] == wanted
            case "every_key_group_lies_in_the_range_of_its_owner":
                owners = (
                    (group, key_groups_of(owner(group, most, parallelism), most, parallelism)) for group in groups
                )
                assert all(group in groups_in(owned) for group, owned in owners) == wanted
            case "each_range_has_one_group":
                ranges = [key_groups_of(subtask, most, parallelism) for subtask in range(parallelism)]
                assert all(len(groups_in(each)) == 1 for each in ranges) == wanted
            case _:
                raise UnknownWordError(word)


def _owner(given: Given, expect: Expect) -> None:
    only_known_words("given", given, {"max_parallelism", "parallelism", "key_group"})
    only_known_words("expect", expect, {"subtask"})
    vertex = VertexParallelism.of(given["parallelism"], given["max_parallelism"])
    assert owner(given["key_group"], vertex.max_parallelism, vertex.parallelism) == expect["subtask"]


def _intersection(given: Given, expect: Expect) -> None:
    only_known_words("given", given, {"a", "b"})
    a, b = (KeyGroupRange(start=start, end=end) for start, end in (given["a"] or _EMPTY, given["b"] or _EMPTY))
    both, other_way = intersection(a, b), intersection(b, a)
    for word, wanted in expect.items():
        match word:
            case "intersection":
                assert (None if both is None else [both.start, both.end]) == wanted
            case "symmetric":
                assert (both == other_way) == wanted
            case _:
                raise UnknownWordError(word)


def _range(given: Given, expect: Expect) -> None:
    only_known_words("given", given, {"start", "end"})
    made = key_group_range(given["start"], given["end"])
    groups = range(0) if made is None else groups_in(made)
    for word, wanted in expect.items():
        match word:
            case "size":
                assert len(groups) == wanted
            case "empty":
                assert (not groups) == wanted
            case "contains_neighbours_outside":
                assert (given["start"] - 1 in groups or given["end"] + 1 in groups) == wanted
            case _:
                raise UnknownWordError(word)


def _max_parallelism(given: Given, expect: Expect) -> None:
    only_known_words("given", given, {"parallelism", "configured", "set_later", "asked_to_become"})
    vertex = VertexParallelism.of(given["parallelism"], given.get("configured"))
    if "set_later" in given:
        vertex = vertex.with_max_parallelism(given["set_later"])
    asked = given.get("asked_to_become", vertex.max_parallelism)
    may_become = vertex.may_become(asked)
    for word, wanted in expect.items():
        match word:
            case "max_parallelism":
                assert vertex.max_parallelism == wanted
            case "may_change":
                assert may_become == wanted
            case _:
                raise UnknownWordError(word)


_KINDS: dict[str, Callable[[Given, Expect], None]] = {
    "ranges": _ranges,
    "ranges_property": _ranges_property,
    "owner": _owner,
    "intersection": _intersection,
    "range": _range,
    "max_parallelism": _max_parallelism,
    "keyed_rescale": keyed_rescale,
    "operator_rescale": operator_rescale,
    "operator_rescale_property": operator_rescale_property,
    "restore": restore,
    "keyed_channel": keyed_channel,
    "selector": selector,
}
