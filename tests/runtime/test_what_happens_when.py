"""Concurrent events: the second table of "What happens when" in docs/kernel.md, row by row."""

from __future__ import annotations

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskFailedError, SpawnRefusedError, WaitInTurnError
from flykka.runtime.events import ActorFailed, ActorTerminated
from flykka.runtime.supervision import Directive, OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Deed, fails, in_turn, says, scripted_actor, spawns, tell

RESTARTING = OneForOne(decider=lambda _: Directive.RESTART)


def test_a_stop_during_a_restart_wins_and_post_stop_runs_once(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    child = scripted_actor(log, {"stop": lambda context: context.parent.stop(block=False)})
    ref = system.spawn(scripted_actor(log, {"start": spawns(child, "c"), "fail": fails}), "p")
    system.run_until_idle()

    ref.tell(says("fail"))
    system.run_until_idle()

    # The restart waits for the child's post_stop, which stops the parent.
    assert log == ["p start", "c start", "p fail", "p stop", "c stop"]
    assert not ref.is_alive()


def test_a_restart_during_a_stop_loses(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    grandchild = scripted_actor(log)
    child = scripted_actor(
        log, {"start": spawns(grandchild, "g"), "fail": in_turn(lambda context: context.stop(), fails)}
    )
    system.spawn(scripted_actor(log, {"start": spawns(child, "c")}, RESTARTING), "p")
    system.run_until_idle()

    tell(system, "/user/p/c", "fail", "more")

    assert log[3:] == ["c fail", "g stop", "c stop"]
    assert system.find("/user/p/c") is None


def test_a_duplicate_name_fails_the_spawning_actor(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    script = {"again": spawns(scripted_actor(log), "c")}
    ref = system.spawn(scripted_actor(log, script), "p")

    tell(system, "/user/p", "again", "again", "again")

    assert failures == ["InvalidActorNameError"]
    # The restart stopped the first child, so the name is free at the third attempt.
    assert log.count("c start") == 2
    assert ref.is_alive()


def test_a_spawn_from_post_stop_is_refused_and_the_actor_ends(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor(log, {"stop": spawns(scripted_actor(log), "late")}), "a")
    system.run_until_idle()

    ref.stop()

    assert failures == [SpawnRefusedError.__name__]
    assert log == ["a start", "a stop"]
    assert system.cells.living_paths() == ["/user/bystander"]


def test_a_top_level_actor_spawned_in_post_stop_outlives_its_spawner(system: SeededSystem) -> None:
    log: list[str] = []
    heir = scripted_actor(log)
    ref = system.spawn(scripted_actor(log, {"stop": lambda context: context.spawn_top_level(heir, "heir")}), "a")
    system.run_until_idle()

    ref.stop()
    system.run_until_idle()

    assert log == ["a start", "a stop", "heir start"]


def test_a_spawn_while_the_system_terminates_is_refused() -> None:
    log: list[str] = []
    refused: list[BaseException] = []

    def try_to_leave_an_heir(context: ActorContext) -> None:
        with pytest.raises(SpawnRefusedError) as refusal:
            context.spawn_top_level(scripted_actor(log), "heir")
        refused.append(refusal.value)

    with SeededSystem(3) as system:
        system.spawn(scripted_actor(log, {"stop": try_to_leave_an_heir}), "a")
        system.run_until_idle()

    assert log == ["a start", "a stop"]
    assert len(refused) == 1


@pytest.mark.parametrize("kind", ["seeded", "threaded"])
def test_a_system_terminated_twice_ends_once(kind: str) -> None:
    system = SeededSystem(1) if kind == "seeded" else ActorSystem("twice")
    ends: list[ActorTerminated] = []
    log: list[str] = []
    system.event_stream.subscribe(ends.append, ActorTerminated)
    system.spawn(scripted_actor(log), "a")

    first, second = system.terminate(), system.terminate()
    first.wait(timeout=5)
    third = system.terminate()

    assert first is second is third
    assert third.wait(timeout=0)
    assert [str(end.ref.path) for end in ends].count("/user/a") == 1
    assert log.count("a stop") <= 1


@pytest.mark.parametrize("kind", ["seeded", "threaded"])
def test_a_system_terminated_by_its_own_actor_ends(kind: str) -> None:
    system = SeededSystem(1) if kind == "seeded" else ActorSystem("from-within")
    log: list[str] = []
    ref = system.spawn(scripted_actor(log, {"end": lambda context: context.system.terminate()}), "a")

    ref.tell(says("end"))

    assert system.terminated.wait(timeout=5)
    assert log == ["a start", "a end", "a stop"]


@pytest.mark.parametrize("kind", ["seeded", "threaded"])
@pytest.mark.parametrize(
    "wait",
    [
        lambda context: context.system.terminate().wait(),
        lambda context: context.system.terminated.get(),
        lambda context: context.ref.stop(),
        lambda context: context.parent.stop(),
    ],
    ids=["terminate", "terminated", "itself", "its parent"],
)
def test_an_actor_that_waits_for_its_own_end_fails_at_once(kind: str, wait: Deed) -> None:
    system = SeededSystem(1) if kind == "seeded" else ActorSystem("impatient")
    failures: list[str] = []
    system.event_stream.subscribe(lambda event: failures.append(event.failure.type_name), ActorFailed)
    ref = system.spawn(scripted_actor([], {"wait": wait}), "a")

    try:
        with pytest.raises(AskFailedError, match=WaitInTurnError.__name__):
            ref.ask(says("wait"), timeout=5)
    finally:
        system.terminate().wait(timeout=5)

    assert failures == [WaitInTurnError.__name__]
