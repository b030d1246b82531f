"""The consequences of an exception: the first table of "What happens when" in docs/kernel.md, row by row."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.cell.cell import Cell
from flykka.runtime.errors import AskFailedError
from flykka.runtime.events import ActorFailed
from flykka.runtime.props import Props
from flykka.runtime.supervision import Directive, OneForOne
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, fails, in_turn, raises, replies, says, scripted_actor, spawns, tell

RESUMING = OneForOne(decider=lambda _: Directive.RESUME)
ESCALATING = OneForOne(decider=lambda _: Directive.ESCALATE)

ALL_KINDS = [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, MemoryError]


@pytest.mark.parametrize("error", ALL_KINDS)
def test_any_exception_of_a_handler_reaches_the_asker_and_the_actor_continues(
    system: SeededSystem, bystander: list[str], error: type[BaseException]
) -> None:
    ref = system.spawn(scripted_actor([], {"fail": raises(error), "q": replies}), "a")

    with pytest.raises(AskFailedError, match=f"{error.__name__}: as scripted"):
        ref.ask(says("fail"))

    assert ref.ask(says("q")) == says("reply")


@pytest.mark.parametrize(
    ("error", "restarted"),
    [(ValueError, "c"), (asyncio.CancelledError, "c"), (SystemExit, "p"), (KeyboardInterrupt, "p")],
)
def test_by_default_exceptions_restart_the_child_and_other_base_exceptions_escalate(
    system: SeededSystem, bystander: list[str], error: type[BaseException], restarted: str
) -> None:
    log: list[str] = []
    child = scripted_actor(log, {"fail": raises(error)})
    system.spawn(scripted_actor(log, {"start": spawns(child, "c")}), "p")
    system.run_until_idle()

    tell(system, "/user/p/c", "fail")

    assert [line for line in log if line.endswith("restart")] == [f"{restarted} restart"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_actor_whose_initialiser_raises_is_stopped_and_its_watcher_notified(
    system: SeededSystem, bystander: list[str], error: type[BaseException]
) -> None:
    class Unborn(Actor):
        def __init__(self) -> None:
            raise error("no birth today")

    log: list[str] = []
    ref = system.spawn(Props(Unborn), "a")
    system.spawn(scripted_actor(log, {"start": lambda context: context.watch(ref)}), "w")
    system.run_until_idle()

    assert log == ["w start", "w sees the end of /user/a"]


def test_a_failing_pre_start_runs_post_stop_and_stops_the_children(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    begin = in_turn(spawns(scripted_actor(log), "c"), raises(KeyboardInterrupt))

    ref = system.spawn(scripted_actor(log, {"start": begin}), "a")
    system.run_until_idle()

    assert not ref.is_alive()
    assert log == ["a start", "c start", "c stop", "a stop"]
    assert failures == ["ActorInitializationError"]


def test_a_resumed_actor_that_could_not_start_is_created_again(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    tries: list[str] = []

    def third_time_lucky() -> Actor:
        tries.append("try")
        if len(tries) == 1:
            raise OSError("not yet")
        return Moody(log, fail=len(tries) == 2)

    system.spawn(scripted_actor([], {"start": spawns(Props(third_time_lucky), "c")}, RESUMING), "p")
    system.run_until_idle()
    tell(system, "/user/p/c", "hello")

    assert log == ["failed start", "stop", "start", "hello"]


class Moody(Actor):
    def __init__(self, log: list[str], *, fail: bool) -> None:
        self._log = log
        self._fail = fail

    def pre_start(self) -> None:
        self._log.append("failed start" if self._fail else "start")
        if self._fail:
            raise OSError("not yet")

    def post_stop(self) -> None:
        self._log.append("stop")

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Say)
        self._log.append(message.text)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_post_stop_that_raises_is_reported_and_the_actor_ends(
    system: SeededSystem, bystander: list[str], failures: list[str], error: type[BaseException]
) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor([], {"stop": raises(error)}), "a")
    system.spawn(scripted_actor(log, {"start": lambda context: context.watch(ref)}), "w")
    system.run_until_idle()

    assert ref.stop() is True
    system.run_until_idle()

    assert failures == [error.__name__]
    assert log[-1] == "w sees the end of /user/a"


def test_a_raising_pre_restart_is_reported_and_the_restart_continues(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor(log, {"fail": fails, "stop": raises(LookupError)}), "a")

    ref.tell(says("fail"))
    system.run_until_idle()

    assert log == ["a start", "a fail", "a stop", "a restart"]
    assert failures == ["RuntimeError", "LookupError"]


def test_a_post_restart_that_raises_stops_the_actor(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(scripted_actor(log, {"fail": fails, "restart": raises(LookupError)}), "a")

    ref.tell(says("fail"))
    system.run_until_idle()

    assert log == ["a start", "a fail", "a stop", "a restart", "a stop"]
    assert failures == ["RuntimeError", "ActorInitializationError"]
    assert not ref.is_alive()


class Undecided(OneForOne):
    """A strategy that fails outside its decider."""

    __slots__ = ()

    def affected(self, failed: Cell, siblings: Sequence[Cell]) -> Sequence[Cell]:
        raise LookupError("whom?")


@pytest.mark.parametrize(
    "strategy",
    [
        OneForOne(decider=lambda _: 1 / 0),  # type: ignore[arg-type, return-value]
        OneForOne(decider=lambda _: "no directive"),  # type: ignore[arg-type, return-value]
        OneForOne(decider=raises(KeyboardInterrupt)),  # type: ignore[arg-type]
        Undecided(),
    ],
    ids=["raises", "returns nonsense", "raises KeyboardInterrupt", "unknown affected actors"],
)
def test_a_supervisor_whose_decider_raises_fails_itself(
    system: SeededSystem, bystander: list[str], strategy: OneForOne
) -> None:
    log: list[str] = []
    child = scripted_actor(log, {"fail": fails})
    begin = spawns(child, "c")
    system.spawn(scripted_actor(log, {"start": begin, "restart": begin}, strategy), "p")
    system.run_until_idle()
    log.clear()

    tell(system, "/user/p/c", "fail", "hello")

    assert log[0] == "c fail"
    assert [line for line in log if line.startswith("p")] == ["p stop", "p restart"]
    assert log[-1] == "c start"


def test_a_failure_of_the_strategy_reports_the_original_failure_too(system: SeededSystem) -> None:
    traces: list[str] = []
    system.event_stream.subscribe(lambda event: traces.append(event.failure.stack_trace), ActorFailed)
    strategy = OneForOne(decider=raises(LookupError))  # type: ignore[arg-type]
    system.spawn(scripted_actor([], {"start": spawns(scripted_actor([], {"fail": fails}), "c")}, strategy), "p")
    system.run_until_idle()

    tell(system, "/user/p/c", "fail")

    assert "RuntimeError" in traces[1]
    assert "During handling of the above exception" in traces[1]
    assert "LookupError" in traces[1]


def test_two_children_that_escalate_at_once_both_resume(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    child = scripted_actor(log, {"fail": fails})
    parent = scripted_actor(log, {"start": spawns(child, "a", "b")}, ESCALATING)
    system.spawn(scripted_actor(log, {"start": spawns(parent, "p")}, RESUMING), "g")
    system.run_until_idle()
    for name in "ab":
        system.actor_selection(f"/user/g/p/{name}").tell(says("fail"))
    system.run_until_idle()

    tell(system, "/user/g/p/a", "more")
    tell(system, "/user/g/p/b", "more")

    assert log[-2:] == ["a more", "b more"]
    assert not any(line.endswith("restart") for line in log)


class Keeper(Actor):
    """Keeps its children when it is restarted."""

    supervisor_strategy = ESCALATING

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def pre_start(self) -> None:
        self.context.spawn(scripted_actor(self._log, {"fail": fails}), "a")
        self.context.spawn(scripted_actor(self._log, {"fail": fails}), "b")

    def pre_restart(self, cause: BaseException | None) -> None:
        self._log.append("p gives way")

    def post_restart(self, cause: BaseException | None) -> None:
        self._log.append("p restart")


def test_children_kept_by_pre_restart_restart_with_their_parent(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    system.spawn(Props(Keeper, log), "p")
    system.run_until_idle()
    log.clear()

    tell(system, "/user/p/a", "fail")

    assert log[:3] == ["a fail", "p gives way", "p restart"]
    assert sorted(log[3:]) == ["a restart", "a stop", "b restart", "b stop"]
