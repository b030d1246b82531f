"""Creation, stop and names of actors."""

from __future__ import annotations

import pykka
import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import InvalidActorNameError, ProxyNotSupportedError, SpawnRefusedError
from flykka.runtime.events import ActorTerminated, DeadLetter, EndReason
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import says, scripted_actor


def test_a_kernel_actor_is_a_pykka_actor(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    assert isinstance(ref, pykka.ActorRef)
    assert ref in pykka.ActorRegistry.get_all()
    assert isinstance(ref.actor_inbox.owner, pykka.Actor)
    assert pykka.ActorRegistry.get_by_urn(ref.actor_urn) == ref


def test_an_instance_is_created_in_a_turn_of_its_actor(system: SeededSystem) -> None:
    log: list[str] = []

    system.spawn(scripted_actor(log), "a")
    assert log == []
    system.run_until_idle()

    assert log == ["a start"]


def test_messages_of_one_sender_arrive_in_order(system: SeededSystem) -> None:
    log: list[str] = []
    receiver = system.spawn(scripted_actor(log), "r")

    def count(_context: ActorContext) -> None:
        for number in range(9):
            receiver.tell(says(str(number)))

    sender = system.spawn(scripted_actor([], {"go": count}), "s")

    sender.tell(says("go"))
    system.run_until_idle()

    assert log == ["r start", *(f"r {n}" for n in range(9))]


def test_children_stop_before_their_parent(system: SeededSystem) -> None:
    log: list[str] = []
    grandchild = scripted_actor(log)
    child = scripted_actor(log, {"start": lambda context: context.spawn(grandchild, "c")})
    ref = system.spawn(scripted_actor(log, {"start": lambda context: context.spawn(child, "b")}), "a")
    system.run_until_idle()

    ref.stop()

    assert log[-3:] == ["c stop", "b stop", "a stop"]
    assert not ref.is_alive()
    assert ref not in pykka.ActorRegistry.get_all()


def test_a_stop_overtakes_queued_messages_which_become_dead_letters(system: SeededSystem) -> None:
    log: list[str] = []
    letters: list[str] = []
    system.event_stream.subscribe(lambda letter: letters.append(letter.message.text), DeadLetter)
    ref = system.spawn(scripted_actor(log), "a")
    system.run_until_idle()

    ref.tell(says("too late"))
    ref.stop()

    assert log == ["a start", "a stop"]
    assert letters == ["too late"]


def test_stop_returns_whether_the_actor_was_alive(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    assert ref.stop() is True
    assert ref.stop() is False


def test_an_actor_may_stop_itself(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor(log, {"end": lambda context: context.stop()}), "a")

    ref.tell(says("end"))
    ref.tell(says("more"))
    system.run_until_idle()

    assert log == ["a start", "a end", "a stop"]


def test_a_stopped_actors_name_can_be_reused_with_a_new_incarnation(system: SeededSystem) -> None:
    first = system.spawn(scripted_actor([]), "a")
    with pytest.raises(InvalidActorNameError, match="not free"):
        system.spawn(scripted_actor([]), "a")
    first.stop()

    second = system.spawn(scripted_actor([]), "a")

    assert (second.path, second.incarnation) == (first.path, 2)
    assert second != first


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b"])
def test_an_actor_name_must_be_a_valid_path_element(system: SeededSystem, name: str) -> None:
    with pytest.raises(InvalidActorNameError):
        system.spawn(scripted_actor([]), name)


def test_every_actor_end_is_published(system: SeededSystem) -> None:
    ends: list[ActorTerminated] = []
    system.event_stream.subscribe(ends.append, ActorTerminated)
    ref = system.spawn(scripted_actor([]), "a")

    ref.stop()

    assert ends == [ActorTerminated(ref=ref, reason=EndReason.STOPPED)]


def test_a_terminated_system_refuses_to_spawn_actors() -> None:
    system = SeededSystem()
    ref = system.spawn(scripted_actor([]), "a")

    system.terminate().wait(timeout=1)

    assert system.terminated.is_set()
    assert not ref.is_alive()
    with pytest.raises(SpawnRefusedError):
        system.spawn(scripted_actor([]), "b")


def test_children_are_listed_in_spawning_order(system: SeededSystem) -> None:
    seen: list[str] = []
    script = {
        "start": lambda context: [context.spawn(scripted_actor([]), name) for name in "zay"],
        "look": lambda context: seen.extend(child.path for child in context.children),
    }

    system.spawn(scripted_actor([], script), "p").tell(says("look"))
    system.run_until_idle()

    assert seen == ["/user/p/z", "/user/p/a", "/user/p/y"]


def test_a_selection_resolves_to_the_current_incarnation(system: SeededSystem) -> None:
    log: list[str] = []
    selection = system.actor_selection("/user/a")
    system.spawn(scripted_actor(log), "a").stop()
    second = system.spawn(scripted_actor(log), "a")

    selection.tell(says("hello"))
    system.run_until_idle()

    assert selection.resolve_one() == second
    assert log[-1] == "a hello"


def test_ids_and_random_numbers_depend_on_the_seed_and_the_actor() -> None:
    def ids_and_numbers(seed: int, name: str) -> list[object]:
        found: list[object] = []
        script = {
            "start": lambda context: found.extend(
                [context.new_id("job"), context.new_id("job"), context.random.random()]
            )
        }
        with SeededSystem(seed) as system:
            system.spawn(scripted_actor([], script), name)
            system.run_until_idle()
        return found

    assert ids_and_numbers(1, "a") == ids_and_numbers(1, "a")
    assert not set(ids_and_numbers(1, "a")) & set(ids_and_numbers(1, "b"))
    assert not set(ids_and_numbers(1, "a")) & set(ids_and_numbers(2, "a"))


def test_proxies_are_refused_with_the_equivalent_message(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    with pytest.raises(ProxyNotSupportedError, match=r"ref\.ask\(SomeMessage"):
        ref.proxy()
    with pytest.raises(ProxyNotSupportedError):
        pykka.ActorProxy(actor_ref=ref)
