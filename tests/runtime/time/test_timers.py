"""Timers, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.durations import Duration
from flykka.runtime.errors import DurationError
from flykka.runtime.mailbox.envelope import Envelope, TellEntry
from flykka.runtime.mailbox.mailbox import Mailbox
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, fails, says, scripted_actor


def timed(system: SeededSystem, begin: object, **more: object) -> list[str]:
    """Return the log of an actor `t` that performs `begin` at its start; each tick is logged with its time."""
    log: list[str] = []
    script = {"start": begin, "tick": lambda context: log.append(f"at {context.now()}"), **more}
    system.spawn(scripted_actor(log, script), "t")  # type: ignore[arg-type]
    system.run_until_idle()
    return log


def test_a_single_timer_fires_once_at_its_time(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_once("k", 100, says("tick")))

    system.advance(99)
    assert log == ["t start"]
    system.advance(1000)

    assert log == ["t start", "t tick", "at 100"]


def test_a_fixed_delay_timer_fires_repeatedly(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_fixed_delay("k", 100, says("tick"), initial_delay=10))

    system.advance(250)

    assert log[1:] == ["t tick", "at 10", "t tick", "at 110", "t tick", "at 210"]


def test_a_fixed_rate_timer_keeps_its_rate_despite_late_messages(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_fixed_rate("k", 100, says("tick"), initial_delay=10))

    system.advance(100)
    system.manual_clock.move_to(350)  # The actor takes no turn in the meantime.
    system.advance(100)

    assert log[1:] == ["t tick", "at 10", *["t tick", "at 350"] * 3, "t tick", "at 410"]


def test_a_fixed_delay_starts_when_the_tick_is_handled(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_fixed_delay("k", 100, says("tick"), initial_delay=10))

    system.advance(100)
    system.manual_clock.move_to(350)
    system.advance(100)

    assert log[1:] == ["t tick", "at 10", "t tick", "at 350", "t tick", "at 450"]


def test_a_cancelled_fixed_rate_timer_drops_its_queued_ticks(system: SeededSystem) -> None:
    def cancel(context: ActorContext) -> None:
        system.manual_clock.move_to(350)
        context.timers.cancel("k")

    log = timed(system, lambda context: context.timers.start_fixed_rate("k", 100, says("tick")), cancel=cancel)
    system.actor_selection("/user/t").tell(says("cancel"))
    system.advance(1000)

    assert log == ["t start", "t cancel"]
    assert system.manual_clock.next_due() is None


def test_a_fixed_rate_needs_a_positive_interval(system: SeededSystem) -> None:
    refused: list[str] = []

    def begin(context: ActorContext) -> None:
        with pytest.raises(ValueError, match="interval 0 must be longer than 0 ms") as error:
            context.timers.start_fixed_rate("k", 0, says("tick"))
        refused.append(str(error.value))

    timed(system, begin)

    assert len(refused) == 1


@pytest.mark.parametrize("kind", ["start_fixed_delay", "start_fixed_rate"])
def test_a_killed_actor_leaves_no_alarm(system: SeededSystem, kind: str) -> None:
    timed(system, lambda context: getattr(context.timers, kind)("k", 100, says("tick")))
    ref = system.find("/user/t")
    assert ref is not None
    system.advance(150)

    system.kill(ref)

    assert system.manual_clock.next_due() is None


def test_a_fixed_rate_timer_cancelled_while_firing_leaves_no_alarm(
    system: SeededSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(system, lambda context: context.timers.start_fixed_rate("k", 100, says("tick")))
    ref = system.find("/user/t")
    assert ref is not None
    put = ref.actor_inbox.put

    def kill_and_put(_mailbox: Mailbox, entry: TellEntry | Envelope) -> None:
        system.kill(ref)
        put(entry)

    monkeypatch.setattr(Mailbox, "put", kill_and_put)
    system.manual_clock.move_to(100)

    assert system.manual_clock.next_due() is None


def test_starting_a_timer_replaces_the_timer_with_the_same_key(system: SeededSystem) -> None:
    def begin(context: ActorContext) -> None:
        context.timers.start_once("k", 10, says("first"))
        context.timers.start_once("k", 20, says("second"))

    log = timed(system, begin)
    system.advance(100)

    assert log == ["t start", "t second"]


def test_a_cancelled_timers_queued_message_is_dropped(system: SeededSystem) -> None:
    def cancel(context: ActorContext) -> None:
        # The alarm fires while this turn runs, so the message is queued after the current one.
        system.manual_clock.move_to(100)
        assert context.timers.is_active("k")
        context.timers.cancel("k")
        assert not context.timers.is_active("k")

    log = timed(system, lambda context: context.timers.start_once("k", 100, says("tick")), cancel=cancel)
    system.actor_selection("/user/t").tell(says("cancel"))
    system.advance(1000)

    assert log == ["t start", "t cancel"]


def test_a_restart_cancels_all_timers(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_once("k", 100, says("tick")), fail=fails)

    system.actor_selection("/user/t").tell(says("fail"))
    system.advance(1000)

    assert log == ["t start", "t fail", "t stop", "t restart"]


def test_the_current_time_is_constant_during_a_turn(system: SeededSystem) -> None:
    def look(context: ActorContext) -> None:
        before = context.now()
        system.manual_clock.move_to(before + 5)
        assert context.now() == before

    log = timed(system, lambda _: None, look=look)
    system.actor_selection("/user/t").tell(says("look"))
    system.run_until_idle()

    assert log == ["t start", "t look"]


def test_a_stopped_actor_leaves_no_alarm(system: SeededSystem) -> None:
    timed(system, lambda context: context.timers.start_fixed_delay("k", 100, says("tick")))
    ref = system.find("/user/t")
    assert ref is not None

    ref.stop()

    assert system.manual_clock.next_due() is None


@pytest.mark.parametrize("kind", ["start_fixed_delay", "start_fixed_rate"])
def test_timers_fire_in_real_time(threaded: ActorSystem, kind: str) -> None:
    probe = TestProbe(threaded)
    script = {
        "start": lambda context: getattr(context.timers, kind)("k", 1, says("tick")),
        "tick": lambda _: probe.ref.tell(says("tick")),
    }

    threaded.spawn(scripted_actor([], script), "t")

    for _ in range(3):
        probe.expect_message(Say)


@pytest.mark.parametrize("delay", [timedelta(seconds=5), "5s", 5000])
def test_a_delay_may_be_a_duration_string(system: SeededSystem, delay: Duration) -> None:
    log = timed(system, lambda context: context.timers.start_once("k", delay, says("tick")))

    system.advance(10_000)

    assert log[1:] == ["t tick", "at 5000"]


@pytest.mark.parametrize("delay", [-1, 1.5, None, "soon"])
def test_a_refused_delay_does_not_change_the_running_timer(system: SeededSystem, delay: Duration) -> None:
    def starts_again(context: ActorContext) -> None:
        context.timers.start_once("k", 100, says("tick"))
        for start in (context.timers.start_once, context.timers.start_fixed_delay, context.timers.start_fixed_rate):
            with pytest.raises(DurationError):
                start("k", delay, says("tock"))

    log = timed(system, starts_again)
    system.advance(1000)

    assert log[1:] == ["t tick", "at 100"]
