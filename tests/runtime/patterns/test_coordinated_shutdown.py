"""Coordinated shutdown stops a system in phases."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from flykka.runtime.dispatch.dispatcher import Runnable
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.errors import ShutdownBegunError, TerminationTimeoutError
from flykka.runtime.futures.future import Future
from flykka.runtime.patterns.coordinated_shutdown import (
    BEFORE_ACTOR_SYSTEM_TERMINATE,
    BEFORE_SERVICE_UNBIND,
    SERVICE_REQUESTS_DONE,
    SERVICE_STOP,
    SERVICE_UNBIND,
    ShutdownReason,
)
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.time.manual_clock import ManualClock
from tests.runtime.scripted_actors import replies, says, scripted_actor

PHASES = [
    BEFORE_SERVICE_UNBIND,
    SERVICE_UNBIND,
    SERVICE_REQUESTS_DONE,
    SERVICE_STOP,
    BEFORE_ACTOR_SYSTEM_TERMINATE,
]


def notes(log: list[str], what: str) -> Callable[[], None]:
    return lambda: log.append(what)


def test_phases_run_in_order_and_actors_stop_last() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    system.spawn(scripted_actor(log), "a")
    system.run_until_idle()
    for phase in reversed(PHASES):
        system.coordinated_shutdown.add_task(phase, "note", notes(log, phase))

    system.terminate().wait(timeout=1)

    assert log == ["a start", *PHASES, "a stop"]
    assert system.coordinated_shutdown.reason == ShutdownReason.ACTOR_SYSTEM_TERMINATE


def test_the_tasks_of_a_phase_run_concurrently(threaded: ActorSystem) -> None:
    together = threading.Barrier(3)
    met: list[int] = []
    for name in "abc":
        threaded.coordinated_shutdown.add_task(SERVICE_STOP, name, lambda: met.append(together.wait(5)))

    threaded.terminate().wait(timeout=5)

    assert sorted(met) == [0, 1, 2]


def test_actors_still_work_while_the_tasks_run() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    ref = system.spawn(scripted_actor(log, {"q": replies}), "a")
    system.coordinated_shutdown.add_task(SERVICE_REQUESTS_DONE, "ask", lambda: ref.ask(says("q"), block=False))
    system.coordinated_shutdown.add_task(SERVICE_STOP, "note", notes(log, "next phase"))

    system.terminate().wait(timeout=1)

    assert log == ["a start", "a q", "next phase", "a stop"]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_raising_shutdown_task_is_named_and_the_others_run(
    caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    def broken() -> None:
        raise error("broken")

    log: list[str] = []
    system = SeededSystem(1)
    system.coordinated_shutdown.add_task(SERVICE_UNBIND, "broken", broken)
    system.coordinated_shutdown.add_task(SERVICE_UNBIND, "beside", notes(log, "beside"))
    system.coordinated_shutdown.add_task(SERVICE_STOP, "behind", notes(log, "behind"))

    system.terminate().wait(timeout=1)

    assert log == ["beside", "behind"]
    assert "shutdown task 'broken' of phase 'service-unbind' failed; the shutdown continues" in caplog.text
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["broken"]


def test_a_failing_future_of_a_shutdown_task_is_named(caplog: pytest.LogCaptureFixture) -> None:
    failed: Future[None] = Future()
    failed.try_fail(lambda: ConnectionError("gone"))
    system = SeededSystem(1)
    system.coordinated_shutdown.add_task(SERVICE_UNBIND, "say goodbye", lambda: failed)

    system.terminate().wait(timeout=1)

    assert "shutdown task 'say goodbye' of phase 'service-unbind' failed" in caplog.text
    assert "gone" in caplog.text


def test_a_timed_out_shutdown_task_is_named_and_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    system = SeededSystem(1)
    never: Future[None] = Future(system.driver)
    system.coordinated_shutdown.add_task(SERVICE_UNBIND, "never", lambda: never, timeout="2s")
    system.coordinated_shutdown.add_task(SERVICE_UNBIND, "never either", lambda: never)
    system.coordinated_shutdown.add_task(SERVICE_STOP, "behind", notes(log, "behind"))

    system.terminate()
    system.advance(4_999)
    assert log == []
    assert system.coordinated_shutdown.pending() == ["shutdown task 'never either' of phase 'service-unbind'"]
    system.advance(1)

    assert log == ["behind"]
    assert (
        "shutdown task 'never' of phase 'service-unbind' has not ended within 2.0 s; the shutdown continues"
        in caplog.text
    )
    assert system.terminated.wait(timeout=0)


def test_a_blocking_shutdown_task_is_abandoned(threaded: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    free = threading.Event()
    threaded.coordinated_shutdown.add_task(SERVICE_UNBIND, "stuck", lambda: free.wait(5), timeout="20ms")

    threaded.terminate().wait(timeout=5)

    assert "shutdown task 'stuck' of phase 'service-unbind' has not ended within 20 ms" in caplog.text
    free.set()


def test_coordinated_shutdown_runs_once() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    system.coordinated_shutdown.add_task(SERVICE_STOP, "note", notes(log, "once"))

    first = system.terminate()
    second = system.coordinated_shutdown.run("again")
    first.wait(timeout=1)
    system.terminate().wait(timeout=1)

    assert first is second
    assert log == ["once"]
    assert system.coordinated_shutdown.reason == ShutdownReason.ACTOR_SYSTEM_TERMINATE


def test_an_actor_may_start_and_take_part_in_a_coordinated_shutdown() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    ref = system.spawn(scripted_actor(log, {"end": lambda context: context.system.terminate(), "q": replies}), "a")
    system.coordinated_shutdown.add_task(SERVICE_STOP, "ask", lambda: ref.ask(says("q"), block=False))

    ref.tell(says("end"))

    assert system.terminated.wait(timeout=1)
    assert log == ["a start", "a end", "a q", "a stop"]


def test_an_actor_is_stopped_in_the_phase_of_its_choice() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    polite = system.spawn(scripted_actor(log, {"close": lambda context: context.stop()}), "polite")
    plain = system.spawn(scripted_actor(log), "plain")
    system.run_until_idle()
    shutdown = system.coordinated_shutdown
    shutdown.add_actor_termination_task(SERVICE_UNBIND, "polite", polite, says("close"))
    shutdown.add_task(SERVICE_REQUESTS_DONE, "note", notes(log, "in between"))
    shutdown.add_actor_termination_task(SERVICE_STOP, "plain", plain)
    log.clear()

    system.terminate().wait(timeout=1)

    assert log == ["polite close", "polite stop", "in between", "plain stop"]


def test_a_shutdown_task_may_be_removed_and_may_add_another() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    shutdown = system.coordinated_shutdown
    shutdown.add_task(SERVICE_STOP, "not this", notes(log, "not this"))()
    shutdown.add_task(SERVICE_UNBIND, "adds", lambda: shutdown.add_task(SERVICE_STOP, "later", notes(log, "later")))

    system.terminate().wait(timeout=1)

    assert log == ["later"]


def test_a_shutdown_task_added_too_late_is_refused() -> None:
    system = SeededSystem(1)
    system.terminate().wait(timeout=1)

    with pytest.raises(ShutdownBegunError, match="task 'x' was added too late: phase 'service-stop' has started"):
        system.coordinated_shutdown.add_task(SERVICE_STOP, "x", int)


def test_a_task_for_an_unknown_phase_is_refused(system: SeededSystem) -> None:
    with pytest.raises(
        ValueError, match="for phase 'sevice-stop', which is not one of before-service-unbind, service-"
    ):
        system.coordinated_shutdown.add_task("sevice-stop", "x", int)


def test_a_timed_out_termination_names_the_running_shutdown_task() -> None:
    system = SeededSystem(1)
    never: Future[None] = Future(system.driver)
    system.coordinated_shutdown.add_task(SERVICE_UNBIND, "drain", lambda: never, timeout="1 min")

    with pytest.raises(TerminationTimeoutError, match="still runs: shutdown task 'drain' of phase 'service-unbind'"):
        system.terminate().wait(timeout=1)


def test_a_killed_guardian_counts_as_a_crash_and_runs_no_shutdown_task() -> None:
    log: list[str] = []
    system = SeededSystem(1)
    system.coordinated_shutdown.add_task(SERVICE_STOP, "note", notes(log, "x"))

    system.kill(system.user.ref)
    system.run_until_idle()

    assert system.terminated.done()
    assert system.terminate().wait(timeout=0)
    assert log == []


class Exhausted(SeededDispatcher):
    """A dispatcher that cannot start threads, as during interpreter exit."""

    def run_blocking(self, work: Runnable) -> None:
        raise RuntimeError("can't start new thread")


def test_actors_stop_even_if_no_shutdown_task_can_start(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    system = ActorSystem("exhausted", dispatcher=Exhausted(1, ManualClock()))
    system.spawn(scripted_actor(log), "a")
    for phase in (SERVICE_UNBIND, SERVICE_STOP):
        system.coordinated_shutdown.add_task(phase, "note", notes(log, "task"))

    system.terminate().wait(timeout=1)

    assert log == ["a start", "a stop"]
    assert "shutdown task 'note' of phase 'service-stop' could not start" in caplog.text


LEFT_BEHIND = """
from flykka.runtime.actor import Actor
from flykka.runtime.patterns.coordinated_shutdown import SERVICE_STOP
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.record.recorder import TraceRecorder

class Polite(Actor):
    def pre_start(self):
        print("start", flush=True)
    def post_stop(self):
        print("stop", flush=True)

for name in ("one", "two"):
    system = ActorSystem(name, recorder=TraceRecorder(f"{name}.trace"))
    system.spawn(Props(Polite), "a")
    system.coordinated_shutdown.add_task(SERVICE_STOP, "note", lambda: print("task", flush=True))
"""


@pytest.mark.slow
def test_unterminated_systems_are_shut_down_at_interpreter_exit(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    folder = tmp_path_factory.mktemp("exit")
    environment = {"PYTHONPATH": str(pytestconfig.rootpath)}

    ended = subprocess.run(
        [sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, timeout=60, cwd=folder, env=environment
    )

    lines = ended.stdout.split()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(lines) == sorted(["start", "task", "stop"] * 2)
    assert set(lines[-2:]) <= {"stop", "task"}
    # The recording ends after all actors have stopped, and contains the stop of each.
    assert all(b"kernel.stop" in (folder / f"{name}.trace").read_bytes() for name in ("one", "two"))
