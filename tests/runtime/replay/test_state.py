"""The state of an actor as a tree of plain values, which is equal in every process and contains no external objects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from random import Random
from typing import Any

import pytest

from flykka.messages.wire.message import Message, Value, value
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.state.description import Absent, Change, Fields, changes, describe, digest, one_line


class Phase(Enum):
    OPEN = "open"


@value("test.ticket")
class Ticket(Value):
    number: int
    owners: tuple[str, ...] = ()


@dataclass
class Pending:
    checkpoint_id: int
    awaiting: set[str]


class Machine:
    __slots__ = ("__hidden", "later", "pending")

    def __init__(self, *pending: Pending) -> None:
        self.pending = {each.checkpoint_id: each for each in pending}
        self.__hidden = 1


class Storage:
    """A live object, such as an argument of Props."""

    def __init__(self, place: str) -> None:
        self.place = place


class Discovery:
    outside_state = True


class Keeper(Actor):
    def __init__(self, storage: object, hooks: tuple[object, ...] = ()) -> None:
        self.storage = storage
        self.hooks = {"first": hooks[0]} if hooks else {}
        self.machine = Machine(Pending(7, {"a2", "a3"}))
        self.helper: Any = None

    def pre_start(self) -> None:
        self.helper = Helper(self)

    def handle_message(self, message: Message) -> None:
        self.context.unhandled(message)


class Helper:
    def __init__(self, owner: Keeper) -> None:
        self.context = owner.context
        self.timers = owner.context.timers
        self.owner = owner
        self.total = 1


def instance_of(props: Props) -> Actor:
    with SeededSystem() as system:
        ref = system.spawn(props, "keeper")
        system.run_until_idle()
        instance = ref.actor_inbox.owner.instance  # type: ignore[union-attr]
        assert isinstance(instance, Actor)
        return instance


@pytest.mark.parametrize(
    ("held", "described"),
    [
        (None, None),
        (True, True),
        (7, 7),
        ("a", "a"),
        (Phase.OPEN, "Phase.OPEN"),
        (Ref("/user/a", 3), "/user/a#3"),
        (b"abc", "<3 bytes, crc 352441c2>"),
        ((1, [2]), [1, [2]]),
        (deque([1, 2]), [1, 2]),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ({("a", 1): {7: "x", "7": "y"}}, {"[a, 1]": {"7": "x", "7'": "y"}}),
        (count(5), "count(5)"),
        (Ticket(number=1), {"number": 1, "owners": []}),
        (Gateway(Ref("/user/a", 3), "s1"), {"leader_session_id": "s1", "ref": "/user/a#3"}),  # type: ignore[arg-type]
        (Storage("here"), {"place": "here"}),
        ([threading.Lock(), Discovery(), Props(Actor)], ["<outside>", "<outside>", "<outside>"]),
        (describe, "<flykka.runtime.trace.state.description.describe>"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_value_of_an_actor_has_a_plain_form(held: object, described: object) -> None:
    state = describe(held)

    assert json.loads(json.dumps(state)) == described


def test_an_object_is_described_with_its_class_and_its_slots() -> None:
    state = describe(Machine(Pending(7, {"a2"})))

    assert isinstance(state, Fields)
    assert state.kind == "Machine"
    assert one_line(state) == "Machine(_Machine__hidden=1, pending={7: Pending(awaiting=[a2], checkpoint_id=7)})"


def test_objects_of_different_classes_differ_despite_equal_attributes() -> None:
    here, there = Storage("x"), type("Elsewhere", (Storage,), {})("x")

    assert describe(here) != describe(there)
    assert digest(here) != digest(there)
    assert [change.path for change in changes(describe(here), describe(there))] == [""]


def test_the_context_and_live_arguments_of_props_are_not_state() -> None:
    first = instance_of(Props(Keeper, Storage("here"), hooks=(Storage("a"),)))
    second = instance_of(Props(Keeper, Storage("there"), hooks=(Discovery(),)))

    state = describe(first)

    assert one_line(state).startswith(
        "Keeper(helper=Helper(owner=<itself>, total=1), hooks={first: <outside>}, machine="
    )
    assert digest(first) == digest(second)


def test_a_description_ends_at_cycles_and_at_the_depth_limit() -> None:
    ring: list[object] = [1]
    ring.append(ring)
    chain: list[object] = []
    for _ in range(5_000):
        chain = [chain]

    assert describe(ring) == [1, "<itself>"]
    assert "<too deep>" in one_line(describe(chain))


def test_a_shared_object_is_described_at_its_shortest_path_and_referenced_elsewhere() -> None:
    shared = Storage("x")
    state = describe({"a": [[shared]], "b": shared})

    assert state == {"a": [["<[b]>"]], "b": describe(shared)}


def test_a_key_that_refers_to_its_mapping_is_truncated() -> None:
    owner = Storage("x")
    owner.by_owner = {owner: 1}  # type: ignore[attr-defined]

    assert one_line(describe(owner)) == "Storage(by_owner={<itself>: 1}, place=x)"


def test_equal_immutable_objects_may_be_shared_or_separate() -> None:
    ticket, numbers = Ticket(number=1, owners=("a", "b")), (1, 2)

    assert digest([ticket, ticket, numbers, numbers]) == digest([replace(ticket), ticket, numbers, (1, 2)])


def test_a_value_at_a_reused_address_is_described_separately() -> None:
    digests = {digest([Ticket(number=number)]) for number in range(3_000)}
    ticket = Ticket(number=1)

    assert len(digests) == 3_000
    assert describe([ticket])[0] is describe({"t": ticket})["t"]  # type: ignore[index, call-overload]


def test_drawing_a_random_number_changes_the_digest() -> None:
    random = Random(1)
    before = digest(random)

    random.random()

    assert digest(random) != before
    assert digest(Random(1)) == before


@pytest.mark.parametrize(
    ("act", "change"),
    [
        (lambda m: m.pending[7].awaiting.clear(), [Change("pending[7].awaiting[0]", "a2", Absent.ABSENT)]),
        (lambda m: m.pending.pop(7), [Change("pending[7]", describe(Pending(7, {"a2"})), Absent.ABSENT)]),
        (lambda m: setattr(m, "later", 2), [Change("later", Absent.ABSENT, 2)]),
        (lambda m: setattr(m.pending[8], "checkpoint_id", True), [Change("pending[8].checkpoint_id", 8, True)]),
        (lambda m: m.pending.update({7: m.pending.pop(7)}), [Change("pending.keys()", ["7", "8"], ["8", "7"])]),
        (lambda m: None, []),
    ],
)
def test_a_change_is_reported_by_its_innermost_path(act: Callable[[Machine], object], change: list[Change]) -> None:
    machine = Machine(Pending(7, {"a2"}), Pending(8, set()))
    before = describe(machine)

    act(machine)

    assert changes(before, describe(machine)) == change


def test_removing_an_element_from_a_queue_is_one_change() -> None:
    queue = deque(range(10))
    before = describe(queue)

    queue.popleft()

    assert [str(change) for change in changes(before, describe(queue))] == ["[0]: 0 -> nothing"]


def test_nan_equals_nan_in_a_comparison_of_states() -> None:
    assert changes(describe([float("nan"), 1]), describe([float("nan"), True])) == [Change("[1]", 1, True)]


@pytest.mark.slow
def test_the_digest_is_equal_in_every_process_and_for_every_hash_seed() -> None:
    program = (
        "from tests.runtime.replay.test_state import *\n"
        "print(digest(Machine(Pending(7, {f'a{n}' for n in range(50)}))), digest({Ticket(number=1), Phase.OPEN}))\n"
    )

    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "42")
    }

    assert len(printed) == 1
