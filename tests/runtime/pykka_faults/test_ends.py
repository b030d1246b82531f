"""Actors end once and in order, notify every watcher, and never keep the process alive."""

from __future__ import annotations

import subprocess
import sys

import pykka
import pytest
from pykka import ActorRegistry

from flykka.runtime.errors import ActorDeadError, TerminationTimeoutError
from flykka.runtime.events import ActorTerminated, EndReason
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from tests.runtime.pykka_faults.conftest import Play, Stage
from tests.runtime.pykka_faults.stock import LONG_ENOUGH, Gate, raises
from tests.runtime.scripted_actors import in_turn, replies, says, scripted_actor


def test_p5_a_slow_actor_does_not_prevent_others_from_stopping(stage: Stage) -> None:
    gate = Gate()
    quick, slow = stage(), stage({"hold": gate.hold})
    slow.ref.tell("hold")
    with pytest.raises(pykka.Timeout):
        ActorRegistry.stop_all(timeout=0.01)
    assert quick.ref.is_alive()
    assert quick.ref.actor_inbox.empty(), "nobody has even told it"
    gate.open()

    gates = {"slow1": Gate(), "slow2": Gate()}
    system = ActorSystem("slow")
    ours_quick = [system.spawn(scripted_actor([]), f"quick{number}") for number in range(2)]
    for name, gate in gates.items():
        system.spawn(scripted_actor([], {"hold": gate.hold}).with_dispatcher("pinned"), name).tell(says("hold"))
        gate.wait_reached()
    terminated = system.terminate()
    for ref in ours_quick:
        assert ref.actor_stopped.wait(LONG_ENOUGH)
    with pytest.raises(TerminationTimeoutError) as late:
        terminated.wait(timeout=0.01)

    assert late.value.stragglers == ("/user/slow1", "/user/slow2")
    for gate in gates.values():
        gate.open()
    assert terminated.wait(timeout=LONG_ENOUGH)


