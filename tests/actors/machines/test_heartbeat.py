"""Heartbeats: a target that is silent for longer than its timeout is given up, once."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.heartbeat import (
    HeartbeatMonitor,
    HeartbeatReceived,
    MonitorTarget,
    SendHeartbeatRequest,
    TargetTimedOut,
    TickLate,
    TicksBegin,
    UnmonitorTarget,
)
from flykka.messages.control.registration import HeartbeatDue
from tests.actors.machines.scheduling.feeding import feed


def watch(target: str, timeout_ms: int = 50, *, is_asked: bool = True) -> MonitorTarget:
    return MonitorTarget(target=target, timeout_ms=timeout_ms, is_asked=is_asked)


def expect(target: str, timeout_ms: int = 50) -> MonitorTarget:
    return watch(target, timeout_ms, is_asked=False)


def test_the_asking_side_asks_every_target_at_every_tick() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, watch("a"), watch("b"))

    effects = feed(monitor, HeartbeatDue(), now=10)

    assert effects == [SendHeartbeatRequest(target="a"), SendHeartbeatRequest(target="b")]


def test_the_asking_side_asks_a_new_target_at_once() -> None:
    monitor = HeartbeatMonitor()

    effects = feed(monitor, watch("a"))

    assert effects == [SendHeartbeatRequest(target="a")]


def test_the_asked_side_sends_nothing_of_itself() -> None:
    monitor = HeartbeatMonitor()

    effects = feed(monitor, expect("a"), HeartbeatDue(), now=10)

    assert effects == []


def test_a_silent_target_is_given_up_when_its_timeout_has_passed() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, expect("a", timeout_ms=50))

    before = feed(monitor, HeartbeatDue(), now=49)
    after = feed(monitor, HeartbeatDue(), now=50)

    assert before == []
    assert after == [TargetTimedOut(target="a", silent_ms=50)]


def test_a_target_is_given_up_once() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, watch("a", timeout_ms=50))
    feed(monitor, HeartbeatDue(), now=50)

    effects = feed(monitor, HeartbeatDue(), now=100)

    assert effects == []
    assert monitor.targets == ()


def test_a_sign_of_life_starts_the_timeout_again() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, expect("a", timeout_ms=50))
    feed(monitor, HeartbeatReceived(target="a"), now=30)

    before = feed(monitor, HeartbeatDue(), now=79)
    after = feed(monitor, HeartbeatDue(), now=80)

    assert before == []
    assert after == [TargetTimedOut(target="a", silent_ms=50)]


def test_targets_have_timeouts_of_their_own() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, expect("patient", timeout_ms=100), expect("strict", timeout_ms=10))

    effects = feed(monitor, HeartbeatDue(), now=10)

    assert effects == [TargetTimedOut(target="strict", silent_ms=10)]
    assert monitor.targets == ("patient",)


def test_watching_a_target_again_counts_from_now() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, expect("a", timeout_ms=50))
    feed(monitor, expect("a", timeout_ms=50), now=40)

    effects = feed(monitor, HeartbeatDue(), now=60)

    assert effects == []


def test_a_target_that_is_watched_no_more_is_not_given_up() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, watch("a", timeout_ms=50), UnmonitorTarget(target="a"))

    effects = feed(monitor, HeartbeatDue(), now=50)

    assert effects == []


def test_signs_of_life_of_strangers_are_ignored() -> None:
    monitor = HeartbeatMonitor()

    effects = feed(monitor, HeartbeatReceived(target="a"), UnmonitorTarget(target="a"))

    assert effects == [Ignore(reason="a is not watched"), Ignore(reason="a is not watched")]


def test_one_actor_asks_some_and_is_asked_by_others() -> None:
    monitor = HeartbeatMonitor()

    effects = feed(monitor, watch("asked"), expect("asking"))
    later = feed(monitor, HeartbeatDue(), now=10)

    assert effects == later == [SendHeartbeatRequest(target="asked")]


def test_one_that_was_expected_to_come_is_asked_from_then_on() -> None:
    monitor = HeartbeatMonitor()
    feed(monitor, expect("a"))

    effects = feed(monitor, watch("a"), now=40)
    late = feed(monitor, HeartbeatDue(), now=60)

    assert effects == late == [SendHeartbeatRequest(target="a")]


def ticking(*targets: MonitorTarget) -> HeartbeatMonitor:
    monitor = HeartbeatMonitor()
    feed(monitor, TicksBegin(interval_ms=10), *targets)
    feed(monitor, HeartbeatDue(), now=10)
    return monitor


def test_a_gap_of_the_own_clock_is_no_silence_of_the_peers() -> None:
    monitor = ticking(expect("a", timeout_ms=50), watch("b", timeout_ms=50))

    after = feed(monitor, HeartbeatDue(), now=10_000)

    assert after == [TickLate(late_ms=9_980), SendHeartbeatRequest(target="b")]


def test_a_peer_that_stays_silent_after_a_gap_is_given_up() -> None:
    monitor = ticking(expect("a", timeout_ms=50))

    ticks = [feed(monitor, HeartbeatDue(), now=now) for now in (10_000, 10_010, 10_020, 10_030)]

    assert ticks[1:3] == [[], []]
    assert ticks[3] == [TargetTimedOut(target="a", silent_ms=50)]


def test_gaps_that_come_again_and_again_hide_no_dead_peer() -> None:
    monitor = ticking(expect("a", timeout_ms=50))

    ticks = [feed(monitor, HeartbeatDue(), now=10 + 1_000 * number) for number in range(1, 5)]

    assert isinstance(ticks[-1][-1], TargetTimedOut)
