"""Processing-time timers: the bridge reports the time of the first timer, and the task fires it when due."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened, StageResult
from flykka.messages.attempt.commands import AdvanceProcessingTime, AdvanceWatermark, ProcessBatch
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MIN, EndOfData, Watermark
from flykka.messages.tasks.task import ProcessingTimeDue
from tests.actors.machines.attempt.attempt_machine import Harness, barrier, batch, descriptor, finished, to_bridge


def keyed(*, restore: TaskStateSnapshot | None = None) -> Harness:
    return Harness(replace(descriptor(OperatorKind.KEYED_PROCESS, channels=1), restore=restore))


def opened(**how: Any) -> Harness:
    task = keyed(**how)
    task.feed(StartTask(), ChainOpened())
    return task


def stage_result(stage: int, next_timer_ms: int | None) -> StageResult:
    return replace(finished(stage), next_timer_ms=next_timer_ms)


def delays(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "processing-time"]


def fires(stage: int, at_ms: int) -> AdvanceProcessingTime:
    return AdvanceProcessingTime(stage=stage, processing_time_ms=at_ms, watermark_ms=WATERMARK_MIN)


def test_stages_get_their_start_time_if_operators_use_processing_time() -> None:
    task, plain = opened(), Harness(descriptor(OperatorKind.WINDOW_AGGREGATE, channels=1))
    plain.feed(StartTask(), ChainOpened())

    timed = to_bridge(
        [*task.arrive(0, batch("a")), *task.feed(finished(0)), *task.arrive(0, Watermark(timestamp_ms=5))]
    )
    untimed = to_bridge(plain.arrive(0, batch("a")))

    assert timed == [
        ProcessBatch(stage=0, gate=0, batch=batch("a"), watermark_ms=WATERMARK_MIN, processing_time_ms=1000),
        AdvanceWatermark(stage=1, watermark_ms=5, processing_time_ms=1000),
    ]
    assert untimed == [ProcessBatch(stage=0, gate=0, batch=batch("a"), watermark_ms=WATERMARK_MIN)]


def test_operators_over_changing_rows_get_the_start_time_of_a_stage() -> None:
    task = Harness(descriptor(OperatorKind.INCREMENTAL, channels=1))
    task.feed(StartTask(), ChainOpened())

    (process,) = to_bridge(task.arrive(0, batch("a")))

    assert process == ProcessBatch(
        stage=0, gate=0, batch=batch("a"), watermark_ms=WATERMARK_MIN, processing_time_ms=1000
    )


def test_the_first_timer_reported_by_the_bridge_fires_when_due() -> None:
    task = opened()
    task.arrive(0, batch("a"))

    waits = task.feed(stage_result(0, next_timer_ms=1300))
    task.now = 1300
    fired = task.feed(ProcessingTimeDue())
    again = task.feed(stage_result(1, next_timer_ms=1900))

    assert delays(waits) == [300]
    assert to_bridge(fired) == [fires(1, 1300)]
    assert delays(again) == [600]


def test_an_earlier_timer_replaces_a_later_one_and_is_set_once() -> None:
    task = opened()
    task.arrive(0, batch("a"), batch("b"), batch("c"))

    first, same = task.feed(stage_result(0, next_timer_ms=1500)), task.feed(stage_result(1, next_timer_ms=1500))
    earlier = task.feed(stage_result(2, next_timer_ms=1200))

    assert [delays(each) for each in (first, same, earlier)] == [[500], [], [200]]


def test_a_deleted_timer_does_not_fire() -> None:
    task = opened()
    task.arrive(0, batch("a"), batch("b"))
    task.feed(stage_result(0, next_timer_ms=1500), stage_result(1, next_timer_ms=None))

    task.now = 1500
    fired = task.feed(ProcessingTimeDue())

    assert to_bridge(fired) == []


def test_a_timer_that_is_already_due_fires_before_the_next_batch() -> None:
    task = opened()
    task.arrive(0, batch("a"), batch("b"), batch("c"))

    effects = task.feed(stage_result(0, next_timer_ms=1000))

    assert to_bridge(effects) == []
    fired, run = to_bridge(task.feed(stage_result(1, next_timer_ms=None)))
    assert fired == fires(2, 1000)
    assert isinstance(run, ProcessBatch)


def test_restored_timers_are_queried_before_anything_is_read() -> None:
    task = keyed(restore=TaskStateSnapshot())

    effects = task.feed(StartTask(), ChainOpened())

    assert to_bridge(effects)[-1] == fires(0, 1000)


def test_timers_do_not_fire_after_the_end_of_data() -> None:
    task = opened()
    task.arrive(0, batch("a"))
    task.feed(stage_result(0, next_timer_ms=1500))

    task.arrive(0, EndOfData())
    task.now = 1500
    fired = task.feed(ProcessingTimeDue())

    assert to_bridge(fired) == []


def test_timers_do_not_fire_after_the_final_checkpoint() -> None:
    task = opened()
    task.arrive(0, batch("a"))
    task.feed(stage_result(0, next_timer_ms=1500))
    task.arrive(0, barrier(3, is_final=True))

    task.now = 1500
    fired = task.feed(ProcessingTimeDue())

    assert not any(isinstance(message, AdvanceProcessingTime) for message in to_bridge(fired))
