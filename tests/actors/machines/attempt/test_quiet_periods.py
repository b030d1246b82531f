"""If a source receives no rows, event time advances with the clock, so that its last windows fire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened, StageResult
from flykka.messages.graph.job_graph import JobType, OperatorKind, WatermarkAlignment
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, Watermark, WatermarkStatus
from flykka.messages.tasks.source import AlignWatermark, NoMoreSplits, PartitionTime
from flykka.messages.tasks.task import EventTimeHold, IdleDue, MetricsDue
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    SOURCE,
    Harness,
    batch,
    descriptor,
    down,
    finished,
    metrics,
    source,
    splits,
    trigger,
)

IDLE, ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)
PERIOD_MS = 300
ALIGNMENT = WatermarkAlignment(group="g", max_drift_ms=0, update_interval_ms=1000)


def quiet(**vertex: Any) -> Harness:
    """Return a source at watermark 899 that has no more rows to read."""
    task = source(quiet_period_ms=PERIOD_MS, **vertex)
    task.feed(splits("a"), finished(0, event_time_max=1000))
    return task


def wait(task: Harness, milliseconds: int) -> list[TaskEffect]:
    task.now += milliseconds
    return task.feed(IdleDue())


def timers(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "idle"]


def test_event_time_advances_with_the_clock_after_the_quiet_period() -> None:
    task = quiet()

    first, second = wait(task, PERIOD_MS), wait(task, PERIOD_MS)

    assert (down(first), timers(first)) == ([Watermark(timestamp_ms=899 + PERIOD_MS)], [PERIOD_MS])
    assert (down(second), timers(second)) == ([Watermark(timestamp_ms=899 + 2 * PERIOD_MS)], [PERIOD_MS])


def test_the_quiet_period_restarts_when_a_source_reads_rows() -> None:
    task = quiet()
    task.now += 100
    task.feed(splits("b"), finished(1, event_time_max=1000))

    too_early = wait(task, 200)
    in_time = wait(task, 100)

    assert (down(too_early), timers(too_early)) == ([], [100])
    assert down(in_time) == [Watermark(timestamp_ms=899 + PERIOD_MS)]


def test_rows_after_a_quiet_period_do_not_move_the_watermark_back() -> None:
    task = quiet()
    wait(task, PERIOD_MS)

    behind = task.feed(splits("b"), finished(1, "late", event_time_max=1100))
    ahead = task.feed(splits("c"), finished(2, event_time_max=2000))

    assert down(behind) == [batch("late")]
    assert down(ahead) == [Watermark(timestamp_ms=1899)]
    assert down(wait(task, PERIOD_MS)) == [Watermark(timestamp_ms=1899 + PERIOD_MS)]


def test_a_clock_advance_during_a_snapshot_is_sent_after_its_barrier() -> None:
    task = quiet()
    task.feed(trigger(1))

    due = wait(task, PERIOD_MS)
    taken = task.feed(finished(1))

    assert down(due) == []
    assert down(taken)[-1] == Watermark(timestamp_ms=899 + PERIOD_MS)


def test_a_source_without_rows_is_idle() -> None:
    task = source(quiet_period_ms=PERIOD_MS)

    silent = wait(task, PERIOD_MS)
    woken = task.feed(splits("a"), finished(0, event_time_max=1000))

    assert (down(silent), timers(silent)) == ([IDLE], [])
    assert (down(woken), timers(woken)) == ([ACTIVE, Watermark(timestamp_ms=899)], [PERIOD_MS])


def partitions(stage: int, **latest_ms: int | None) -> StageResult:
    times = tuple(PartitionTime(partition=name, latest_ms=latest) for name, latest in latest_ms.items())
    return StageResult(stage=stage, partition_times=times)


def partitioned(**vertex: Any) -> Harness:
    """Return a source with one partition at watermark 899 and one partition without rows."""
    task = source(quiet_period_ms=PERIOD_MS, **vertex)
    task.feed(splits("a"), partitions(0, a=1000, b=None))
    return task


@pytest.mark.parametrize("idle_timeout_ms", [None, PERIOD_MS], ids=["quiet", "quiet-and-idle"])
def test_a_partition_without_rows_holds_event_time_back_for_limited_time(idle_timeout_ms: int | None) -> None:
    task = partitioned(idle_timeout_ms=idle_timeout_ms)

    early, first, second = wait(task, PERIOD_MS - 1), wait(task, 1), wait(task, PERIOD_MS)

    assert (down(early), timers(early)) == ([], [1])
    assert (down(first), timers(first)) == ([Watermark(timestamp_ms=899 + PERIOD_MS)], [PERIOD_MS])
    assert down(second) == [Watermark(timestamp_ms=899 + 2 * PERIOD_MS)]


def test_a_longer_idle_timeout_limits_the_wait_for_an_empty_partition() -> None:
    task = partitioned(idle_timeout_ms=PERIOD_MS + 100)

    waiting, over = wait(task, PERIOD_MS), wait(task, 100)

    assert (down(waiting), timers(waiting)) == ([], [100])
    assert down(over) == [Watermark(timestamp_ms=899 + PERIOD_MS + 100)]


def test_a_quiet_partition_advances_with_the_clock_while_another_is_read() -> None:
    task = source(quiet_period_ms=PERIOD_MS)
    task.feed(splits("a"), partitions(0, a=1000, b=1000))
    task.now += PERIOD_MS

    effects = task.feed(splits("b"), partitions(1, a=9000, b=None))

    assert down(effects) == [Watermark(timestamp_ms=899 + PERIOD_MS)]


def test_an_idle_partition_does_not_hold_back_the_clock() -> None:
    task = source(quiet_period_ms=PERIOD_MS, idle_timeout_ms=PERIOD_MS)
    task.feed(splits("a"), partitions(0, a=9000, b=1000))

    assert down(wait(task, PERIOD_MS)) == [Watermark(timestamp_ms=8899 + PERIOD_MS)]


def test_time_without_permission_to_read_is_not_a_quiet_period() -> None:
    task = source(quiet_period_ms=PERIOD_MS, watermark_alignment=ALIGNMENT)
    task.feed(splits("a"), partitions(0, a=1000, b=1000))
    task.feed(AlignWatermark(attempt=ATTEMPT, max_watermark_ms=0), splits("b", "c"))
    task.now += 10 * PERIOD_MS

    effects = task.feed(AlignWatermark(attempt=ATTEMPT, max_watermark_ms=WATERMARK_MAX), partitions(1, a=9000, b=None))

    assert down(effects) == []


def test_the_partition_that_holds_back_event_time_is_reported_after_a_while() -> None:
    task = source(watermark_delay_ms=0)
    task.feed(splits("a"), partitions(0, a=1000, b=None))
    began_ms = task.now

    task.now += 9_999
    early = metrics(task.feed(MetricsDue()))
    task.now += 1
    late = metrics(task.feed(MetricsDue()))

    assert (early.held_back_by, late.held_back_by) == (
        None,
        EventTimeHold(subtask=0, since_ms=began_ms, partition="b"),
    )
    assert task.machine.explain(task.now).held_back_by == late.held_back_by


@pytest.mark.parametrize("vertex", [{"watermark_delay_ms": None}, {"idle_timeout_ms": 300}])
def test_no_partition_is_reported_as_slow_without_event_time_or_if_idle(vertex: dict[str, Any]) -> None:
    task = source(**vertex)
    task.now += 20_000

    assert metrics(task.feed(MetricsDue())).held_back_by is None


def test_the_end_of_data_ends_event_time_and_stops_the_clock() -> None:
    task = quiet()
    wait(task, PERIOD_MS)

    ended = task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))
    later = wait(task, PERIOD_MS)

    assert down(ended) == [Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]
    assert (down(later), timers(later)) == ([], [])


def test_a_batch_job_sends_only_the_final_watermark() -> None:
    deployed = descriptor(OperatorKind.SOURCE, outputs=1, watermark_delay_ms=0, quiet_period_ms=PERIOD_MS)
    task = Harness(replace(deployed, job_type=JobType.BATCH))

    assert timers(task.feed(StartTask(), ChainOpened())) == []
