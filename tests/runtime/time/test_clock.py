"""Clocks: alarms fire in order, cancelled alarms do not fire, and time never goes back."""

from __future__ import annotations

import threading
from functools import partial

from flykka.runtime.time.clock import AlarmQueue, SystemClock
from flykka.runtime.time.manual_clock import ManualClock


def test_alarms_fire_by_time_and_then_by_creation() -> None:
    clock = ManualClock()
    rung: list[str] = []
    for name, due in (("c", 30), ("a", 10), ("b", 10)):
        clock.schedule(due, partial(rung.append, name))

    clock.advance(29)
    assert rung == ["a", "b"]
    clock.advance(21)

    assert rung == ["a", "b", "c"]
    assert clock.now_ms() == 50


def test_an_alarm_may_set_another_alarm() -> None:
    clock = ManualClock()
    rung: list[int] = []
    clock.schedule(10, lambda: clock.schedule(20, lambda: rung.append(clock.now_ms())))

    clock.advance(100)

    assert rung == [20]


def test_cancelled_alarms_neither_fire_nor_accumulate() -> None:
    queue = AlarmQueue()
    rung: list[int] = []
    alarms = [queue.add(1000 + number, lambda: rung.append(1)) for number in range(1000)]

    for alarm in alarms[1:]:
        alarm.cancel()
        alarm.cancel()

    assert queue.next_due() == 1000
    assert len(queue) < 100
    assert queue.pop_due(2000) is alarms[0]
    assert queue.pop_due(2000) is None


def test_an_alarm_that_raises_does_not_stop_the_clock() -> None:
    clock = SystemClock()
    rung = threading.Event()
    clock.schedule(clock.now_ms(), lambda: 1 / 0)
    clock.schedule(clock.now_ms() + 1, rung.set)

    assert rung.wait(5)
    clock.close()


def test_an_earlier_alarm_overtakes_the_one_waited_for() -> None:
    clock = SystemClock()
    rung = threading.Event()
    late = clock.schedule(clock.now_ms() + 60_000, lambda: None)
    clock.schedule(clock.now_ms() + 1, rung.set)

    assert rung.wait(5)
    late.cancel()
    clock.close()


def test_time_never_goes_back() -> None:
    clock = ManualClock(100)

    clock.move_to(50)

    assert clock.now_ms() == 100
