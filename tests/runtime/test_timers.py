"""Timers, in virtual time."""

from __future__ import annotations

from flykka.runtime.context import ActorContext
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.players import Say, fails, player, says


def timed(system: SeededSystem, begin: object, **more: object) -> list[str]:
    """The log of an actor `t` that begins with `begin`; each tick is logged with its time."""
    log: list[str] = []
    part = {"start": begin, "tick": lambda context: log.append(f"at {context.now()}"), **more}
    system.spawn(player(log, part), "t")  # type: ignore[arg-type]
    system.run_until_idle()
    return log


def test_a_timer_fires_once_at_its_moment(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_once("k", 100, says("tick")))

    system.advance(99)
    assert log == ["t start"]
    system.advance(1000)

    assert log == ["t start", "t tick", "at 100"]


def test_a_fixed_delay_fires_again_and_again(system: SeededSystem) -> None:
    log = timed(system, lambda context: context.timers.start_fixed_delay("k", 100, says("tick"), initial_delay_ms=10))

    system.advance(250)

    assert log[1:] == ["t tick", "at 10", "t tick", "at 110", "t tick", "at 210"]


def test_a_key_has_one_timer(system: SeededSystem) -> None:
    def begin(context: ActorContext) -> None:
        context.timers.start_once("k", 10, says("first"))
        context.timers.start_once("k", 20, says("second"))

    log = timed(system, begin)
    system.advance(100)

    assert log == ["t start", "t second"]


def test_a_cancelled_timer_is_silent_even_when_its_message_waits_in_the_mailbox(system: SeededSystem) -> None:
    def cancel(context: ActorContext) -> None:
        # The alarm rings while this turn runs, so that the message lies behind it.
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


def test_the_time_of_a_turn_does_not_move(system: SeededSystem) -> None:
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


def test_timers_fire_in_real_time_too(threaded: ActorSystem) -> None:
    probe = TestProbe(threaded)
    part = {
        "start": lambda context: context.timers.start_fixed_delay("k", 1, says("tick")),
        "tick": lambda _: probe.ref.tell(says("tick")),
    }

    threaded.spawn(player([], part), "t")

    for _ in range(3):
        probe.expect_message(Say)
