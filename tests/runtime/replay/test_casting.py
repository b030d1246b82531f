"""Actors are made of what a trace tells, where that is all; and nothing else is called by the word of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.trace.recipes import Choice, Instance, Named, Opaque, Recipe, pack_recipe, unpack_recipe
from flykka.runtime.trace.records import Spawned
from flykka.runtime.trace.replay.casting import Casting, CastingError
from tests.runtime.players import Say, says

A = Ref("/user/a", 1)
called: list[str] = []


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Settings:
    """What an actor is given."""

    size: int
    colour: Colour = Colour.RED


class Session:
    """What no trace has a form for."""


class Keeper(Actor):
    """Keeps what it was given."""

    def __init__(self, *given: object, **named: object) -> None:
        self.given = given
        self.named = named


def a_keeper(size: int) -> Keeper:
    return Keeper(size)


def no_actor(name: str) -> str:
    called.append(name)
    return name


def double(message: Message) -> Message:
    return message


def spawned(recipe: Recipe | None) -> Spawned:
    return Spawned(sequence=1, now_ms=0, ref=A, parent=Ref("/user", 1), actor="m:A", recipe=recipe)


def made(recipe: Recipe | None, **casting: object) -> Keeper:
    actor = Casting(**casting).props_of(spawned(recipe), Ref).make()  # type: ignore[arg-type]
    assert isinstance(actor, Keeper)
    return actor


def recipe(factory: str, *arguments: object) -> Recipe:
    return Recipe(factory=factory, arguments=arguments, keywords={})


def there_and_back(props: Props) -> Recipe:
    packed = pack_recipe(props)
    assert packed is not None
    return unpack_recipe(packed)


HERE = __name__


def test_what_a_trace_tells_makes_the_actor_again() -> None:
    given = (
        1,
        "two",
        b"3",
        None,
        (4, [5]),
        {"six": 6},
        {7},
        says("8"),
        A,
        Colour.RED,
        Settings(size=9),
        double,
        Keeper,
    )

    keeper = made(there_and_back(Props(Keeper, *given, name="ten")))

    assert keeper.given == given
    assert keeper.named == {"name": "ten"}


def test_a_function_that_says_it_returns_an_actor_makes_one() -> None:
    assert made(there_and_back(Props(a_keeper, 3))).given == (3,)


def test_dispatcher_and_stash_are_those_of_the_recorded_props() -> None:
    props = Props(Keeper).with_dispatcher("pinned").with_stash_capacity(3)

    again = Casting().props_of(spawned(there_and_back(props)), Ref)

    assert (again.dispatcher, again.stash_capacity) == ("pinned", 3)


def test_given_props_come_before_the_trace() -> None:
    keeper = made(None, actors={"/user/a": Props(Keeper, "given")})

    assert keeper.given == ("given",)


def test_a_stand_in_takes_the_place_of_a_live_object() -> None:
    session = Session()

    keeper = made(there_and_back(Props(Keeper, Session())), stand_ins={f"{HERE}:Session": session})

    assert keeper.given == (session,)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (None, "the trace does not tell how m:A was made"),
        (recipe(f"{HERE}:Keeper", Opaque(f"{HERE}:Session")), "was given a Session, of which a trace has no copy"),
        (recipe("no_such_module:Keeper"), "no_such_module cannot be imported here"),
        (recipe(f"{HERE}:NoSuchActor"), "has no class or function 'NoSuchActor' any more"),
        (
            recipe("__main__:NoSuchActor"),
            "was declared in the script that ran, which is not this one: have it in a module",
        ),
        (recipe(f"{HERE}:f.<locals>.Keeper"), "was defined within a function"),
        (recipe(f"{HERE}:Settings"), "neither an Actor nor a function that says it returns one"),
        (recipe(f"{HERE}:Keeper", Choice(f"{HERE}:Colour", "BLUE")), "there is no Colour.BLUE"),
        (recipe(f"{HERE}:Keeper", Instance(f"{HERE}:Session", {})), "is no dataclass any more"),
        (recipe(f"{HERE}:Keeper", Instance(f"{HERE}:Settings", {"weight": 3})), "cannot be made here"),
    ],
)
def test_what_cannot_be_made_says_why(told: Recipe | None, reason: str) -> None:
    with pytest.raises(CastingError, match=reason):
        made(told)


@pytest.mark.parametrize(
    "told",
    [
        recipe("os:system", "echo harm"),
        recipe("subprocess:call", ["echo"]),
        recipe("builtins:eval", "called.append('harm')"),
        recipe(f"{HERE}:no_actor", "harm"),
        recipe(f"{HERE}:called.append", "harm"),
        recipe(f"{HERE}:Keeper", Named("os:remove")),
        recipe(f"{HERE}:Keeper", Instance("subprocess:Popen", {"args": ["echo"]})),
        recipe(f"{HERE}:Keeper", Instance(f"{HERE}:no_actor", {"name": "harm"})),
    ],
)
def test_nothing_is_called_that_makes_no_actor(told: Recipe, tmp_path: Path) -> None:
    with pytest.raises(CastingError):
        made(told)

    assert called == []


def test_messages_in_recipes_are_values() -> None:
    assert isinstance(made(there_and_back(Props(Keeper, says("x")))).given[0], Say)
