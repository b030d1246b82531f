"""A replay creates actors from the Props in a trace if these suffice, and calls nothing else that a trace names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgpack
import pytest

from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.replay.props_resolver import PropsResolver, UnresolvedPropsError
from flykka.runtime.trace.records import Spawned
from flykka.runtime.trace.state.graph_writer import pack_props
from tests.runtime.scripted_actors import Say, says

A = Ref("/user/a", 1)
called: list[str] = []


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Settings:
    size: int
    colour: Colour = Colour.RED


@dataclass(slots=True)
class Slotted:
    size: int = 0


class Session:
    """An object that cannot be written to a trace."""


class Keeper(Actor):
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


def spawned(props: bytes | None) -> Spawned:
    return Spawned(sequence=1, now_ms=0, ref=A, parent=Ref("/user", 1), actor="m:A", props=props)


def resolved_keeper(props: bytes | None, **resolved: object) -> Keeper:
    actor = PropsResolver(modules=[__name__], **resolved).props_of(spawned(props), Ref).make()  # type: ignore[arg-type]
    assert isinstance(actor, Keeper)
    return actor


def packed(factory: object, *given: object, **named: object) -> bytes:
    found = pack_props(Props(factory, *given, **named))  # type: ignore[arg-type]
    assert found is not None
    return found


def graph(factory: str, *nodes: tuple[str, object]) -> bytes:
    """Pack Props of a factory of this name, with these nodes as arguments."""
    arguments = [[2 + place] for place in range(len(nodes))]
    props = ("props", [[1], arguments, [], "default", None])
    packed: bytes = msgpack.packb([[props, ("named", factory), *nodes], [[0]]])
    return packed


HERE = __name__


def test_an_actor_is_created_from_its_props_in_a_trace() -> None:
    given = (
        1,
        2**70,
        "two",
        "\ud800",
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

    keeper = resolved_keeper(packed(Keeper, *given, name="ten"))

    assert keeper.given == given
    assert keeper.named == {"name": "ten"}


def test_an_object_shared_by_two_arguments_stays_shared() -> None:
    shared = [1]

    first, second = resolved_keeper(packed(Keeper, shared, (shared,))).given

    assert isinstance(second, tuple)
    assert second[0] is first


def test_a_function_annotated_to_return_an_actor_is_a_factory() -> None:
    assert resolved_keeper(packed(a_keeper, 3)).given == (3,)


def test_the_recorded_dispatcher_and_stash_limit_are_restored() -> None:
    props = pack_props(Props(Keeper).with_dispatcher("pinned").with_stash_capacity(3))

    again = PropsResolver().props_of(spawned(props), Ref)

    assert (again.dispatcher, again.stash_capacity) == ("pinned", 3)


def test_props_passed_to_a_replay_override_those_of_the_trace() -> None:
    keeper = resolved_keeper(None, actors={"/user/a": Props(Keeper, "given")})

    assert keeper.given == ("given",)


def test_a_stand_in_replaces_a_live_object() -> None:
    session = Session()

    keeper = resolved_keeper(packed(Keeper, Session(), [Session()]), stand_ins={f"{HERE}:Session": session})

    assert keeper.given == (session, [session])


def test_a_field_added_to_a_dataclass_gets_its_default() -> None:
    props = graph(f"{HERE}:Keeper", ("object", [f"{HERE}:Settings", [["size", 3]]]))

    assert resolved_keeper(props).given == (Settings(size=3),)


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        (None, "the trace does not record how m:A was created"),
        (packed(Keeper, Session()), "contains a Session, which a trace does not copy"),
        (graph(f"{HERE}:NoSuchActor"), "no longer has a class or function 'NoSuchActor'"),
        (
            graph("__main__:NoSuchActor"),
            "was declared in the recorded script, and this process runs another script: declare it in a module",
        ),
        (graph(f"{HERE}:f.<locals>.Keeper"), "was defined within a function"),
        (graph(f"{HERE}:Settings"), "Settings is neither an Actor nor a function"),
        (graph(f"{HERE}:no_actor"), "neither an Actor nor a function annotated to return one"),
        (graph(f"{HERE}:Keeper", ("enum", [f"{HERE}:Colour", "BLUE"])), "there is no Colour.BLUE"),
        (graph(f"{HERE}:Keeper", ("object", [f"{HERE}:Session", []])), "is no longer a dataclass"),
        (
            graph(f"{HERE}:Keeper", ("object", [f"{HERE}:Slotted", [["weight", 3]]])),
            "m:A cannot be spawned as recorded",
        ),
        (graph(f"{HERE}:Keeper", ("context", None)), "a 'context' cannot be part of Props"),
    ],
)
def test_props_that_cannot_be_resolved_are_refused_with_the_reason(props: bytes | None, reason: str) -> None:
    with pytest.raises(UnresolvedPropsError, match=reason):
        resolved_keeper(props)


@pytest.mark.parametrize(
    "props",
    [
        graph("os:system", ("tuple", ["echo harm"])),
        graph("subprocess:call"),
        graph("builtins:eval"),
        graph(f"{HERE}:no_actor"),
        graph(f"{HERE}:called.append"),
        graph(f"{HERE}:Keeper", ("named", "os:remove")),
        graph(f"{HERE}:Keeper", ("object", ["subprocess:Popen", [["args", "echo"]]])),
        graph(f"{HERE}:Keeper", ("object", [f"{HERE}:no_actor", [["name", "harm"]]])),
    ],
)
def test_only_factories_of_actors_are_called(props: bytes) -> None:
    with pytest.raises(UnresolvedPropsError):
        resolved_keeper(props)

    assert called == []


def test_messages_in_props_are_restored_as_values() -> None:
    assert isinstance(resolved_keeper(packed(Keeper, says("x"))).given[0], Say)
