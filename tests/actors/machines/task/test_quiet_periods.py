"""Event time that goes on by the clock when a source falls silent, so that its last windows fire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flykka.actors.machines.task.effects import StartIdleTimer, TaskEffect
from flykka.actors.machines.task.events import StartTask
from flykka.messages.graph.job_graph import JobType, OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, Watermark, WatermarkStatus
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.stage import BridgeOpened
from flykka.messages.tasks.task import IdleDue
from tests.actors.machines.task.task_machine import (
    ATTEMPT,
    SOURCE,
    Harness,
    batch,
    descriptor,
    down,
    finished,
    source,
    splits,
    trigger,
)

IDLE, ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)
PERIOD_MS = 300


def quiet(**vertex: Any) -> Harness:
    """A source whose watermark is 899, and that has nothing more to read."""
    task = source(quiet_period_ms=PERIOD_MS, **vertex)
    task.feed(splits("a"), finished(0, event_time_max=1000))
    return task


def wait(task: Harness, milliseconds: int) -> list[TaskEffect]:
    """The effects of the timer, so much later."""
    task.now += milliseconds
    return task.feed(IdleDue())


def timers(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartIdleTimer)]


def test_behind_its_quiet_period_event_time_has_gone_on_as_the_clock_has() -> None:
    task = quiet()

    first, second = wait(task, PERIOD_MS), wait(task, PERIOD_MS)

    assert (down(first), timers(first)) == ([Watermark(timestamp_ms=899 + PERIOD_MS)], [PERIOD_MS])
    assert (down(second), timers(second)) == ([Watermark(timestamp_ms=899 + 2 * PERIOD_MS)], [PERIOD_MS])


def test_a_source_that_has_read_meanwhile_waits_for_the_rest_of_its_quiet_period() -> None:
    task = quiet()
    task.now += 100
    task.feed(splits("b"), finished(1, event_time_max=1000))

    too_early = wait(task, 200)
    in_time = wait(task, 100)

    assert (down(too_early), timers(too_early)) == ([], [100])
    assert down(in_time) == [Watermark(timestamp_ms=899 + PERIOD_MS)]


def test_rows_behind_a_quiet_period_go_on_from_their_own_event_time_and_no_watermark_goes_back() -> None:
    task = quiet()
    wait(task, PERIOD_MS)

    behind = task.feed(splits("b"), finished(1, "late", event_time_max=1100))
    ahead = task.feed(splits("c"), finished(2, event_time_max=2000))

    assert down(behind) == [batch("late")]
    assert down(ahead) == [Watermark(timestamp_ms=1899)]
    assert down(wait(task, PERIOD_MS)) == [Watermark(timestamp_ms=1899 + PERIOD_MS)]


def test_time_that_passes_while_a_snapshot_is_taken_goes_down_behind_its_barrier() -> None:
    task = quiet()
    task.feed(trigger(1))

    due = wait(task, PERIOD_MS)
    taken = task.feed(finished(1))

    assert down(due) == []
    assert down(taken)[-1] == Watermark(timestamp_ms=899 + PERIOD_MS)


def test_without_a_row_nobody_knows_the_event_time_so_the_source_is_idle() -> None:
    task = source(quiet_period_ms=PERIOD_MS)

    silent = wait(task, PERIOD_MS)
    woken = task.feed(splits("a"), finished(0, event_time_max=1000))

    assert (down(silent), timers(silent)) == ([IDLE], [])
    assert (down(woken), timers(woken)) == ([ACTIVE, Watermark(timestamp_ms=899)], [PERIOD_MS])


def test_the_end_of_the_data_is_the_end_of_event_time_and_no_clock_runs_behind_it() -> None:
    task = quiet()
    wait(task, PERIOD_MS)

    ended = task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))
    later = wait(task, PERIOD_MS)

    assert down(ended) == [Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]
    assert (down(later), timers(later)) == ([], [])


def test_of_a_batch_job_only_the_end_of_event_time_is_told() -> None:
    deployed = descriptor(OperatorKind.SOURCE, outputs=1, watermark_delay_ms=0, quiet_period_ms=PERIOD_MS)
    task = Harness(replace(deployed, job_type=JobType.BATCH))

    assert timers(task.feed(StartTask(), BridgeOpened())) == []
