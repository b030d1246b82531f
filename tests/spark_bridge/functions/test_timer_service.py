"""Tests that timers fire once per key and time, in the order of their times."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.errors import TimerError
from flykka.spark_bridge.functions.current_key import TimeDomain
from tests.spark_bridge.functions.scripted import Action, done, scripted_row, scripted_table, values_of_rows
from tests.spark_bridge.functions.state_table import StateTable


def register(*times: int) -> Action:
    return lambda _, ctx: [ctx.timer_service().register_event_time_timer(time) for time in times]


def delete(time: int) -> Action:
    return lambda _, ctx: ctx.timer_service().delete_event_time_timer(time)


def test_timers_fire_in_time_order_once_the_watermark_reaches_them() -> None:
    kept = scripted_table()
    kept.process(scripted_row("a", register(30, 10, 20)))

    assert values_of_rows(kept.advance_watermark(9)) == []
    assert values_of_rows(kept.advance_watermark(20)) == [10, 20]
    assert values_of_rows(kept.advance_watermark(WATERMARK_MAX)) == [30]
    assert kept.entries == {}


def test_each_key_and_domain_has_one_timer_per_time() -> None:
    kept = scripted_table()
    kept.process(
        scripted_row("a", register(10, 20, 10)), scripted_row("b", register(10)), scripted_row("a", register(10, 20))
    )
    done(kept, lambda _, ctx: ctx.timer_service().register_processing_time_timer(10))

    assert [(row["key"], row["value"]) for row in kept.advance_watermark(20)] == [("a", 10), ("a", 20), ("b", 10)]
    assert values_of_rows(kept.advance_processing_time(20)) == [10]


def test_registering_a_timer_again_writes_no_state() -> None:
    kept = scripted_table()
    kept.process(scripted_row("a", register(10, 20)))

    kept.process(scripted_row("a", register(20, 10)), scripted_row("a", delete(15)), scripted_row("b", delete(10)))

    assert kept.written == []


def test_a_deleted_timer_does_not_fire() -> None:
    kept = scripted_table()
    kept.process(scripted_row("a", register(10, 20)))

    done(kept, delete(10))

    assert values_of_rows(kept.advance_watermark(20)) == [20]


def test_a_key_without_remaining_timers_is_deleted() -> None:
    kept = scripted_table()
    kept.process(scripted_row("a", register(10)))

    done(kept, delete(10))

    assert kept.entries == {}


def test_an_overdue_timer_fires_with_the_next_watermark() -> None:
    kept = scripted_table()
    kept.advance_watermark(100)

    assert values_of_rows(kept.process(scripted_row("a", register(10)))) == [[None]]
    assert values_of_rows(kept.advance_watermark(100)) == [10]


def test_a_due_timer_registered_while_firing_fires_too() -> None:
    def every_ten(_: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        return ctx.timestamp()

    kept = scripted_table(on_timer=every_ten)
    kept.process(scripted_row("a", register(10)))

    assert values_of_rows(kept.advance_watermark(35)) == [10, 20, 30]
    assert kept.entries["a"].event_timers == [40]


def test_a_timer_deleted_while_firing_does_not_fire() -> None:
    kept = scripted_table(on_timer=lambda _, ctx: ctx.timer_service().delete_event_time_timer(20))
    kept.process(scripted_row("a", register(10, 20, 30)))

    assert len(kept.advance_watermark(30)) == 2


def test_a_timer_call_has_the_watermark_and_the_time_of_its_timer() -> None:
    def times(_: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        return [
            ctx.timestamp(),
            ctx.time_domain(),
            ctx.current_watermark(),
            timers.current_watermark(),
            timers.current_processing_time(),
        ]

    kept = scripted_table(on_timer=times)
    kept.process(scripted_row("a", register(10)))
    done(kept, lambda _, ctx: ctx.timer_service().register_processing_time_timer(5))
    kept.processing_time_ms = 7

    assert values_of_rows(kept.advance_watermark(12)) == [[10, TimeDomain.EVENT_TIME, 12, 12, 7]]
    assert values_of_rows(kept.advance_processing_time(8)) == [[5, TimeDomain.PROCESSING_TIME, 12, 12, 8]]


def test_processing_time_timers_do_not_fire_by_event_time() -> None:
    kept = scripted_table()
    done(kept, lambda _, ctx: ctx.timer_service().register_processing_time_timer(10))

    assert kept.advance_watermark(WATERMARK_MAX) == []
    assert values_of_rows(kept.advance_processing_time(10)) == [10]


def test_a_deleted_processing_time_timer_does_not_fire() -> None:
    kept = scripted_table()
    done(kept, lambda _, ctx: ctx.timer_service().register_processing_time_timer(10))

    done(kept, lambda _, ctx: ctx.timer_service().delete_processing_time_timer(10))

    assert kept.advance_processing_time(10) == []


def test_the_current_watermark_is_minimal_before_the_first_watermark() -> None:
    assert done(scripted_table(), lambda _, ctx: ctx.current_watermark()) == WATERMARK_MIN


@pytest.mark.parametrize("time", [1.5, True, None, datetime(2024, 1, 1), 2**63])
@pytest.mark.parametrize("call", ["register_event_time_timer", "register_processing_time_timer"])
def test_timers_have_millisecond_precision(call: str, time: Any) -> None:
    with pytest.raises(TimerError, match=r"a timer cannot be at .*: its time is an int, in milliseconds since"):
        done(scripted_table(), lambda _, ctx: getattr(ctx.timer_service(), call)(time))


KEYS = st.sampled_from("ab")
TIMES = st.integers(0, 20)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["register", "delete", "watermark"]), KEYS, TIMES), max_size=40))
def test_registered_timers_behave_like_a_set(steps: list[tuple[str, str, int]]) -> None:
    kept: StateTable = scripted_table()
    model: set[tuple[str, int]] = set()
    watermark = -1

    for what, key, time in steps:
        match what:
            case "register":
                kept.process(scripted_row(key, register(time)))
                model.add((key, time))
            case "delete":
                kept.process(scripted_row(key, delete(time)))
                model.discard((key, time))
            case "watermark":
                watermark = max(watermark, time)
                due = {each for each in model if each[1] <= watermark}
                fired = [(row["key"], row["value"]) for row in kept.advance_watermark(watermark)]
                model -= due
                assert sorted(due) == sorted(fired)
                assert fired == sorted(fired, key=lambda each: ([row[0] for row in fired].index(each[0]), each[1]))

    assert {(key, time) for key, entry in kept.entries.items() for time in entry.event_timers or ()} == model
