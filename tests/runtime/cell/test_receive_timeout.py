"""The receive timeout, in virtual time. A queued timeout message is dropped if another message has arrived in the
meantime.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message, NotInfluenceReceiveTimeout, message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.dispatch.seeded import SeededDispatcher
from flykka.runtime.durations import Duration
from flykka.runtime.errors import DurationError
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import ReceiveTimeout
from flykka.runtime.supervision import OneForOne
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.time.backoff import Backoff
from flykka.runtime.time.clock import Alarm
from flykka.runtime.time.manual_clock import ManualClock
from flykka.runtime.trace.effects import SetReceiveTimeout
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import Deed, Say, fails, says, scripted_actor


@message("test.heartbeat")
class Heartbeat(NotInfluenceReceiveTimeout):
    """test -> sleeper: a heartbeat that does not restart the receive timeout."""


class Sleeper(Actor):
    """Logs each word with its time, and performs the scripted action for a word, `start` or `restart`."""

    def __init__(self, log: list[str], script: dict[str, Deed]) -> None:
        self.log = log
        self.script = script

    def pre_start(self) -> None:
        self.script.get("start", lambda _: None)(self.context)

    def post_restart(self, cause: BaseException | None) -> None: ...

    def handle_message(self, message: Message) -> None:
        text = message.text if isinstance(message, Say) else type(message).__name__
        self.log.append(f"{self.context.now()} {text}")
        self.script.get(text, lambda _: None)(self.context)


def timeout_of(timeout: Duration | None) -> Deed:
    return lambda context: context.set_receive_timeout(timeout)


def sleeper(system: ActorSystem, log: list[str], **script: Deed) -> ActorRef:
    return system.spawn(Props(Sleeper, log, {"start": timeout_of("100 ms"), **script}), "sleeper")


def test_the_receive_timeout_fires_after_each_idle_period(system: SeededSystem) -> None:
    log: list[str] = []
    sleeper(system, log)

    system.advance(250)

    assert log == ["100 ReceiveTimeout", "200 ReceiveTimeout"]


def test_every_message_restarts_the_receive_timeout(system: SeededSystem) -> None:
    log: list[str] = []
    ref = sleeper(system, log)

    for _ in range(4):
        system.advance(60)
        ref.tell(says("x"))
    system.advance(150)

    assert log == ["60 x", "120 x", "180 x", "240 x", "340 ReceiveTimeout"]


def test_marked_messages_do_not_restart_the_receive_timeout(system: SeededSystem) -> None:
    log: list[str] = []
    ref = sleeper(system, log)

    for _ in range(3):
        system.advance(40)
        ref.tell(Heartbeat())
    system.run_until_idle()

    assert log == ["40 Heartbeat", "80 Heartbeat", "100 ReceiveTimeout", "120 Heartbeat"]


def test_a_timeout_queued_after_another_message_is_dropped(system: SeededSystem) -> None:
    log: list[str] = []
    ref = sleeper(system, log)
    system.advance(99)

    ref.tell(says("x"))
    system.manual_clock.move_to(100)  # The alarm fires while the word is queued.
    system.advance(150)

    assert log == ["100 x", "200 ReceiveTimeout"]


def test_handling_a_message_creates_no_additional_alarm(system: SeededSystem) -> None:
    ref = sleeper(system, [])
    system.run_until_idle()
    alarms = len(system.manual_clock._alarms)

    for _ in range(100):
        ref.tell(says("x"))
    system.run_until_idle()

    assert len(system.manual_clock._alarms) == alarms


def test_the_receive_timeout_can_be_changed_and_turned_off(system: SeededSystem) -> None:
    log: list[str] = []
    ref = sleeper(system, log, longer=timeout_of(timedelta(milliseconds=300)), off=timeout_of(None))

    system.advance(50)
    ref.tell(says("longer"))
    system.advance(300)
    ref.tell(says("off"))
    system.advance(1000)

    assert log == ["50 longer", "350 ReceiveTimeout", "350 off"]
    assert system.manual_clock.next_due() is None


def test_a_queued_timeout_is_dropped_after_the_timeout_is_turned_off(system: SeededSystem) -> None:
    log: list[str] = []

    def turn_off(context: ActorContext) -> None:
        system.manual_clock.move_to(100)
        context.set_receive_timeout(None)

    sleeper(system, log, off=turn_off).tell(says("off"))
    system.advance(500)

    assert log == ["0 off"]


def test_a_restart_keeps_the_receive_timeout_as_in_akka(system: SeededSystem) -> None:
    log: list[str] = []

    ref = sleeper(system, log, fail=fails)
    system.advance(50)
    ref.tell(says("fail"))
    system.advance(100)
    ref.tell(says("x"))
    system.advance(100)

    assert log == ["50 fail", "150 ReceiveTimeout", "150 x", "250 ReceiveTimeout"]


def test_the_backoff_delay_of_a_restart_does_not_count_as_idle_time(system: SeededSystem) -> None:
    log: list[str] = []
    script: dict[str, Deed] = {"start": timeout_of("100 ms"), "fail": fails}
    delay = OneForOne(backoff=Backoff(min_backoff="500 ms", max_backoff="500 ms", random_factor=0))
    born: list[ActorRef] = []
    child = Props(Sleeper, log, script)
    system.spawn(scripted_actor([], {"start": lambda context: born.append(context.spawn(child, "c"))}, delay), "parent")
    system.advance(50)

    born[0].tell(says("fail"))
    system.advance(700)

    assert log == ["50 fail", "650 ReceiveTimeout", "750 ReceiveTimeout"]


def test_the_receive_timeout_survives_become(system: SeededSystem) -> None:
    log: list[str] = []

    def become(context: ActorContext) -> None:
        context.become(lambda message: log.append(f"other {type(message).__name__}"))

    ref = sleeper(system, log, become=become)
    ref.tell(says("become"))
    system.advance(60)
    ref.tell(says("x"))
    system.advance(60)
    assert log == ["0 become", "other Say"]
    system.advance(40)

    assert log == ["0 become", "other Say", "other ReceiveTimeout"]


def test_a_stashed_receive_timeout_is_unstashed(system: SeededSystem) -> None:
    log: list[str] = []
    ref = sleeper(
        system, log, ReceiveTimeout=lambda context: context.stash(), back=lambda context: context.unstash_all()
    )
    system.advance(100)
    ref.tell(says("back"))
    system.run_until_idle()

    assert log == ["100 ReceiveTimeout", "100 back", "100 ReceiveTimeout"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_actor_that_has_ended_leaves_no_alarm(system: SeededSystem, end: str) -> None:
    ref = sleeper(system, [])
    system.run_until_idle()

    ref.stop() if end == "stop" else system.kill(ref)

    assert system.manual_clock.next_due() is None


def test_an_actor_killed_during_its_turn_sets_no_timeout(system: SeededSystem) -> None:
    def die(context: ActorContext) -> None:
        system.kill(context.ref)
        context.set_receive_timeout(5)

    sleeper(system, [], die=die).tell(says("die"))
    system.run_until_idle()

    assert system.manual_clock.next_due() is None


class LethalClock(ManualClock):
    """A clock that kills an actor whenever an alarm is set."""

    kill_victim: Callable[[], None] = staticmethod(lambda: None)

    def schedule(self, due_ms: int, callback: Callable[[], object]) -> Alarm:
        self.kill_victim()
        return super().schedule(due_ms, callback)


def test_an_actor_killed_while_setting_its_timeout_leaves_no_alarm() -> None:
    clock = LethalClock()
    dispatcher = SeededDispatcher(0, clock)
    system = ActorSystem("seeded", dispatcher=dispatcher)
    ref = sleeper(system, [])
    clock.kill_victim = lambda: system.kill(ref)

    dispatcher.run_until_idle()

    assert not ref.is_alive()
    assert clock.next_due() is None
    system.terminate().wait(5)


@pytest.mark.parametrize("timeout", [0, "0 s", -1, "soon", True])
def test_a_receive_timeout_must_be_a_positive_duration(system: SeededSystem, timeout: Duration) -> None:
    errors: list[DurationError] = []

    def begin(context: ActorContext) -> None:
        with pytest.raises(DurationError, match="receive timeout") as raised:
            context.set_receive_timeout(timeout)
        errors.append(raised.value)

    sleeper(system, [], start=begin)
    system.run_until_idle()

    assert len(errors) == 1


def test_the_receive_timeout_is_recorded(tmp_path: Path) -> None:
    with SeededSystem(recorder=TraceRecorder(tmp_path / "trace")) as system:
        sleeper(system, [], ReceiveTimeout=timeout_of(None))
        system.advance(500)

    turns = [turn for turn in TraceReader.open(tmp_path / "trace").turns if turn.recipient.path == "/user/sleeper"]
    start, timeout = turns[0], turns[1]
    assert start.effects == (SetReceiveTimeout(timeout_ms=100),)
    assert (timeout.kind, timeout.message, timeout.now_ms, timeout.cause) == (
        "timer",
        ReceiveTimeout(),
        100,
        start.sequence,
    )
    assert timeout.effects == (SetReceiveTimeout(timeout_ms=None),)


def test_the_receive_timeout_also_fires_in_real_time(threaded: ActorSystem) -> None:
    probe = TestProbe(threaded)
    heard = probe.ref

    sleeper(threaded, [], start=timeout_of(1), ReceiveTimeout=lambda _: heard.tell(says("silence")))

    for _ in range(3):
        probe.expect_message(Say)