def test_p8_resources_are_closed_even_if_the_start_fails(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    gate = Gate()
    unstarted = stage({"start": lambda _: (gate.hold(), raises(ValueError("cannot start"))(None))})
    failing = stage({"fail": raises(ValueError("as scripted"))})
    assert unstarted.ref.is_alive(), "start() has returned the ref of an actor that will never handle a message"
    gate.open()
    unstarted.wait_thread_ended()
    failing.ref.tell("fail")
    failing.wait_thread_ended()
    assert unstarted.log == ["start"]
    assert "stop" not in failing.log

    log: list[str] = []
    ours_unstarted = threaded.spawn(ours(log, {"start": raises(ValueError("cannot start"))}), "unstarted")
    ours_failing = threaded.spawn(ours(log, {"fail": raises(ValueError("as scripted")), "r": replies}), "failing")
    ours_failing.tell(says("fail"))
    with pytest.raises(ActorDeadError):
        ours_unstarted.ask(says("q"), timeout=LONG_ENOUGH)
    ours_failing.ask(says("r"), timeout=LONG_ENOUGH)
    ours_failing.stop(timeout=LONG_ENOUGH)

    assert [line for line in log if line.startswith("unstarted")] == ["unstarted start", "unstarted stop"]
    assert [line for line in log if line.startswith("failing")] == [
        f"failing {what}" for what in ("start", "fail", "stop", "restart", "r", "stop")
    ]


def test_p9_an_actor_is_alive_until_its_last_hook_has_run(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    alive: list[bool] = []
    stock = stage({"stop": lambda actor: alive.append(actor.actor_ref.is_alive())})
    stock.ref.stop()
    assert alive == [False]

    log: list[str] = []
    script = {
        "start": lambda context: context.spawn(ours(log), "child"),
        "stop": lambda context: log.append(f"a is alive: {context.ref.is_alive()}"),
        "r": replies,
    }
    watched = threaded.spawn(ours(log, script), "a")
    watching = {"start": lambda context: context.watch(watched), "r": replies}
    watcher = threaded.spawn(ours(log, watching), "watcher")
    for ref in (watcher, watched):
        ref.ask(says("r"), timeout=LONG_ENOUGH)
    log.clear()
    watched.stop(timeout=LONG_ENOUGH)
    _hear_of_ends(watcher)

    assert watcher.is_alive()
    assert not watched.is_alive()
    heard = [line for line in log if line != "watcher r"]
    assert heard == ["child stop", "a stop", "a is alive: True", "watcher sees the end of /user/a"]


def _hear_of_ends(watcher: ActorRef) -> None:
    """Wait until the watcher has handled all ends so far. Its turn for the first ask may precede them."""
    for _ in range(2):
        watcher.ask(says("r"), timeout=LONG_ENOUGH)


def test_p10_a_thread_that_stops_an_actor_waits_for_its_last_hook(
    threaded: ActorSystem, stage: Stage, ours: Play
) -> None:
    gate = Gate()
    stock = stage({"stop": gate.hold})
    first = stock.ref.stop(block=False)
    gate.wait_reached()
    assert stock.ref.stop(timeout=LONG_ENOUGH) is False
    assert stock.thread is not None
    assert stock.thread.is_alive(), "the second stop() has returned, and the hook still runs"
    gate.open()
    first.get(timeout=LONG_ENOUGH)

    gate = Gate()
    ref = threaded.spawn(ours([], {"stop": gate.hold}), "a")
    several = [ref.stop(block=False) for _ in range(3)]
    gate.wait_reached()
    several.append(ref.stop(block=False))
    assert not any(stopped.done() for stopped in several)
    gate.open()

    assert [stopped.get(timeout=LONG_ENOUGH) for stopped in several] == [True] * 4


THEIRS_OUTLIVES = """
import os, threading, pykka
class Stock(pykka.ThreadingActor):
    def on_receive(self, message):
        threading.main_thread().join()
        print("the main thread has ended", flush=True)
        os._exit(3)
Stock.start().tell("x")
"""

OURS_ENDS = """
import threading
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
reached = threading.Event()
class Blocking(Actor):
    def pre_start(self):
        reached.set()
        threading.Event().wait()
system = ActorSystem("left behind")
system.spawn(Props(Blocking), "pooled")
system.spawn(Props(Blocking).with_dispatcher("pinned"), "pinned")
reached.wait()
"""


@pytest.mark.slow
def test_p22_no_actor_keeps_the_interpreter_alive() -> None:
    theirs, ours = (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
        for script in (THEIRS_OUTLIVES, OURS_ENDS)
    )

    assert (theirs.returncode, theirs.stdout) == (3, "the main thread has ended\n")
    assert ours.returncode == 0
    assert "exits before actor system left behind has ended; it waits for: /user/pinned, /user/pooled" in ours.stderr


def test_p28_the_end_of_every_actor_is_published(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    stock = stage({"start": raises(ValueError("cannot start"))})
    stock.wait_thread_ended()
    assert stock.log == ["start"], "no hook, no message, no event: only a line in the log"

    ends: list[tuple[str, EndReason]] = []
    threaded.event_stream.subscribe(lambda end: ends.append((end.ref.path, end.reason)), ActorTerminated)
    log: list[str] = []
    parts = {
        "stopped": {"start": lambda context: context.stop()},
        "unstarted": {"start": raises(ValueError("cannot start"))},
        "killed": {},
    }
    refs = {name: threaded.spawn(ours([], script), name) for name, script in parts.items()}
    watch_all = in_turn(*(lambda context, ref=ref: context.watch(ref) for ref in refs.values()))
    watcher = threaded.spawn(ours(log, {"start": watch_all, "r": replies}), "watcher")
    watcher.ask(says("r"), timeout=LONG_ENOUGH)
    threaded.kill(refs["killed"])
    for ref in refs.values():
        assert ref.actor_stopped.wait(LONG_ENOUGH)
    _hear_of_ends(watcher)

    assert sorted(ends) == [
        ("/user/killed", EndReason.KILLED),
        ("/user/stopped", EndReason.STOPPED),
        ("/user/unstarted", EndReason.STOPPED),
    ]
    assert {f"watcher sees the end of {path}" for path, _ in ends} < set(log)
