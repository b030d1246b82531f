"""A task that assigns event times: it derives watermarks from its batches, and does not forward incoming watermarks."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened, StageResult
from flykka.messages.attempt.commands import CloseChain
from flykka.messages.graph.job_graph import MonotonyViolationHandler, OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, PartitionRequest, Watermark, WatermarkStatus
from flykka.messages.tasks.task import IdleDue
from tests.actors.machines.attempt.attempt_machine import (
    CONSUMER,
    OUT,
    Harness,
    barrier,
    batch,
    descriptor,
    down,
    finished,
    to_bridge,
)

IDLE, ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)
TIMEOUT_MS = 300


def assigner(**vertex: Any) -> Harness:
    made = {"watermark_delay_ms": 100, **vertex}
    task = Harness(descriptor(OperatorKind.TIMESTAMPS_AND_WATERMARKS, channels=1, outputs=1, **made))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=8, consumer=CONSUMER)
    task.feed(StartTask(), ChainOpened(), request)
    return task


def timers(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "idle"]


def test_the_watermark_of_a_batch_is_sent_after_its_rows() -> None:
    task = assigner()
    task.arrive(0, batch("a"))

    effects = task.feed(finished(0, "rows", event_time_max=1000))

    assert down(effects) == [batch("rows"), Watermark(timestamp_ms=899)]


def test_only_the_end_of_event_time_of_incoming_watermarks_is_forwarded() -> None:
    task = assigner()

    passed = task.arrive(0, Watermark(timestamp_ms=5000), IDLE, ACTIVE)
    ended = task.arrive(0, Watermark(timestamp_ms=WATERMARK_MAX), EndOfData())

    assert down(passed) == []
    assert down(ended) == [Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]


def test_a_barrier_keeps_its_position_between_rows_and_watermarks() -> None:
    task = assigner()
    task.arrive(0, batch("a"), barrier(1), batch("b"))

    effects = task.feed(finished(0, event_time_max=1000), finished(1), finished(2, event_time_max=2000))

    assert [type(each).__name__ for each in down(effects)] == ["Watermark", "CheckpointBarrier", "Watermark"]


def test_decreasing_event_times_fail_the_attempt_if_configured() -> None:
    task = assigner(watermark_delay_ms=0, on_monotony_violation=MonotonyViolationHandler.FAIL)
    task.arrive(0, batch("a"), batch("b"))
    task.feed(StageResult(stage=0, event_time_min=500, event_time_max=1000))

    effects = task.feed(StageResult(stage=1, event_time_min=900, event_time_max=2000))

    assert to_bridge(effects)[-1] == CloseChain(cancel=True)


def test_an_assigner_without_rows_during_its_idle_timeout_is_idle() -> None:
    task = assigner(idle_timeout_ms=TIMEOUT_MS)
    task.now += TIMEOUT_MS

    silent = task.feed(IdleDue())
    woken = task.arrive(0, batch("a")) + task.feed(finished(0, "rows", event_time_max=1000))

    assert (down(silent), timers(silent)) == ([IDLE], [])
    assert (down(woken), timers(woken)) == ([ACTIVE, batch("rows"), Watermark(timestamp_ms=899)], [TIMEOUT_MS])


def test_an_assigner_is_not_idle_while_a_batch_is_processed() -> None:
    task = assigner(idle_timeout_ms=TIMEOUT_MS)
    task.arrive(0, batch("a"))
    task.now += 10 * TIMEOUT_MS

    effects = task.feed(IdleDue())

    assert (down(effects), timers(effects)) == ([], [TIMEOUT_MS])


def test_an_idle_assigner_becomes_active_at_the_end_of_data() -> None:
    task = assigner(idle_timeout_ms=TIMEOUT_MS)
    task.now += TIMEOUT_MS
    task.feed(IdleDue())

    ended = task.arrive(0, Watermark(timestamp_ms=WATERMARK_MAX), EndOfData())
    task.now += TIMEOUT_MS
    later = task.feed(IdleDue())

    assert down(ended) == [ACTIVE, Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]
    assert (down(later), timers(later)) == ([], [])


def test_event_time_advances_with_the_clock_after_a_quiet_period() -> None:
    task = assigner(quiet_period_ms=TIMEOUT_MS)
    task.arrive(0, batch("a"))
    task.feed(finished(0, event_time_max=1000))
    task.now += TIMEOUT_MS

    effects = task.feed(IdleDue())

    assert down(effects) == [Watermark(timestamp_ms=899 + TIMEOUT_MS)]
