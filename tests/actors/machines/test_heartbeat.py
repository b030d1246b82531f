"""A heartbeat target that does not reply within its timeout is reported as lost, once."""

from __future__ import annotations

from flykka.actors.machines.heartbeat import (
    HeartbeatEffect,
    HeartbeatMonitor,
    SendHeartbeatRequest,
    TargetTimedOut,
    TickLate,
)


def watch(
    monitor: HeartbeatMonitor, target: str, timeout_ms: int = 50, *, is_asked: bool = True, now: int = 0
) -> list[HeartbeatEffect]:
    return monitor.monitor(target, timeout_ms, now, is_asked=is_asked)


def expect(monitor: HeartbeatMonitor, target: str, timeout_ms: int = 50, *, now: int = 0) -> list[HeartbeatEffect]:
    return watch(monitor, target, timeout_ms, is_asked=False, now=now)


def test_a_heartbeat_monitor_requests_from_every_target_at_every_tick() -> None:
    monitor = HeartbeatMonitor()
    watch(monitor, "a")
    watch(monitor, "b")

    effects = monitor.tick(10)

    assert effects == [SendHeartbeatRequest(target="a"), SendHeartbeatRequest(target="b")]


def test_a_heartbeat_monitor_requests_from_a_new_target_at_once() -> None:
    monitor = HeartbeatMonitor()

    effects = watch(monitor, "a")

    assert effects == [SendHeartbeatRequest(target="a")]


def test_a_heartbeat_sender_is_not_sent_requests() -> None:
    monitor = HeartbeatMonitor()

    effects = expect(monitor, "a") + monitor.tick(10)

    assert effects == []


def test_a_silent_target_is_lost_after_its_timeout() -> None:
    monitor = HeartbeatMonitor()
    expect(monitor, "a", timeout_ms=50)

    before = monitor.tick(49)
    after = monitor.tick(50)

    assert before == []
    assert after == [TargetTimedOut(target="a", silent_ms=50)]


def test_a_target_is_reported_lost_once() -> None:
    monitor = HeartbeatMonitor()
    watch(monitor, "a", timeout_ms=50)
    monitor.tick(50)

    effects = monitor.tick(100)

    assert effects == []
    assert monitor.targets == ()


def test_a_heartbeat_restarts_the_timeout() -> None:
    monitor = HeartbeatMonitor()
    expect(monitor, "a", timeout_ms=50)
    monitor.heartbeat_received("a", 30)

    before = monitor.tick(79)
    after = monitor.tick(80)

    assert before == []
    assert after == [TargetTimedOut(target="a", silent_ms=50)]


def test_each_target_has_its_own_timeout() -> None:
    monitor = HeartbeatMonitor()
    expect(monitor, "patient", timeout_ms=100)
    expect(monitor, "strict", timeout_ms=10)

    effects = monitor.tick(10)

    assert effects == [TargetTimedOut(target="strict", silent_ms=10)]
    assert monitor.targets == ("patient",)


def test_monitoring_a_target_again_restarts_its_timeout() -> None:
    monitor = HeartbeatMonitor()
    expect(monitor, "a", timeout_ms=50)
    expect(monitor, "a", timeout_ms=50, now=40)

    effects = monitor.tick(60)

    assert effects == []


def test_an_unmonitored_target_is_not_reported_lost() -> None:
    monitor = HeartbeatMonitor()
    watch(monitor, "a", timeout_ms=50)
    monitor.unmonitor("a")

    effects = monitor.tick(50)

    assert effects == []


def test_heartbeats_of_unknown_targets_are_ignored() -> None:
    monitor = HeartbeatMonitor()

    monitor.heartbeat_received("a", 0)
    monitor.unmonitor("a")

    assert monitor.targets == ()


def test_only_targets_that_do_not_send_requests_are_sent_requests() -> None:
    monitor = HeartbeatMonitor()

    effects = watch(monitor, "asked") + expect(monitor, "asking")
    later = monitor.tick(10)

    assert effects == later == [SendHeartbeatRequest(target="asked")]


def test_an_expected_target_is_sent_heartbeat_requests_once_it_appears() -> None:
    monitor = HeartbeatMonitor()
    expect(monitor, "a")

    effects = watch(monitor, "a", now=40)
    late = monitor.tick(60)

    assert effects == late == [SendHeartbeatRequest(target="a")]


def ticking() -> HeartbeatMonitor:
    """Return a monitor that ticks every 10 ms and monitors the target `a`."""
    monitor = HeartbeatMonitor()
    monitor.begin_ticks(10, 0)
    expect(monitor, "a")
    return monitor


def test_a_gap_in_the_local_clock_does_not_time_out_peers() -> None:
    monitor = ticking()
    watch(monitor, "b")
    monitor.tick(10)

    after = monitor.tick(10_000)

    assert after == [TickLate(late_ms=9_980), SendHeartbeatRequest(target="b")]


def test_a_peer_that_stays_silent_after_a_gap_is_lost() -> None:
    monitor = ticking()
    monitor.tick(10)

    ticks = [monitor.tick(now) for now in (10_000, 10_010, 10_020, 10_030)]

    assert ticks[1:3] == [[], []]
    assert ticks[3] == [TargetTimedOut(target="a", silent_ms=50)]


def test_repeated_gaps_do_not_hide_a_dead_peer() -> None:
    monitor = ticking()
    monitor.tick(10)

    ticks = [monitor.tick(10 + 1_000 * number) for number in range(1, 5)]

    assert isinstance(ticks[-1][-1], TargetTimedOut)
