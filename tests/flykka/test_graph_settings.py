"""What an environment says of the graphs of its jobs, and of how their tasks are deployed and ended."""

from __future__ import annotations

import pytest

from flykka.errors import DurationError, ProgramError
from flykka.job_settings import JobSettings
from flykka.messages.job_graph import ScheduleMode, TaskCancellationSettings
from flykka.streams.stream_graph_generator import Defaults


def test_what_is_said_of_graphs_is_what_their_generator_is_given() -> None:
    settings = JobSettings()

    settings.disable_operator_chaining().disable_auto_generated_uids().set_schedule_mode("PIPELINED_REGION")

    assert settings.defaults == Defaults(
        chaining_enabled=False, auto_generated_uids=False, schedule_mode=ScheduleMode.PIPELINED_REGION
    )


@pytest.mark.parametrize("mode", ["LAZY_FROM_SOURCES", "eager", None])
def test_a_schedule_mode_that_is_not_offered_is_refused_with_those_that_are(mode: str) -> None:
    with pytest.raises(ProgramError, match=f"one of EAGER, PIPELINED_REGION, not {mode!r}"):
        JobSettings().set_schedule_mode(mode)


def test_what_is_not_said_of_cancellation_is_left_to_the_cluster() -> None:
    assert JobSettings().task_cancellation == TaskCancellationSettings()


def test_a_cancelled_task_may_take_as_long_as_is_said() -> None:
    settings = JobSettings().set_task_cancellation(interval="5s", timeout=0)

    assert settings.task_cancellation == TaskCancellationSettings(interval_ms=5_000, timeout_ms=0)
    with pytest.raises(DurationError, match="task cancellation interval"):
        settings.set_task_cancellation(interval=0)


@pytest.mark.parametrize(("own", "expected"), [(None, 77), (-1, 77), (0, 0), (12, 12)])
def test_a_buffer_timeout_below_nothing_is_that_of_the_environment(own: int | None, expected: int) -> None:
    assert Defaults(buffer_timeout_ms=77).buffer_timeout_of(own) == expected
