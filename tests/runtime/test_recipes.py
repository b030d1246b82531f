"""How an actor is made is told by names and plain values, and by nothing that would have to be trusted."""

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
from flykka.runtime.trace.recipes import (
    MAX_RECIPE_BYTES,
    Choice,
    Instance,
    Named,
    Opaque,
    pack_recipe,
    unpack_recipe,
)
from tests.runtime.players import Say, says


class Worker(Actor):
    """Works."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.given = (args, kwargs)

    def handle_message(self, message: Message) -> None:
        """Nothing."""

    def works(self) -> None:
        """A method."""


class Colour(Enum):
    """A choice."""

    RED = "red"


@dataclass(frozen=True)
class Settings:
    """What a worker is told."""

    name: str
    sizes: tuple[int, ...] = ()
    made: list[int] = field(default_factory=list, init=False)


def recipe_of(*args: Any, **kwargs: Any) -> Any:
    packed = pack_recipe(Props(Worker, *args, **kwargs))
    assert packed is not None
    return unpack_recipe(packed)


def argument(item: object) -> object:
    (found,) = recipe_of(item).arguments
    return found


@pytest.mark.parametrize(
    "item",
    [None, True, 7, -(2**63), 1.5, "word", "\ud800", b"bytes", (1, (2, 3)), [1, [2]], {"a": 1, 2: (3,)}, says("x")],
    ids=repr,
)
def test_plain_values_containers_and_messages_are_themselves(item: object) -> None:
    found = argument(item)

    assert found == item
    assert type(found) is type(item)


def test_a_ref_is_an_address() -> None:
    assert argument(Ref("/user/a", 3)) == Ref("/user/a", 3)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Colour.RED, Choice(f"{__name__}:Colour", "RED")),
        (Worker, Named(f"{__name__}:Worker")),
        (recipe_of, Named(f"{__name__}:recipe_of")),
        (len, Named("builtins:len")),
        (Settings("s", (1,)), Instance(f"{__name__}:Settings", {"name": "s", "sizes": (1,)})),
        ({3, 1, 2}, frozenset({1, 2, 3})),
        ((Colour.RED, [Worker]), (Choice(f"{__name__}:Colour", "RED"), [Named(f"{__name__}:Worker")])),
    ],
    ids=lambda item: type(item).__name__,
)
def test_what_has_a_name_is_told_by_it(item: object, expected: object) -> None:
    assert argument(item) == expected


def inner() -> object:
    return lambda: None


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (threading.Lock(), "_thread:lock"),
        (inner(), f"{__name__}:inner.<locals>.<lambda>"),
        (Worker().works, f"{__name__}:Worker.works"),
        (object(), "builtins:object"),
        (2**64, "builtins:int"),
        (Say(text=1), "tests.runtime.players:Say"),  # type: ignore[arg-type]
    ],
    ids=["lock", "lambda", "method", "object", "too large an int", "a message that the codec refuses"],
)
def test_what_has_no_form_is_told_by_its_class(item: object, name: str) -> None:
    assert argument(item) == Opaque(name)
    assert argument([item]) == [Opaque(name)]


def test_what_contains_itself_ends_somewhere() -> None:
    endless: list[object] = []
    endless.append((endless,))

    found = argument(endless)

    while not isinstance(found, Opaque):
        assert isinstance(found, list | tuple)
        (found,) = found
    assert found == Opaque("builtins:tuple")


def test_a_recipe_has_what_else_the_props_say() -> None:
    packed = pack_recipe(Props(Worker, 1, size=2).with_dispatcher("pinned").with_stash_capacity(5))
    assert packed is not None

    recipe = unpack_recipe(packed)

    assert recipe.factory == f"{__name__}:Worker"
    assert (recipe.arguments, recipe.keywords) == ((1,), {"size": 2})
    assert (recipe.dispatcher, recipe.stash_capacity) == ("pinned", 5)


def test_the_recipe_is_that_of_the_moment() -> None:
    words = ["now"]
    packed = pack_recipe(Props(Worker, words))
    words.append("later")
    assert packed is not None

    assert unpack_recipe(packed).arguments == (["now"],)


def test_equal_sets_make_equal_recipes() -> None:
    names = [f"name-{number}" for number in range(50)]

    assert pack_recipe(Props(Worker, set(names))) == pack_recipe(Props(Worker, {*names[::-1]}))


@dataclass
class Grumpy:
    """Does not like to be looked at."""

    name: str = "grumpy"

    def __getattribute__(self, name: str) -> Any:
        if name == "name":
            raise RuntimeError("leave me alone")
        return super().__getattribute__(name)


def test_an_argument_that_cannot_be_looked_at_leaves_no_recipe() -> None:
    grumpy = object.__new__(Grumpy)

    assert pack_recipe(Props(Worker, grumpy)) is None


@pytest.mark.slow
def test_a_recipe_that_is_too_large_is_none() -> None:
    assert pack_recipe(Props(Worker, bytes(MAX_RECIPE_BYTES))) is None
