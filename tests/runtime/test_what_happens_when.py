"""The cases of "What happens when" in docs/kernel.md, one by one: nothing hangs, and no other actor is harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from flykka.messages.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.cell import Cell
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskFailedError, SpawnRefusedError, WaitInTurnError
from flykka.runtime.events import ActorFailed, ActorTerminated
from flykka.runtime.props import Props
from flykka.runtime.supervision import Directive, OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.players import Deed, Say, fails, in_turn, player, replies, says

RESUMING = OneForOne(decider=lambda _: Directive.RESUME)
ESCALATING = OneForOne(decider=lambda _: Directive.ESCALATE)
RESTARTING = OneForOne(decider=lambda _: Directive.RESTART)


@pytest.fixture
def failures(system: SeededSystem) -> list[str]:
    seen: list[str] = []
    system.event_stream.subscribe(lambda event: seen.append(event.failure.type_name), ActorFailed)
    return seen


@pytest.fixture
def bystander(system: SeededSystem) -> Iterator[list[str]]:
    """Someone whom none of it concerns, with the proof that it goes on as the first instance it was."""
    log: list[str] = []
    ref = system.spawn(player(log), "bystander")
    yield log
    ref.tell(says("unharmed"))
    system.run_until_idle()
    assert log == ["bystander start", "bystander unharmed"]


def raises(error: type[BaseException]) -> Deed:
    def deed(_context: ActorContext) -> None:
        raise error("as the part says")

    return deed


def spawns(props: Props, *names: str) -> Deed:
    return lambda context: [context.spawn(props, name) for name in names]


def tell(system: SeededSystem, path: str, *words: str) -> None:
    for word in words:
        system.actor_selection(path).tell(says(word))
    system.run_until_idle()


ALL_KINDS = [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, MemoryError]


@pytest.mark.parametrize("error", ALL_KINDS)
def test_whatever_a_handler_raises_the_asker_hears_and_the_actor_goes_on(
    system: SeededSystem, bystander: list[str], error: type[BaseException]
) -> None:
    ref = system.spawn(player([], {"fail": raises(error), "q": replies}), "a")

    with pytest.raises(AskFailedError, match=f"{error.__name__}: as the part says"):
        ref.ask(says("fail"))

    assert ref.ask(says("q")) == says("reply")


@pytest.mark.parametrize(
    ("error", "restarted"),
    [(ValueError, "c"), (asyncio.CancelledError, "c"), (SystemExit, "p"), (KeyboardInterrupt, "p")],
)
def test_by_default_an_exception_restarts_the_child_and_what_is_graver_its_parent(
    system: SeededSystem, bystander: list[str], error: type[BaseException], restarted: str
) -> None:
    log: list[str] = []
    child = player(log, {"fail": raises(error)})
    system.spawn(player(log, {"start": spawns(child, "c")}), "p")
    system.run_until_idle()

    tell(system, "/user/p/c", "fail")

    assert [line for line in log if line.endswith("restart")] == [f"{restarted} restart"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_actor_whose_initialiser_raises_is_stopped_and_its_watcher_told(
    system: SeededSystem, bystander: list[str], error: type[BaseException]
) -> None:
    class Unborn(Actor):
        def __init__(self) -> None:
            raise error("no birth today")

    log: list[str] = []
    ref = system.spawn(Props(Unborn), "a")
    system.spawn(player(log, {"start": lambda context: context.watch(ref)}), "w")
    system.run_until_idle()

    assert log == ["w start", "w sees the end of /user/a"]


def test_an_actor_whose_pre_start_raises_has_its_post_stop_and_its_children_end(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    begin = in_turn(spawns(player(log), "c"), raises(KeyboardInterrupt))

    ref = system.spawn(player(log, {"start": begin}), "a")
    system.run_until_idle()

    assert not ref.is_alive()
    assert log == ["a start", "c start", "c stop", "a stop"]
    assert failures == ["ActorInitializationError"]


def test_a_resumed_actor_that_could_not_start_is_made_anew(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    tries: list[str] = []

    def third_time_lucky() -> Actor:
        tries.append("try")
        if len(tries) == 1:
            raise OSError("not yet")
        return Moody(log, fail=len(tries) == 2)

    system.spawn(player([], {"start": spawns(Props(third_time_lucky), "c")}, RESUMING), "p")
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
    ref = system.spawn(player([], {"stop": raises(error)}), "a")
    system.spawn(player(log, {"start": lambda context: context.watch(ref)}), "w")
    system.run_until_idle()

    assert ref.stop() is True
    system.run_until_idle()

    assert failures == [error.__name__]
    assert log[-1] == "w sees the end of /user/a"


def test_a_pre_restart_that_raises_is_reported_and_the_restart_goes_on(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(player(log, {"fail": fails, "stop": raises(LookupError)}), "a")

    ref.tell(says("fail"))
    system.run_until_idle()

    assert log == ["a start", "a fail", "a stop", "a restart"]
    assert failures == ["RuntimeError", "LookupError"]


def test_a_post_restart_that_raises_stops_the_actor(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(player(log, {"fail": fails, "restart": raises(LookupError)}), "a")

    ref.tell(says("fail"))
    system.run_until_idle()

    assert log == ["a start", "a fail", "a stop", "a restart", "a stop"]
    assert failures == ["RuntimeError", "ActorInitializationError"]
    assert not ref.is_alive()


class Undecided(OneForOne):
    """A strategy that is wrong in some other way than by its decider."""

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
    ids=["raises", "returns nonsense", "raises KeyboardInterrupt", "affects no one knows whom"],
)
def test_a_supervisor_that_cannot_decide_fails_in_the_childs_place(
    system: SeededSystem, bystander: list[str], strategy: OneForOne
) -> None:
    log: list[str] = []
    child = player(log, {"fail": fails})
    begin = spawns(child, "c")
    system.spawn(player(log, {"start": begin, "restart": begin}, strategy), "p")
    system.run_until_idle()
    log.clear()

    tell(system, "/user/p/c", "fail", "hello")

    assert log[0] == "c fail"
    assert [line for line in log if line.startswith("p")] == ["p stop", "p restart"]
    assert log[-1] == "c start"


def test_an_undecided_failure_shows_the_first_one_too(system: SeededSystem) -> None:
    traces: list[str] = []
    system.event_stream.subscribe(lambda event: traces.append(event.failure.stack_trace), ActorFailed)
    strategy = OneForOne(decider=raises(LookupError))  # type: ignore[arg-type]
    system.spawn(player([], {"start": spawns(player([], {"fail": fails}), "c")}, strategy), "p")
    system.run_until_idle()

    tell(system, "/user/p/c", "fail")

    assert "RuntimeError" in traces[1]
    assert "During handling of the above exception" in traces[1]
    assert "LookupError" in traces[1]


def test_two_children_that_escalate_at_once_both_go_on(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    child = player(log, {"fail": fails})
    parent = player(log, {"start": spawns(child, "a", "b")}, ESCALATING)
    system.spawn(player(log, {"start": spawns(parent, "p")}, RESUMING), "g")
    system.run_until_idle()
    for name in "ab":
        system.actor_selection(f"/user/g/p/{name}").tell(says("fail"))
    system.run_until_idle()

    tell(system, "/user/g/p/a", "more")
    tell(system, "/user/g/p/b", "more")

    assert log[-2:] == ["a more", "b more"]
    assert not any(line.endswith("restart") for line in log)


class Keeper(Actor):
    """Keeps its children when it is replaced."""

    supervisor_strategy = ESCALATING

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def pre_start(self) -> None:
        self.context.spawn(player(self._log, {"fail": fails}), "a")
        self.context.spawn(player(self._log, {"fail": fails}), "b")

    def pre_restart(self, cause: BaseException | None) -> None:
        self._log.append("p gives way")

    def post_restart(self, cause: BaseException | None) -> None:
        self._log.append("p restart")


def test_children_kept_by_pre_restart_begin_anew_with_their_parent(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    system.spawn(Props(Keeper, log), "p")
    system.run_until_idle()
    log.clear()

    tell(system, "/user/p/a", "fail")

    assert log[:3] == ["a fail", "p gives way", "p restart"]
    assert sorted(log[3:]) == ["a restart", "a stop", "b restart", "b stop"]


def test_a_stop_during_a_restart_wins_and_the_last_hook_runs_once(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    child = player(log, {"stop": lambda context: context.parent.stop(block=False)})
    ref = system.spawn(player(log, {"start": spawns(child, "c"), "fail": fails}), "p")
    system.run_until_idle()

    ref.tell(says("fail"))
    system.run_until_idle()

    # The child's last hook, which the restart waits for, stops the parent.
    assert log == ["p start", "c start", "p fail", "p stop", "c stop"]
    assert not ref.is_alive()


def test_a_restart_during_a_stop_loses(system: SeededSystem, bystander: list[str]) -> None:
    log: list[str] = []
    grandchild = player(log)
    child = player(log, {"start": spawns(grandchild, "g"), "fail": in_turn(lambda context: context.stop(), fails)})
    system.spawn(player(log, {"start": spawns(child, "c")}, RESTARTING), "p")
    system.run_until_idle()

    tell(system, "/user/p/c", "fail", "more")

    assert log[3:] == ["c fail", "g stop", "c stop"]
    assert system.find("/user/p/c") is None


def test_a_name_used_twice_is_the_failure_of_who_used_it(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    part = {"again": spawns(player(log), "c")}
    ref = system.spawn(player(log, part), "p")

    tell(system, "/user/p", "again", "again", "again")

    assert failures == ["InvalidActorNameError"]
    # The restart has stopped the first child, so that the name is free for the third try.
    assert log.count("c start") == 2
    assert ref.is_alive()


def test_a_spawn_from_post_stop_is_refused_and_the_actor_ends(
    system: SeededSystem, bystander: list[str], failures: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(player(log, {"stop": spawns(player(log), "late")}), "a")
    system.run_until_idle()

    ref.stop()

    assert failures == [SpawnRefusedError.__name__]
    assert log == ["a start", "a stop"]
    assert system.cells.living_paths() == ["/user/bystander"]


def test_a_top_level_spawn_from_post_stop_outlives_its_spawner(system: SeededSystem) -> None:
    log: list[str] = []
    heir = player(log)
    ref = system.spawn(player(log, {"stop": lambda context: context.spawn_top_level(heir, "heir")}), "a")
    system.run_until_idle()

    ref.stop()
    system.run_until_idle()

    assert log == ["a start", "a stop", "heir start"]


def test_a_spawn_while_the_system_terminates_is_refused() -> None:
    log: list[str] = []
    refused: list[BaseException] = []

    def try_to_leave_an_heir(context: ActorContext) -> None:
        with pytest.raises(SpawnRefusedError) as refusal:
            context.spawn_top_level(player(log), "heir")
        refused.append(refusal.value)

    with SeededSystem(3) as system:
        system.spawn(player(log, {"stop": try_to_leave_an_heir}), "a")
        system.run_until_idle()

    assert log == ["a start", "a stop"]
    assert len(refused) == 1


@pytest.mark.parametrize("kind", ["seeded", "threaded"])
def test_a_system_terminated_twice_ends_once(kind: str) -> None:
    system = SeededSystem(1) if kind == "seeded" else ActorSystem("twice")
    ends: list[ActorTerminated] = []
    log: list[str] = []
    system.event_stream.subscribe(ends.append, ActorTerminated)
    system.spawn(player(log), "a")

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
    ref = system.spawn(player(log, {"end": lambda context: context.system.terminate()}), "a")

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
def test_an_actor_that_waits_for_its_own_end_is_told_at_once(kind: str, wait: Deed) -> None:
    system = SeededSystem(1) if kind == "seeded" else ActorSystem("impatient")
    failures: list[str] = []
    system.event_stream.subscribe(lambda event: failures.append(event.failure.type_name), ActorFailed)
    ref = system.spawn(player([], {"wait": wait}), "a")

    try:
        with pytest.raises(AskFailedError, match=WaitInTurnError.__name__):
            ref.ask(says("wait"), timeout=5)
    finally:
        system.terminate().wait(timeout=5)

    assert failures == [WaitInTurnError.__name__]
