"""A failure affects only the actor that failed, however its message was sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pykka
import pytest

from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskCycleError, AskFailedError
from flykka.runtime.events import ActorFailed, ActorTerminated, EndReason
from flykka.runtime.props import DispatcherName, Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.pykka_faults.conftest import Play, Stage
from tests.runtime.pykka_faults.stock import LONG_ENOUGH, raises
from tests.runtime.scripted_actors import in_turn, replies, says

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def _stops_everybody(stage: Stage, error: BaseException) -> None:
    """Assert that with plain Pykka the bystander dies, and that the asker waits for a thread that has ended."""
    bystander = stage()
    failing = stage({"fail": raises(error)})
    reply = failing.ref.ask("fail", block=False)
    failing.wait_thread_ended()
    assert not bystander.ref.is_alive()
    with pytest.raises(pykka.Timeout):
        reply.get(timeout=0)


def _harms_no_one_else(error: BaseException, ours: Play) -> None:
    """Assert that other flykka actors survive. The system is created after the failure, because its actors are in
    Pykka's registry too.
    """
    with ActorSystem("unharmed") as system:
        bystander = system.spawn(ours([], {"r": replies}), "bystander")
        failing = system.spawn(ours([], {"fail": raises(error), "r": replies}), "failing")

        with pytest.raises(AskFailedError, match=type(error).__name__):
            failing.ask(says("fail"), timeout=LONG_ENOUGH)

        assert bystander.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")
        assert failing.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_p3_a_system_exit_in_a_handler_stops_no_other_actor(stage: Stage, ours: Play, error: BaseException) -> None:
    _stops_everybody(stage, error)
    _harms_no_one_else(error, ours)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), pytest.fail.Exception("outcome")], ids=lambda error: type(error).__name__
)
def test_p4_a_cancelled_task_or_failed_test_stops_no_other_actor(
    stage: Stage, ours: Play, error: BaseException
) -> None:
    _stops_everybody(stage, error)
    _harms_no_one_else(error, ours)


def test_p7_the_supervisor_decides_equally_for_asks_and_tells(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    asked, notified = (stage({"fail": raises(ValueError("as scripted"))}) for _ in range(2))
    with pytest.raises(ValueError, match="as scripted"):
        asked.ref.ask("fail")
    notified.ref.tell("fail")
    notified.wait_thread_ended()
    assert (asked.ref.is_alive(), notified.ref.is_alive()) == (True, False)

    log: list[str] = []
    ours_asked, ours_notified = (
        threaded.spawn(ours(log, {"fail": raises(ValueError("as scripted")), "r": replies}), name)
        for name in ("asked", "notified")
    )
    with pytest.raises(AskFailedError, match="as scripted"):
        ours_asked.ask(says("fail"), timeout=LONG_ENOUGH)
    ours_notified.tell(says("fail"))

    for name, ref in (("asked", ours_asked), ("notified", ours_notified)):
        assert ref.ask(says("r"), timeout=LONG_ENOUGH) == says("reply")
        mine = [line.removeprefix(f"{name} ") for line in log if line.startswith(f"{name} ")]
        assert mine == ["start", "fail", "stop", "restart", "r"]


def test_p20_an_ask_cycle_is_refused_with_its_path(stage: Stage, ours: Play, dispatcher: DispatcherName) -> None:
    stock = stage({"ask yourself": lambda actor: actor.actor_ref.ask("x", timeout=0)})
    with pytest.raises(pykka.Timeout):
        stock.ref.ask("ask yourself", timeout=LONG_ENOUGH)

    for length in (1, 2, 3):
        with SeededSystem(length) if dispatcher == "default" else ActorSystem("threads") as system:
            names = [f"a{number}" for number in range(length)]
            chain: list[str] = []
            for name, asked in zip(names, [*names[1:], names[0]], strict=True):
                script = {"q": in_turn(_asks(f"/user/{asked}", chain), replies)}
                system.spawn(ours([], script), name)
            first = system.find("/user/a0")
            assert first is not None
            first.ask(says("q"))

            around = " -> ".join(f"/user/{name}#1" for name in [names[-1], *names])
            assert chain == [around]


def _asks(path: str, chain: list[str]) -> Callable[[ActorContext], object]:
    def perform(context: ActorContext) -> None:
        asked = context.system.find(path)
        assert asked is not None
        try:
            asked.ask(says("q"))
        except AskCycleError as cycle:
            chain.append(str(cycle))

    return perform


def test_p26_an_actor_is_created_in_its_own_turn_under_its_supervisor(
    threaded: ActorSystem, stage: Stage, dispatcher: DispatcherName
) -> None:
    made_in: list[threading.Thread] = []
    stage({"init": lambda _: made_in.append(threading.current_thread())})
    assert made_in == [threading.current_thread()]
    with pytest.raises(ValueError, match="cannot be made"):
        stage({"init": raises(ValueError("cannot be made"))})

    ends: list[ActorTerminated] = []
    failures: list[str] = []
    threaded.event_stream.subscribe(ends.append, ActorTerminated)
    threaded.event_stream.subscribe(lambda failed: failures.append(failed.failure.message), ActorFailed)
    made_in.clear()

    def factory() -> Actor:
        made_in.append(threading.current_thread())
        raise ValueError("cannot be made")

    ref = threaded.spawn(Props(factory).with_dispatcher(dispatcher), "a")
    assert ref.actor_stopped.wait(LONG_ENOUGH)

    assert made_in[0].name.startswith("flykka-pinned-" if dispatcher == "pinned" else "flykka-dispatcher-")
    assert "cannot be made" in failures[0]
    assert [(end.ref, end.reason) for end in ends] == [(ref, EndReason.STOPPED)]
