"""A selection resolves to the actors at its path at the time when a message is sent."""

from __future__ import annotations

import pytest

from flykka.runtime.events import DeadLetter
from flykka.runtime.path import absolute_path
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import in_turn, says, scripted_actor, spawns


@pytest.fixture
def log(system: SeededSystem) -> list[str]:
    """Return the log of the actor `shop` and its children, two tills and a cellar, without the start-up entries."""
    log: list[str] = []
    cellar = scripted_actor(log, {"start": spawns(scripted_actor(log), "till-3")})
    shop = in_turn(spawns(scripted_actor(log), "till-1", "till-2"), spawns(cellar, "cellar"))
    system.spawn(scripted_actor(log, {"start": shop}), "shop")
    system.run_until_idle()
    log.clear()
    return log


@pytest.mark.parametrize(
    ("path", "heard"),
    [
        ("/user/shop/till-*", ["till-1", "till-2"]),
        ("/user/shop/till-?", ["till-1", "till-2"]),
        ("/user/shop/?ill-2", ["till-2"]),
        ("/user/*/*/till-*", ["till-3"]),
        ("/user/shop/*", ["cellar", "till-1", "till-2"]),
        ("/user/shop/till-1", ["till-1"]),
        ("user/shop/cellar/../till-2", ["till-2"]),
    ],
)
def test_wildcards_match_parts_of_a_name(system: SeededSystem, log: list[str], path: str, heard: list[str]) -> None:
    system.actor_selection(path).tell(says("hello"))
    system.run_until_idle()

    assert sorted(log) == [f"{name} hello" for name in heard]


@pytest.mark.parametrize("path", ["/user/shop/x*", "/user/shop/till", "/user/shop/till-1/*", "/user/[st]hop"])
def test_a_message_to_an_empty_selection_is_a_dead_letter(system: SeededSystem, log: list[str], path: str) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)

    system.actor_selection(path).tell(says("hello"))

    assert [letter.recipient.path for letter in letters] == [path]
    assert system.actor_selection(path).resolve_one() is None


def test_ended_actors_are_not_selected(system: SeededSystem, log: list[str]) -> None:
    first, second = system.actor_selection("/user/shop/till-*").resolve()
    first.stop()

    assert system.actor_selection("/user/shop/till-*").resolve() == [second]


def test_an_actor_selects_relative_to_its_own_path(system: SeededSystem) -> None:
    log: list[str] = []
    asks_around = scripted_actor(log, {"go": lambda context: context.actor_selection("../*").tell(says("hello"))})
    system.spawn(
        scripted_actor(log, {"start": in_turn(spawns(scripted_actor(log), "a"), spawns(asks_around, "b"))}), "p"
    )
    system.run_until_idle()
    log.clear()

    system.actor_selection("/user/p/b").tell(says("go"))
    system.run_until_idle()

    assert sorted(log) == ["a hello", "b go", "b hello"]


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("x", "/user/a/x"),
        ("../x", "/user/x"),
        ("../../../..", "/"),
        ("./x/", "/user/a/x"),
        ("/x", "/x"),
        ("", "/user/a"),
    ],
)
def test_a_relative_path_is_resolved_against_another_path(path: str, absolute: str) -> None:
    assert absolute_path("/user/a", path) == absolute
