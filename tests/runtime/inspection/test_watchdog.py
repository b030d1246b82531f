"""The watchdog reports the actor that blocks a shared thread, and the line at which it blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.inspection.watchdog import SlowTurn, Watchdog
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import says, scripted_actor


class Gate:
    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def hold(self, _context: object = None) -> None:
        self.reached.set()
        assert self._open.wait(5)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def slow_turns(threaded: ActorSystem) -> list[SlowTurn]:
    seen: list[SlowTurn] = []
    threaded.event_stream.subscribe(seen.append, SlowTurn)
    return seen


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def watchdog(threaded: ActorSystem) -> Iterator[Watchdog]:
    """A watchdog that checks only on demand and has a threshold of one hour."""
    watchdog = Watchdog(threaded, 3_600_000)
    yield watchdog
    watchdog.close()


HOUR = 3_600.0


def test_a_blocking_turn_is_reported_with_its_stack(caplog: pytest.LogCaptureFixture, gate: Gate) -> None:
    slow: SimpleQueue[SlowTurn] = SimpleQueue()
    with ActorSystem("watched", slow_turn_threshold="20ms") as system:
        system.event_stream.subscribe(slow.put, SlowTurn)
        ref = system.spawn(scripted_actor([], {"x": gate.hold}), "a")

        ref.tell(says("x"))
        first = slow.get(timeout=5)
        gate.open()

    assert (first.ref, first.handles) == (ref, "Say")
    assert first.elapsed_ms >= 20
    assert first.thread.startswith("flykka-dispatcher-")
    assert "in hold" in first.stack
    assert "cell.py" not in first.stack
    assert "/user/a#1 has been handling Say for" in caplog.text


def test_a_blocking_turn_is_reported_at_increasing_intervals(
    threaded: ActorSystem, slow_turns: list[SlowTurn], gate: Gate, watchdog: Watchdog
) -> None:
    threaded.spawn(scripted_actor([], {"x": gate.hold}), "a").tell(says("x"))
    assert gate.reached.wait(5)

    for hour in range(18):
        watchdog.check_threads(hour * HOUR)

    assert [round(turn.elapsed_ms / 3_600_000) for turn in slow_turns] == [1, 2, 4, 8, 16]


def test_many_short_turns_are_not_reported_as_slow(
    threaded: ActorSystem, slow_turns: list[SlowTurn], watchdog: Watchdog
) -> None:
    gates = [Gate(), Gate()]
    ref = threaded.spawn(scripted_actor([], {"0": gates[0].hold, "1": gates[1].hold}), "a")
    ref.tell(says("0"))
    ref.tell(says("1"))

    for hour, gate in enumerate(gates):
        assert gate.reached.wait(5)
        watchdog.check_threads(hour * HOUR)
        gate.open()

    assert slow_turns == []


def test_a_pinned_actor_that_blocks_is_not_reported(
    threaded: ActorSystem, slow_turns: list[SlowTurn], gate: Gate, watchdog: Watchdog
) -> None:
    threaded.spawn(scripted_actor([], {"x": gate.hold}).with_dispatcher("pinned"), "a").tell(says("x"))
    assert gate.reached.wait(5)

    for hour in range(3):
        watchdog.check_threads(hour * HOUR)

    assert slow_turns == []


def test_a_pinned_actor_declared_as_nonblocking_is_reported(
    threaded: ActorSystem, slow_turns: list[SlowTurn], gate: Gate, watchdog: Watchdog
) -> None:
    threaded.spawn(scripted_actor([], {"x": gate.hold}).with_dispatcher("pinned", may_block=False), "a").tell(says("x"))
    assert gate.reached.wait(5)

    for hour in range(2):
        watchdog.check_threads(hour * HOUR)

    assert [(turn.ref.path, turn.thread) for turn in slow_turns] == [("/user/a", "flykka-pinned-/user/a#1")]
    assert "in hold" in slow_turns[0].stack


def test_a_watchdog_ignores_actors_of_other_systems(threaded: ActorSystem, gate: Gate) -> None:
    with ActorSystem("other", slow_turn_threshold=None) as other:
        reports: list[SlowTurn] = []
        other.event_stream.subscribe(reports.append, SlowTurn)
        watchdog = Watchdog(other, 3_600_000)
        threaded.spawn(scripted_actor([], {"x": gate.hold}), "a").tell(says("x"))
        assert gate.reached.wait(5)

        for hour in range(3):
            watchdog.check_threads(hour * HOUR)

        watchdog.close()
        assert reports == []


def test_a_slow_start_is_reported(
    threaded: ActorSystem, slow_turns: list[SlowTurn], gate: Gate, watchdog: Watchdog
) -> None:
    threaded.spawn(scripted_actor([], {"start": gate.hold}), "a")
    assert gate.reached.wait(5)

    for hour in range(2):
        watchdog.check_threads(hour * HOUR)

    assert [turn.handles for turn in slow_turns] == ["Create"]
    assert "in pre_start" in slow_turns[0].stack


def test_a_coroutine_that_blocks_the_loop_is_reported(
    threaded: ActorSystem, slow_turns: list[SlowTurn], gate: Gate, watchdog: Watchdog
) -> None:
    class Blocking(Actor):
        async def handle_message(self, message: Message) -> None:
            gate.hold()

    threaded.spawn(Props(Blocking), "a").tell(says("x"))
    assert gate.reached.wait(5)

    for hour in range(2):
        watchdog.check_threads(hour * HOUR)

    assert [(turn.ref.path, turn.handles, turn.thread) for turn in slow_turns] == [("/user/a", "Say", "flykka-loop")]


def watchdogs(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"flykka-watchdog-{name}"]


def test_a_threaded_system_runs_a_watchdog_until_it_terminates() -> None:
    with ActorSystem("watched-until-its-end"):
        (watchdog,) = watchdogs("watched-until-its-end")

    watchdog.join(5)
    assert not watchdog.is_alive()


def test_the_watchdog_is_optional_and_absent_in_a_seeded_system() -> None:
    with ActorSystem("not-watched", slow_turn_threshold=None), SeededSystem(name="seeded-not-watched"):
        assert watchdogs("not-watched") == []
        assert watchdogs("seeded-not-watched") == []


def test_an_actor_may_subscribe_to_slow_turns(threaded: ActorSystem, gate: Gate, watchdog: Watchdog) -> None:
    heard = threading.Event()

    class Listener(Actor):
        def pre_start(self) -> None:
            self.context.system.event_stream.subscribe(self.context.ref, SlowTurn)
            ready.set()

        def handle_message(self, message: Message) -> None:
            assert isinstance(message, SlowTurn)
            heard.set()

    ready = threading.Event()
    threaded.spawn(Props(Listener), "listener")
    assert ready.wait(5)
    threaded.spawn(scripted_actor([], {"x": gate.hold}), "a").tell(says("x"))
    assert gate.reached.wait(5)

    for hour in range(2):
        watchdog.check_threads(hour * HOUR)

    assert heard.wait(5)
