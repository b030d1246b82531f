"""A killed actor runs no hook, handles no message and takes no further turn; watchers are notified."""

from __future__ import annotations

import threading

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import ActorDeadError
from flykka.runtime.events import ActorTerminated, DeadLetter, EndReason
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, in_turn, says, scripted_actor


class Resource:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_kill_ends_the_whole_subtree_without_a_hook(system: SeededSystem) -> None:
    log: list[str] = []
    child = scripted_actor(log)
    ref = system.spawn(scripted_actor(log, {"start": lambda context: context.spawn(child, "c")}), "p")
    system.run_until_idle()

    system.kill(ref)
    system.run_until_idle()

    assert log == ["p start", "c start"]
    assert system.find("/user/p") is None
    assert system.find("/user/p/c") is None
    assert not ref.is_alive()


def test_only_watchers_outside_the_killed_subtree_are_notified(system: SeededSystem) -> None:
    log: list[str] = []
    inside = scripted_actor(log, {"start": lambda context: context.watch(context.parent)})
    ref = system.spawn(scripted_actor([], {"start": lambda context: context.spawn(inside, "c")}), "p")
    system.spawn(scripted_actor(log, {"start": lambda context: context.watch(ref)}), "w")
    system.run_until_idle()

    system.kill(ref)
    system.kill(ref)
    system.run_until_idle()

    assert sorted(log) == ["c start", "w sees the end of /user/p", "w start"]


def test_queued_messages_of_a_killed_actor_become_dead_letters_and_asks_fail(system: SeededSystem) -> None:
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    ref = system.spawn(scripted_actor([]), "a")
    system.run_until_idle()
    ref.tell(says("told"))
    reply = ref.ask(says("asked"), block=False)

    system.kill(ref)

    assert [letter.message for letter in letters] == [says("told"), says("asked")]
    assert {letter.reason for letter in letters} == {"the recipient was killed"}
    with pytest.raises(ActorDeadError):
        reply.get(timeout=0)


def test_the_name_of_a_killed_actor_is_free_at_once(system: SeededSystem) -> None:
    ref = system.spawn(scripted_actor([]), "a")

    system.kill(ref)
    again = system.spawn(scripted_actor([]), "a")

    assert again.incarnation == 2
    system.run_until_idle()
    assert again.is_alive()


def test_killing_a_ref_of_an_earlier_incarnation_has_no_effect(system: SeededSystem) -> None:
    first = system.spawn(scripted_actor([]), "a")
    first.stop()
    second = system.spawn(scripted_actor([]), "a")

    system.kill(first)

    assert second.is_alive()


def test_a_turn_that_kills_its_own_actor_has_no_further_effects(system: SeededSystem) -> None:
    log: list[str] = []
    resource = Resource()
    witness = system.spawn(scripted_actor(log), "w")

    def die_and_go_on(context: ActorContext) -> None:
        context.system.kill(context.ref)
        witness.tell(says("from beyond"))
        born = context.spawn(scripted_actor(log), "late")
        context.timers.start_once("t", 5, says("late"))
        context.pipe_to_self(lambda: log.append("piped"), lambda _: says("x"), lambda _: says("x"))
        context.own(resource)
        assert not born.is_alive()

    system.spawn(scripted_actor([], {"die": die_and_go_on}), "a").tell(says("die"))
    system.advance(100)

    assert log == ["w start"]
    assert resource.closed == 1


def test_a_waiting_parent_resumes_when_its_child_is_killed(threaded: ActorSystem) -> None:
    stuck, free = threading.Event(), threading.Event()
    child = scripted_actor([], {"block": in_turn(lambda _: stuck.set(), lambda _: free.wait(5))}).with_dispatcher(
        "pinned"
    )
    parent = threaded.spawn(
        scripted_actor([], {"start": lambda context: context.spawn(child, "c").tell(says("block"))}), "p"
    )
    assert stuck.wait(5)
    blocked = threaded.find("/user/p/c")
    assert blocked is not None
    stopped = parent.stop(block=False)

    threaded.kill(blocked)

    assert stopped.get(timeout=5) is True
    free.set()


