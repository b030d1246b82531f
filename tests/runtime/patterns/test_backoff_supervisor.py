"""A backoff supervisor restarts its child with growing delays; the ref stays the same."""

from __future__ import annotations

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ActorDeadError, AskFailedError
from flykka.runtime.events import DeadLetter
from flykka.runtime.patterns.backoff_supervisor import (
    BackoffOptions,
    BackoffOpts,
    BackoffSupervisor,
    CurrentChild,
    GetCurrentChild,
    GetRestartCount,
    Reset,
    RestartCount,
)
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.supervision import STOPPING_STRATEGY
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, fails, replies, says, scripted_actor

END = {"end": lambda context: context.stop(), "fail": fails, "q": replies}


def on_stop(log: list[str]) -> BackoffOptions:
    return BackoffOpts.on_stop(scripted_actor(log, END), "c", min_backoff=100, max_backoff=400, random_factor=0)


def on_failure(log: list[str]) -> BackoffOptions:
    return BackoffOpts.on_failure(scripted_actor(log, END), "c", min_backoff=100, max_backoff=400, random_factor=0)


def spawn_supervisor(system: SeededSystem, options: BackoffOptions, log: list[str]) -> ActorRef:
    ref = system.spawn(BackoffSupervisor.props(options), "s")
    system.run_until_idle()
    log.clear()
    return ref


def tell(system: SeededSystem, ref: ActorRef, *words: str) -> None:
    for word in words:
        ref.tell(says(word))
    system.run_until_idle()


def test_messages_reach_the_child_and_replies_reach_the_asker(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log), log)

    reply = ref.ask(says("q"))

    assert reply == says("reply")
    assert log == ["c q"]


def test_the_asker_is_notified_of_the_childs_failure(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log), log)

    with pytest.raises(AskFailedError, match="as scripted"):
        ref.ask(says("fail"))


def test_a_child_that_stops_is_started_again_with_growing_delays(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_manual_reset(), log)
    waits: list[int] = []

    for _ in range(4):
        tell(system, ref, "end")
        log.clear()
        begun = system.clock.now_ms()
        while not log:
            system.advance(10)
        waits.append(system.clock.now_ms() - begun)

    assert waits == [100, 200, 400, 400]
    assert ref.ask(GetRestartCount()) == RestartCount(count=4)


def test_on_stop_failures_are_restarted_by_the_strategy_without_delay(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log), log)

    tell(system, ref, "fail", "hello")

    assert log == ["c fail", "c stop", "c restart", "c hello"]
    assert ref.ask(GetRestartCount()) == RestartCount(count=0)


def test_on_failure_a_failed_child_is_restarted_after_a_delay(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_failure(log), log)

    tell(system, ref, "fail")
    system.advance(99)
    assert log == ["c fail", "c stop"]
    system.advance(1)

    assert log == ["c fail", "c stop", "c start"]


def test_on_failure_the_supervisor_stops_if_its_child_stops(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_failure(log), log)

    tell(system, ref, "end")

    assert not ref.is_alive()


def test_the_strategy_may_stop_a_failed_actor(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_failure(log).with_supervisor_strategy(STOPPING_STRATEGY), log)

    tell(system, ref, "fail")
    system.advance(1_000)

    assert log == ["c fail", "c stop"]
    assert not ref.is_alive()


def test_a_child_that_fails_to_start_is_started_again(system: SeededSystem) -> None:
    tries: list[int] = []

    class Database(Actor):
        def pre_start(self) -> None:
            tries.append(self.context.now())
            if len(tries) < 4:
                raise OSError("connection refused")

    options = BackoffOpts.on_stop(Props(Database), "db", min_backoff=100, max_backoff=1000, random_factor=0)
    ref = system.spawn(BackoffSupervisor.props(options.with_auto_reset("1 min")), "s")
    system.advance(5_000)

    assert tries == [0, 100, 300, 700]
    assert ref.is_alive()


def test_the_delays_are_reset_if_the_child_has_run_long_enough(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_auto_reset(1_000), log)
    tell(system, ref, "end")
    system.advance(100)
    assert ref.ask(GetRestartCount()) == RestartCount(count=1)

    system.advance(1_000)

    assert ref.ask(GetRestartCount()) == RestartCount(count=0)


