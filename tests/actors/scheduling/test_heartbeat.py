"""Heartbeats: whoever is silent for longer than its timeout is given up, once."""

from __future__ import annotations

from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.heartbeat import (
    HeartbeatMonitor,
    HeartbeatReceived,
    HeartbeatTick,
    MonitorTarget,
    SendHeartbeatRequest,
    TargetTimedOut,
    UnmonitorTarget,
)
from tests.actors.scheduling.feeding import feed


def watch(target: str, timeout_ms: int = 50) -> MonitorTarget:
    return MonitorTarget(target=target, timeout_ms=timeout_ms)


def test_the_asking_side_asks_every_target_at_every_tick() -> None:
    monitor = HeartbeatMonitor(asks=True)
    feed(monitor, watch("a"), watch("b"))

    effects = feed(monitor, HeartbeatTick(), now=10)

    assert effects == [SendHeartbeatRequest(target="a"), SendHeartbeatRequest(target="b")]


def test_the_asking_side_asks_a_new_target_at_once() -> None:
    monitor = HeartbeatMonitor(asks=True)

    effects = feed(monitor, watch("a"))

    assert effects == [SendHeartbeatRequest(target="a")]


def test_the_asked_side_sends_nothing_of_itself() -> None:
    monitor = HeartbeatMonitor(asks=False)

    effects = feed(monitor, watch("a"), HeartbeatTick(), now=10)

    assert effects == []


def test_a_silent_target_is_given_up_when_its_timeout_has_passed() -> None:
    monitor = HeartbeatMonitor(asks=False)
    feed(monitor, watch("a", timeout_ms=50))

    before = feed(monitor, HeartbeatTick(), now=49)
    after = feed(monitor, HeartbeatTick(), now=50)

    assert before == []
    assert after == [TargetTimedOut(target="a", silent_ms=50)]


def test_a_target_is_given_up_once() -> None:
    monitor = HeartbeatMonitor(asks=True)
    feed(monitor, watch("a", timeout_ms=50))
    feed(monitor, HeartbeatTick(), now=50)

    effects = feed(monitor, HeartbeatTick(), now=100)

    assert effects == []
    assert monitor.targets == ()


def test_a_sign_of_life_starts_the_timeout_anew() -> None:
    monitor = HeartbeatMonitor(asks=False)
    feed(monitor, watch("a", timeout_ms=50))
    feed(monitor, HeartbeatReceived(target="a"), now=30)

    before = feed(monitor, HeartbeatTick(), now=79)
    after = feed(monitor, HeartbeatTick(), now=80)

    assert before == []
    assert after == [TargetTimedOut(target="a", silent_ms=50)]


def test_targets_have_timeouts_of_their_own() -> None:
    monitor = HeartbeatMonitor(asks=False)
    feed(monitor, watch("patient", timeout_ms=100), watch("strict", timeout_ms=10))

    effects = feed(monitor, HeartbeatTick(), now=10)

    assert effects == [TargetTimedOut(target="strict", silent_ms=10)]
    assert monitor.targets == ("patient",)


def test_watching_a_target_again_counts_from_now() -> None:
    monitor = HeartbeatMonitor(asks=False)
    feed(monitor, watch("a", timeout_ms=50))
    feed(monitor, watch("a", timeout_ms=50), now=40)

    effects = feed(monitor, HeartbeatTick(), now=60)

    assert effects == []


def test_a_target_that_is_watched_no_more_is_not_given_up() -> None:
    monitor = HeartbeatMonitor(asks=True)
    feed(monitor, watch("a", timeout_ms=50), UnmonitorTarget(target="a"))

    effects = feed(monitor, HeartbeatTick(), now=50)

    assert effects == []


def test_signs_of_life_of_strangers_are_ignored() -> None:
    monitor = HeartbeatMonitor(asks=True)

    effects = feed(monitor, HeartbeatReceived(target="a"), UnmonitorTarget(target="a"))

    assert effects == [Ignore(reason="a is not watched"), Ignore(reason="a is not watched")]