@pytest.mark.parametrize("end", ["stop", "fail", "kill", "terminate"])
def test_resources_of_an_actor_are_closed_exactly_once(end: str) -> None:
    resources = [Resource(), Resource()]
    order: list[str] = []

    def own(context: ActorContext) -> None:
        for resource in resources:
            context.own(resource)

    def fail(_context: ActorContext) -> None:
        raise RuntimeError

    with SeededSystem(3) as system:
        ref = system.spawn(scripted_actor(order, {"start": own, "fail": fail}), "a")
        system.run_until_idle()
        match end:
            case "stop":
                ref.stop()
            case "fail":
                ref.tell(says("fail"))
            case "kill":
                system.kill(ref)
            case _:
                pass
        system.run_until_idle()
        assert [resource.closed for resource in resources] == ([1, 1] if end != "terminate" else [0, 0])

    assert [resource.closed for resource in resources] == [1, 1]


def test_a_resource_is_closed_before_watchers_are_notified(system: SeededSystem) -> None:
    resource = Resource()
    seen: list[int] = []
    ref = system.spawn(scripted_actor([], {"start": lambda context: context.own(resource)}), "a")
    script = {"start": lambda c: c.watch(ref), "sees the end of /user/a": lambda _: seen.append(resource.closed)}
    system.spawn(scripted_actor([], script), "w")
    system.run_until_idle()

    ref.stop()
    system.run_until_idle()

    assert seen == [1]


def test_a_kill_can_be_planned_by_a_message(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor(log), "a")
    plan = kill_when(system, "/user/a", lambda recipient, message: message == says("x"), count=2)

    for word in ("x", "y", "x", "z"):
        ref.tell(says(word))
    system.run_until_idle()

    assert log == ["a start", "a x", "a y"]
    assert plan.done


def test_an_actor_killed_by_a_planned_message_to_another_takes_no_turn(system: SeededSystem) -> None:
    log: list[str] = []
    system.spawn(scripted_actor(log), "victim")
    receiver = system.spawn(scripted_actor(log), "r")
    system.run_until_idle()
    kill_when(system, lambda: system.find("/user/victim"), lambda recipient, _: recipient == receiver)

    receiver.tell(says("now"))
    system.run_until_idle()

    assert log[-1] == "r now"
    assert system.find("/user/victim") is None


def test_a_killed_guardian_ends_the_system() -> None:
    with ActorSystem("doomed") as system:
        ref = system.spawn(scripted_actor([]), "a")
        system.kill(system.user.ref)
        assert system.terminated.wait(timeout=5)
        assert not ref.is_alive()


def test_a_kill_is_published_to_the_event_stream(system: SeededSystem) -> None:
    ends: list[ActorTerminated] = []
    system.event_stream.subscribe(ends.append, ActorTerminated)
    ref = system.spawn(scripted_actor([]), "a")

    system.kill(ref)

    assert ends == [ActorTerminated(ref=ref, reason=EndReason.KILLED)]


def test_messages_of_a_killed_turn_on_another_thread_are_dropped(threaded: ActorSystem) -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()
    probe = TestProbe(threaded)

    def slow(_context: ActorContext) -> None:
        begun.set()
        assert go_on.wait(5)
        probe.ref.tell(says("from beyond"))
        over.set()

    ref = threaded.spawn(scripted_actor([], {"slow": slow}), "a")
    watcher = TestProbe(threaded)
    script = {"start": lambda c: c.watch(ref), "sees the end of /user/a": lambda _: watcher.ref.tell(says("ended"))}
    threaded.spawn(scripted_actor([], script), "w")
    ref.tell(says("slow"))
    assert begun.wait(5)

    threaded.kill(ref)
    watcher.expect_message(Say)
    go_on.set()

    assert over.wait(5)
    probe.ref.tell(says("the only one"))
    assert probe.expect_message(Say) == says("the only one")
    assert probe.drain() == []
