"""A source derives watermarks from event times. Decreasing timestamps fail the attempt or are logged."""

from __future__ import annotations

from flykka.actors.machines.attempt.events import LogWarning, TaskEffect
from flykka.messages.attempt.answers import ChainClosed, StageResult
from flykka.messages.attempt.commands import CloseChain
from flykka.messages.graph.job_graph import MonotonyViolationHandler
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, Watermark
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.task import ExecutionState, UpdateTaskExecutionState
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    SOURCE,
    Harness,
    down,
    finished,
    source,
    splits,
    to_bridge,
    to_job_master,
)


def ascending(handler: MonotonyViolationHandler) -> Harness:
    task = source(watermark_delay_ms=0, on_monotony_violation=handler)
    task.feed(splits("a", "b"))
    task.feed(read(0, 500, 1000))
    return task


def read(stage: int, earliest_ms: int | None, latest_ms: int | None) -> StageResult:
    return StageResult(stage=stage, event_time_min=earliest_ms, event_time_max=latest_ms)


def warnings(effects: list[TaskEffect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, LogWarning)]


def test_decreasing_event_times_fail_the_attempt_if_configured() -> None:
    task = ascending(MonotonyViolationHandler.FAIL)

    failing = task.feed(read(1, 900, 2000))
    messages = to_job_master(task.feed(ChainClosed()))

    assert to_bridge(failing)[-1] == CloseChain(cancel=True)
    (update,) = (message for message in messages if isinstance(message, UpdateTaskExecutionState))
    assert update.state.state is ExecutionState.FAILED
    assert update.state.failure is not None
    assert update.state.failure.type_name == "MonotonyViolationError"
    assert "a row with event time 900 ms came after one with 1000 ms" in update.state.failure.message


def test_decreasing_event_times_are_logged_if_configured() -> None:
    task = ascending(MonotonyViolationHandler.LOG)

    effects = task.feed(read(1, 900, 2000))

    (warning,) = warnings(effects)
    assert "900 ms" in warning
    assert down(effects) == [Watermark(timestamp_ms=1999)]


def test_ordered_event_times_cause_neither_failure_nor_log() -> None:
    task = ascending(MonotonyViolationHandler.FAIL)

    effects = task.feed(read(1, 1000, 1000))

    assert (warnings(effects), down(effects)) == ([], [])


def test_punctuated_watermarks_equal_the_event_times_of_their_rows() -> None:
    task = source(watermark_delay_ms=0, punctuated_watermarks=True)
    task.feed(splits("a", "b", "c"))

    effects = task.feed(read(0, None, 700), read(1, None, None), read(2, None, 600))

    assert down(effects) == [Watermark(timestamp_ms=700)]


def test_the_end_of_event_time_is_sent_once_after_the_current_rows() -> None:
    task = source(watermark_delay_ms=0)
    task.feed(splits("a"), NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    effects = task.feed(finished(0, event_time_max=500))

    assert down(effects) == [Watermark(timestamp_ms=499), Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]


def test_a_source_without_event_time_sends_the_final_watermark() -> None:
    task = source(watermark_delay_ms=None)
    task.feed(splits("a"), NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    effects = task.feed(finished(0, event_time_max=500))

    assert down(effects) == [Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]
