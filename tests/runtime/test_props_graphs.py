"""Props are encoded as names and plain values only."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.trace.state.graph_text import classes_of, graph_text
from flykka.runtime.trace.state.graph_writer import MAX_PROPS_BYTES, pack_props
from tests.runtime.scripted_actors import says


class Worker(Actor):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.given = (args, kwargs)

    def handle_message(self, message: Message) -> None: ...

    def works(self) -> None: ...


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Settings:
    name: str
    sizes: tuple[int, ...] = ()
    made: list[int] = field(default_factory=list, init=False)


def text(*args: Any, **kwargs: Any) -> str:
    packed = pack_props(Props(Worker, *args, **kwargs))
    assert packed is not None
    return graph_text(packed).removeprefix(f"{__name__}:Worker")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (7, "7"),
        (2**70, str(2**70)),
        ("word", "'word'"),
        ((1, (2, 3)), "tuple(1, tuple(2, 3))"),
        ({"a": 1, 2: [3]}, "{'a': 1, 2: list(3)}"),
        ({3, 1, 2}, "set(1, 2, 3)"),
        (says("x"), "test.say"),
        (Ref("/user/a", 3), "/user/a#3"),
        (Colour.RED, f"{__name__}:Colour.RED"),
        (Worker, f"{__name__}:Worker"),
        (len, "builtins:len"),
        (Settings("s", (1,)), f"{__name__}:Settings(name='s', sizes=tuple(1), made=list())"),
    ],
    ids=repr,
)
def test_known_types_are_described_by_their_values(item: object, expected: str) -> None:
    assert text(item) == f"({expected})"
    assert text(name=item) == f"(name={expected})"


def inner() -> object:
    return lambda: None


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (threading.Lock(), "_thread:lock"),
        (inner(), f"{__name__}:inner.<locals>.<lambda>"),
        (Worker().works, f"{__name__}:Worker.works"),
        (object(), "builtins:object"),
    ],
    ids=["lock", "lambda", "method", "object"],
)
def test_other_objects_are_described_by_their_class(item: object, name: str) -> None:
    assert text(item) == f"(<{name}>)"
    assert text([item]) == f"(list(<{name}>))"


def test_a_self_referencing_value_is_described_once() -> None:
    endless: list[object] = []
    endless.append((endless,))

    assert text(endless).startswith("(list(tuple(list(")


def test_packed_props_do_not_reflect_later_changes() -> None:
    words = ["now"]
    packed = pack_props(Props(Worker, words))
    words.append("later")
    assert packed is not None

    assert "later" not in graph_text(packed)


@dataclass(frozen=True)
class Plant:
    engine: object


def test_classes_with_unique_names_are_found_in_any_module() -> None:
    packed = pack_props(Props(Worker, (Plant(threading.Lock()), Plant(Settings("s"))), engine=object()))
    assert packed is not None

    assert sorted(classes_of(packed, "engine")) == ["_thread:lock", "builtins:object", f"{__name__}:Settings"]
    assert classes_of(packed, "sizes") == []
    assert classes_of(packed, "engine", owners="elsewhere.") == []


def test_equal_sets_are_packed_into_equal_graphs() -> None:
    names = [f"name-{number}" for number in range(50)]

    assert pack_props(Props(Worker, set(names))) == pack_props(Props(Worker, {*names[::-1]}))


@dataclass
class Grumpy:
    name: str = "grumpy"

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise RuntimeError("leave me alone")
        return super().__getattribute__(name)


def test_an_argument_that_cannot_be_inspected_yields_no_graph() -> None:
    grumpy = object.__new__(Grumpy)

    assert pack_props(Props(Worker, grumpy)) is None


@pytest.mark.slow
def test_a_graph_that_is_too_large_is_refused() -> None:
    assert pack_props(Props(Worker, bytes(MAX_PROPS_BYTES))) is None
