"""Supervision of an actor that raises."""

from __future__ import annotations

import pytest

from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.events import ActorFailed
from flykka.runtime.props import Props
from flykka.runtime.supervision import STOPPING_STRATEGY, AllForOne, Directive, OneForOne
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import fails, says, scripted_actor


def always(directive: Directive) -> OneForOne:
    return OneForOne(decider=lambda _: directive)


def parent_of(log: list[str], strategy: OneForOne | AllForOne, *names: str, kept: list[ActorContext]) -> Props:
    child = scripted_actor(log, {"fail": fails, "start": kept.append, "restart": kept.append})
    return scripted_actor([], {"start": lambda context: [context.spawn(child, name) for name in names]}, strategy)


def test_a_restart_keeps_ref_and_mailbox_and_replaces_the_instance(system: SeededSystem) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor(log, {"fail": fails}), "a")

    for word in ("one", "fail", "two"):
        ref.tell(says(word))
    system.run_until_idle()

    assert log == ["a start", "a one", "a fail", "a stop", "a restart", "a two"]
    assert ref.incarnation == 1


def test_resume_keeps_the_instance(system: SeededSystem) -> None:
    log: list[str] = []
    system.spawn(parent_of(log, always(Directive.RESUME), "c", kept=[]), "p")
    system.run_until_idle()

    for word in ("fail", "more"):
        system.actor_selection("/user/p/c").tell(says(word))
    system.run_until_idle()

    assert log == ["c start", "c fail", "c more"]


def test_stop_ends_the_child_after_its_post_stop_hook(system: SeededSystem) -> None:
    log: list[str] = []
    system.spawn(parent_of(log, STOPPING_STRATEGY, "c", kept=[]), "p")
    system.run_until_idle()

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.run_until_idle()

    assert log == ["c start", "c fail", "c stop"]
    assert system.find("/user/p/c") is None


def test_an_escalated_failure_fails_the_parent(system: SeededSystem) -> None:
    log: list[str] = []
    child = scripted_actor(log, {"fail": fails})
    system.spawn(
        scripted_actor(log, {"start": lambda context: context.spawn(child, "c")}, always(Directive.ESCALATE)), "p"
    )
    system.run_until_idle()

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.run_until_idle()

    assert log == ["p start", "c start", "c fail", "p stop", "c stop", "p restart"]


def test_resuming_an_escalated_failure_also_resumes_the_child(system: SeededSystem) -> None:
    log: list[str] = []
    child = scripted_actor(log, {"fail": fails})
    parent = scripted_actor(log, {"start": lambda context: context.spawn(child, "c")}, always(Directive.ESCALATE))
    system.spawn(
        scripted_actor(log, {"start": lambda context: context.spawn(parent, "p")}, always(Directive.RESUME)), "g"
    )
    system.run_until_idle()

    for word in ("fail", "more"):
        system.actor_selection("/user/g/p/c").tell(says(word))
    system.run_until_idle()

    assert log == ["g start", "p start", "c start", "c fail", "c more"]


def test_too_many_restarts_within_the_window_stop_the_child(system: SeededSystem) -> None:
    log: list[str] = []
    system.spawn(parent_of(log, OneForOne(max_restarts=2, within_ms=1000), "c", kept=[]), "p")
    system.run_until_idle()

    for _ in range(3):
        system.actor_selection("/user/p/c").tell(says("fail"))
        system.run_until_idle()

    assert log.count("c restart") == 2
    assert log[-2:] == ["c fail", "c stop"]


def test_restarts_before_the_current_window_are_not_counted(system: SeededSystem) -> None:
    log: list[str] = []
    system.spawn(parent_of(log, OneForOne(max_restarts=1, within_ms=1000), "c", kept=[]), "p")
    system.run_until_idle()

    for _ in range(4):
        system.actor_selection("/user/p/c").tell(says("fail"))
        system.advance(1001)

    assert log.count("c restart") == 4


def test_all_for_one_restarts_the_siblings(system: SeededSystem) -> None:
    log: list[str] = []
    system.spawn(parent_of(log, AllForOne(), "a", "b", kept=[]), "p")
    system.run_until_idle()

    system.actor_selection("/user/p/a").tell(says("fail"))
    system.run_until_idle()

    assert sorted(log) == sorted([f"{c} {what}" for c in "ab" for what in ("start", "stop", "restart")] + ["a fail"])


def test_children_of_a_restarted_actor_end_before_the_new_instance_begins(system: SeededSystem) -> None:
    log: list[str] = []
    child = scripted_actor(log)
    begin = lambda context: context.spawn(child, "c")  # noqa: E731
    ref = system.spawn(scripted_actor(log, {"start": begin, "restart": begin, "fail": fails}), "p")
    system.run_until_idle()

    ref.tell(says("fail"))
    system.run_until_idle()

    assert log == ["p start", "c start", "p fail", "p stop", "c stop", "p restart", "c start"]


def test_an_actor_that_cannot_start_is_stopped(system: SeededSystem) -> None:
    log: list[str] = []
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)

    ref = system.spawn(scripted_actor(log, {"start": fails}), "a")
    system.run_until_idle()

    assert not ref.is_alive()
    assert log == ["a start", "a stop"]
    assert failures[0].failure.type_name == "ActorInitializationError"
    assert "as scripted" in failures[0].failure.stack_trace


def test_a_failing_factory_leaves_no_child(system: SeededSystem) -> None:
    def broken() -> Actor:
        raise ValueError("no actor today")

    ref = system.spawn(Props(broken), "a")
    system.run_until_idle()

    assert not ref.is_alive()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, pytest.fail.Exception])
def test_no_base_exception_affects_another_actor(system: SeededSystem, error: type[BaseException]) -> None:
    def raises(_context: ActorContext) -> None:
        raise error("in a handler")

    log: list[str] = []
    bystander = system.spawn(scripted_actor(log), "b")
    culprit = system.spawn(scripted_actor([], {"fail": raises}), "a")

    culprit.tell(says("fail"))
    bystander.tell(says("still here"))
    system.run_until_idle()

    assert culprit.is_alive()
    assert log[-1] == "b still here"


def test_a_hook_that_raises_during_the_stop_does_not_prevent_it(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)
    ref = system.spawn(scripted_actor([], {"stop": fails}), "a")
    system.run_until_idle()

    assert ref.stop() is True
    assert len(failures) == 1


def test_a_failing_decider_escalates(system: SeededSystem) -> None:
    def undecided(_error: BaseException) -> Directive:
        raise LookupError("no rule")

    log: list[str] = []
    child = scripted_actor(log, {"fail": fails})
    begin = {"start": lambda context: context.spawn(child, "c")}
    system.spawn(scripted_actor(log, begin, OneForOne(decider=undecided)), "p")
    system.run_until_idle()

    system.actor_selection("/user/p/c").tell(says("fail"))
    system.run_until_idle()

    assert log[-1] == "p restart"
