"""Behaviour that needs real threads. Each test waits for events, not for fixed times."""

from __future__ import annotations

import threading

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.errors import KernelError, TerminationTimeoutError
from flykka.runtime.events import DeadLetter
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from tests.runtime.scripted_actors import Say, in_turn, replies, says, scripted_actor


def test_messages_between_each_pair_of_actors_arrive_in_order(threaded: ActorSystem) -> None:
    log: list[str] = []
    receiver = threaded.spawn(scripted_actor(log, {"sync": replies}), "r")

    def tells(name: str) -> None:
        for number in range(300):
            receiver.tell(says(f"{name}{number}"))

    threads = [threading.Thread(target=tells, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    receiver.ask(says("sync"), timeout=5)

    for name in "abc":
        assert [line for line in log if line.startswith(f"r {name}")] == [f"r {name}{number}" for number in range(300)]


def test_an_actor_takes_one_turn_at_a_time(threaded: ActorSystem) -> None:
    inside: list[int] = []
    most: list[int] = []

    def count(_context: ActorContext) -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    ref = threaded.spawn(scripted_actor([], {"x": count, "sync": replies}), "a")
    for _ in range(500):
        ref.tell(says("x"))
    ref.ask(says("sync"), timeout=5)

    assert set(most) == {1}


def test_a_pinned_actor_may_block_while_all_others_run(threaded: ActorSystem) -> None:
    free = threading.Event()
    for number in range(6):
        blocked = threaded.spawn(
            scripted_actor([], {"x": lambda _: free.wait(5)}).with_dispatcher("pinned"), f"p{number}"
        )
        blocked.tell(says("x"))

    answer = threaded.spawn(scripted_actor([], {"q": replies}), "a").ask(says("q"), timeout=5)

    assert answer == says("reply")
    free.set()


def test_every_message_to_an_ending_actor_is_handled_or_a_dead_letter(threaded: ActorSystem) -> None:
    log: list[str] = []
    letters: list[DeadLetter] = []
    threaded.event_stream.subscribe(letters.append, DeadLetter)
    ref = threaded.spawn(scripted_actor(log), "a")
    halfway = threading.Event()

    def tells() -> None:
        for number in range(1000):
            ref.tell(says("x"))
            if number == 300:
                halfway.set()

    threads = [threading.Thread(target=tells) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert halfway.wait(5)
    ref.stop(timeout=5)
    for thread in threads:
        thread.join()

    assert log.count("a x") + len(letters) == 2000


def test_every_ask_to_an_ending_actor_has_an_outcome(threaded: ActorSystem) -> None:
    outcomes: list[str] = []
    for number in range(50):
        ref = threaded.spawn(scripted_actor([], {"q": replies}), f"a{number}")
        stopper = threading.Thread(target=lambda ref=ref: ref.stop(block=False))
        stopper.start()
        try:
            outcomes.append(ref.ask(says("q"), timeout=5).text)
        except KernelError as refused:
            outcomes.append(str(refused))
        stopper.join()

    assert len(outcomes) == 50
    assert all(outcome == "reply" or "stopped" in outcome for outcome in outcomes)


def test_a_termination_timeout_names_the_running_actors(caplog: pytest.LogCaptureFixture) -> None:
    stuck, free = threading.Event(), threading.Event()
    system = ActorSystem("slow")
    script = {"x": in_turn(lambda _: stuck.set(), lambda _: free.wait(5))}
    system.spawn(scripted_actor([], script).with_dispatcher("pinned"), "straggler").tell(says("x"))
    system.spawn(scripted_actor([]), "quick")
    assert stuck.wait(5)

    with pytest.raises(TerminationTimeoutError, match="system slow still runs: /user/straggler"):
        system.terminate().wait(timeout=0.05)

    free.set()
    assert system.terminated.wait(timeout=5)


def test_no_thread_keeps_the_interpreter_alive(threaded: ActorSystem) -> None:
    threaded.spawn(scripted_actor([]).with_dispatcher("pinned"), "p")
    probe = TestProbe(threaded)
    script = {
        "start": lambda c: [
            c.timers.start_once("k", 1, says("x")),
            c.pipe_to_self(lambda: 1, lambda _: says("y"), lambda _: says("y")),
        ],
        "x": lambda _: probe.ref.tell(says("x")),
    }
    threaded.spawn(scripted_actor([], script), "a")
    probe.expect_message(Say)

    ours = [thread for thread in threading.enumerate() if thread.name.startswith("flykka-")]

    assert ours
    assert all(thread.daemon for thread in ours)


def test_two_systems_coexist_in_one_process(threaded: ActorSystem) -> None:
    log: list[str] = []
    with ActorSystem("other") as other:
        stranger = other.spawn(scripted_actor(log, {"sync": replies}), "a")
        threaded.spawn(scripted_actor([], {"go": lambda _: stranger.tell(says("hello"))}), "a").ask(
            says("go"), block=False
        )
        threaded.actor_selection("/user/a").tell(says("go"))
        while "a hello" not in log:
            stranger.ask(says("sync"), timeout=5)

    assert threaded.find("/user/a") is not None