def test_the_delays_can_be_reset_manually(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_manual_reset(), log)
    tell(system, ref, "end")
    system.advance(60_000)
    assert ref.ask(GetRestartCount()) == RestartCount(count=1)

    ref.tell(Reset())

    assert ref.ask(GetRestartCount()) == RestartCount(count=0)


def test_the_supervisor_stops_after_too_many_consecutive_restarts(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_manual_reset().with_max_retries(2), log)

    for _ in range(3):
        tell(system, ref, "end")
        system.advance(400)

    assert log.count("c start") == 2
    assert not ref.is_alive()


def test_by_default_messages_to_a_stopped_child_are_dead_letters(system: SeededSystem) -> None:
    log: list[str] = []
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    ref = spawn_supervisor(system, on_stop(log), log)
    tell(system, ref, "end")

    tell(system, ref, "hello")
    with pytest.raises(ActorDeadError, match="its child is stopped, and will be restarted"):
        ref.ask(says("q"))

    assert [letter.message for letter in letters] == [says("hello"), says("q")]
    assert ref.ask(GetCurrentChild()) == CurrentChild(ref=None)


def test_a_stopped_child_is_replaced_by_a_configured_reply(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_reply_while_stopped(says("later")), log)
    tell(system, ref, "end")

    assert ref.ask(says("q")) == says("later")


def test_a_handler_receives_messages_while_the_child_is_stopped(system: SeededSystem) -> None:
    log: list[str] = []
    handler = system.spawn(scripted_actor(log, {"q": replies}), "h")
    ref = spawn_supervisor(system, on_stop(log).with_handler_while_stopped(handler), log)
    tell(system, ref, "end")

    assert ref.ask(says("q")) == says("reply")
    assert log[-1] == "h q"


def test_messages_are_stashed_up_to_a_limit_while_the_child_is_stopped(system: SeededSystem) -> None:
    log: list[str] = []
    letters: list[DeadLetter] = []
    system.event_stream.subscribe(letters.append, DeadLetter)
    ref = spawn_supervisor(system, on_stop(log).with_stash_while_stopped(2), log)
    tell(system, ref, "end")

    tell(system, ref, "one", "two", "three")
    system.advance(100)

    assert log == ["c end", "c stop", "c start", "c one", "c two"]
    assert [letter.message for letter in letters] == [says("three")]
    assert "2 messages are stashed already" in letters[0].reason


def test_a_stashed_ask_is_answered_by_the_next_child(system: SeededSystem) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_stash_while_stopped(9), log)
    tell(system, ref, "end")

    assert ref.ask(says("q"), timeout=1) == says("reply")


def test_two_rules_for_messages_to_a_stopped_child_are_refused() -> None:
    with pytest.raises(ValueError, match="only one rule for messages"):
        on_stop([]).with_reply_while_stopped(says("later")).with_stash_while_stopped(3)


def test_messages_of_the_child_to_its_supervisor_reach_the_parent(system: SeededSystem) -> None:
    probe = TestProbe(system)

    class Parent(Actor):
        def pre_start(self) -> None:
            child = scripted_actor([], {"up": lambda context: context.parent.tell(says("from below"))})
            self.supervisor = self.context.spawn(BackoffSupervisor.props(BackoffOpts.on_stop(child, "c")), "s")

        def handle_message(self, message: Message) -> None:
            if message == says("up"):
                self.supervisor.tell(message)
            else:
                self.context.forward(probe.ref, message)

    system.spawn(Props(Parent), "p").tell(says("up"))

    assert probe.expect_message(Say) == says("from below")
    assert probe.last_sender is not None
    assert probe.last_sender.path == "/user/p/s/c"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_stop_or_kill_during_the_delay_ends_the_supervisor(system: SeededSystem, end: str) -> None:
    log: list[str] = []
    ref = spawn_supervisor(system, on_stop(log).with_stash_while_stopped(9), log)
    tell(system, ref, "end")
    reply = ref.ask(says("q"), block=False)
    system.run_until_idle()

    if end == "stop":
        ref.stop()
    else:
        system.kill(ref)
    system.advance(1_000)

    assert log == ["c end", "c stop"]
    with pytest.raises(ActorDeadError):
        reply.get(timeout=0)
