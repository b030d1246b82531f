"""Finite state machines as actors, in virtual time."""

from __future__ import annotations

from enum import StrEnum

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.durations import Duration
from flykka.runtime.errors import ActorInitializationError
from flykka.runtime.events import ActorFailed, UnhandledMessage
from flykka.runtime.patterns.fsm import FSM, Next, StopReason, when
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import StateTimeout
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, says


class Gate(StrEnum):
    LOCKED = "LOCKED"
    OPEN = "OPEN"
    BROKEN = "BROKEN"


class Turnstile(FSM[Gate, int]):
    """A turnstile that a coin opens for at most 100 ms; its data is the number of coins."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.start_with(Gate.LOCKED, 0)

    @when(Gate.LOCKED)
    def locked(self, message: Message) -> Next[Gate, int] | None:
        match message:
            case Say(text="coin"):
                return self.goto(Gate.OPEN).using(self.state_data + 1)
            case Say(text="kick"):
                return self.goto(Gate.BROKEN).for_max("10 ms")
            case Say(text="fail"):
                raise RuntimeError("as the test says")
        return None

    @when(Gate.OPEN, state_timeout="100 ms")
    def open(self, message: Message) -> Next[Gate, int] | None:
        match message:
            case Say(text="push") | StateTimeout():
                return self.goto(Gate.LOCKED)
            case Say(text="coin"):
                return self.stay().using(self.state_data + 1)
            case Say(text="again"):
                return self.goto(Gate.OPEN)
            case Say(text="hold"):
                return self.stay().for_max(None)
        return None

    @when(Gate.BROKEN)
    def broken(self, message: Message) -> Next[Gate, int] | None:
        match message:
            case Say(text="give up"):
                return self.stop(StopReason.FAILURE)
            case Say(text="done"):
                return self.stop().using(99)
            case Say(text="nowhere"):
                return self.goto("NOWHERE")  # type: ignore[arg-type]
        return None

    def on_transition(self, old: Gate, new: Gate) -> None:
        self.log.append(f"{self.context.now()} {old}({self.state_data}) -> {new}({self.next_state_data})")

    def on_termination(self, reason: StopReason, state: Gate, data: int) -> None:
        self.log.append(f"{reason} in {state}({data})")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def ref(system: SeededSystem, log: list[str]) -> ActorRef:
    return system.spawn(Props(Turnstile, log), "turnstile")


BEGUN = "0 LOCKED(0) -> LOCKED(0)"
OPENED = "0 LOCKED(0) -> OPEN(1)"


def tell_all(system: SeededSystem, ref: ActorRef, *texts: str) -> None:
    for text in texts:
        ref.tell(says(text))
    system.run_until_idle()


def test_an_fsm_starts_with_a_transition_into_its_initial_state(
    system: SeededSystem, ref: ActorRef, log: list[str]
) -> None:
    system.run_until_idle()

    assert log == [BEGUN]


def test_the_handler_of_the_current_state_decides_the_next_state(
    system: SeededSystem, ref: ActorRef, log: list[str]
) -> None:
    tell_all(system, ref, "coin", "push", "coin")

    assert log == [BEGUN, OPENED, "0 OPEN(1) -> LOCKED(1)", "0 LOCKED(1) -> OPEN(2)"]


def test_goto_the_current_state_is_a_transition_and_stay_is_not(
    system: SeededSystem, ref: ActorRef, log: list[str]
) -> None:
    tell_all(system, ref, "coin", "coin", "again")

    assert log == [BEGUN, OPENED, "0 OPEN(2) -> OPEN(2)"]


def test_a_state_timeout_fires(system: SeededSystem, ref: ActorRef, log: list[str]) -> None:
    tell_all(system, ref, "coin")
    system.advance(500)

    assert log == [BEGUN, OPENED, "100 OPEN(1) -> LOCKED(1)"]


def test_every_message_restarts_the_state_timeout(system: SeededSystem, ref: ActorRef, log: list[str]) -> None:
    tell_all(system, ref, "coin")
    system.advance(60)
    tell_all(system, ref, "unknown")
    system.advance(60)
    assert log == [BEGUN, OPENED]
    system.advance(60)

    assert log == [BEGUN, OPENED, "160 OPEN(1) -> LOCKED(1)"]


def test_a_state_timeout_can_be_set_or_cancelled_for_one_transition(
    system: SeededSystem, ref: ActorRef, log: list[str]
) -> None:
    unhandled: list[UnhandledMessage] = []
    system.event_stream.subscribe(unhandled.append, UnhandledMessage)

    tell_all(system, ref, "coin", "hold")
    system.advance(500)
    assert log == [BEGUN, OPENED]
    tell_all(system, ref, "coin")
    system.advance(500)
    tell_all(system, ref, "kick")
    system.advance(500)

    assert log[2:] == ["600 OPEN(2) -> LOCKED(2)", "1000 LOCKED(2) -> BROKEN(2)"]
    assert unhandled == []


def test_a_state_timeout_queued_after_another_message_is_dropped(
    system: SeededSystem, ref: ActorRef, log: list[str]
) -> None:
    tell_all(system, ref, "coin")

    ref.tell(says("coin"))
    system.manual_clock.move_to(100)
    system.run_until_idle()
    assert log == [BEGUN, OPENED]
    system.advance(100)

    assert log == [BEGUN, OPENED, "200 OPEN(2) -> LOCKED(2)"]


def test_a_message_without_a_handler_is_unhandled(system: SeededSystem, ref: ActorRef) -> None:
    unhandled: list[UnhandledMessage] = []
    system.event_stream.subscribe(unhandled.append, UnhandledMessage)

    tell_all(system, ref, "push")

    assert unhandled == [UnhandledMessage(message=says("push"), sender=None, recipient=ref)]


@pytest.mark.parametrize(("word", "end"), [("give up", "FAILURE in BROKEN(0)"), ("done", "NORMAL in BROKEN(99)")])
def test_an_fsm_stops_itself_with_a_reason(
    system: SeededSystem, ref: ActorRef, log: list[str], word: str, end: str
) -> None:
    tell_all(system, ref, "kick", word, "coin")

    assert log == [BEGUN, "0 LOCKED(0) -> BROKEN(0)", end]
    assert not ref.is_alive()


def test_on_termination_runs_once_if_an_fsm_is_stopped(system: SeededSystem, ref: ActorRef, log: list[str]) -> None:
    tell_all(system, ref, "coin")

    ref.stop()

    assert log == [BEGUN, OPENED, "SHUTDOWN in OPEN(1)"]
    assert system.manual_clock.next_due() is None


def test_a_restart_resets_the_fsm(system: SeededSystem, ref: ActorRef, log: list[str]) -> None:
    tell_all(system, ref, "coin", "push", "fail")

    assert log[3:] == ["SHUTDOWN in LOCKED(1)", BEGUN]


def test_a_state_without_a_handler_fails_the_fsm(system: SeededSystem, ref: ActorRef, log: list[str]) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)

    tell_all(system, ref, "kick", "nowhere")

    assert failures[0].failure.message == "Turnstile has no handler for the state NOWHERE: mark one with @when"
    assert log[2:] == ["SHUTDOWN in BROKEN(0)", BEGUN]


def test_an_fsm_without_an_initial_state_fails_to_start(system: SeededSystem) -> None:
    failures: list[ActorFailed] = []
    system.event_stream.subscribe(failures.append, ActorFailed)

    class Lost(FSM[Gate, int]):
        """A machine without an initial state."""

    ref = system.spawn(Props(Lost), "lost")
    system.run_until_idle()

    assert failures[0].failure.type_name == ActorInitializationError.__name__
    assert "Lost has no initial state: call start_with in its __init__" in failures[0].failure.message
    assert not ref.is_alive()


def test_two_handlers_for_one_state_are_refused_with_the_class_name() -> None:
    with pytest.raises(TypeError, match="Twice: state OPEN has two handlers, one and two"):

        class Twice(FSM[Gate, int]):
            @when(Gate.OPEN)
            def one(self, message: Message) -> None: ...

            @when(Gate.OPEN)
            def two(self, message: Message) -> None: ...


def test_a_coroutine_handler_is_refused_with_the_class_name() -> None:
    with pytest.raises(TypeError, match="wait is a coroutine function: handlers of a machine return"):

        class Waiting(FSM[Gate, int]):
            @when(Gate.OPEN)
            async def wait(self, message: Message) -> None: ...


def test_one_handler_may_serve_several_states_and_a_subclass_may_replace_it(system: SeededSystem) -> None:
    log: list[str] = []

    class Simple(FSM[Gate, None]):
        def __init__(self) -> None:
            self.start_with(Gate.LOCKED, None)

        @when(Gate.LOCKED)
        @when(Gate.OPEN, state_timeout=10)
        def any(self, message: Message) -> Next[Gate, None]:
            return self.goto(Gate.OPEN)

        def on_transition(self, old: Gate, new: Gate) -> None:
            log.append(new)

    class Other(Simple):
        def any(self, message: Message) -> Next[Gate, None]:
            log.append("replaced")
            return super().any(message)

    system.spawn(Props(Other), "a").tell(says("x"))
    system.advance(15)

    assert log == ["LOCKED", "replaced", "OPEN", "replaced", "OPEN"]


@pytest.mark.parametrize("timeout", [0, "soon"])
def test_a_state_timeout_must_be_a_positive_duration(timeout: Duration) -> None:
    with pytest.raises(ValueError, match="state timeout"):
        when(Gate.OPEN, state_timeout=timeout)


def test_next_state_data_is_available_only_during_a_transition(threaded: ActorSystem) -> None:
    with pytest.raises(LookupError, match="available only in on_transition"):
        _ = Turnstile([]).next_state_data


def test_a_named_timer_does_not_collide_with_the_state_timeout(system: SeededSystem) -> None:
    heard: list[Message] = []

    class Waiting(FSM[Gate, int]):
        def __init__(self) -> None:
            self.start_with(Gate.OPEN, 0)

        def pre_start(self) -> None:
            super().pre_start()
            self.context.timers.start_once("state_timeout", 50, says("ring"))

        @when(Gate.OPEN, state_timeout=100)
        def open(self, message: Message) -> Next[Gate, int]:
            heard.append(message)
            return self.stay().for_max(None) if isinstance(message, StateTimeout) else self.stay()

    system.spawn(Props(Waiting), "w")
    system.advance(1000)

    assert heard == [says("ring"), StateTimeout()]
