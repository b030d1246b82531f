"""Environment settings for the graphs of jobs, and for the deployment and the end of tasks."""

from __future__ import annotations

import pytest

from flykka.api.runtime_mode import RuntimeExecutionMode
from flykka.api.streams.stream_graph_generator import Defaults
from flykka.errors import DurationError, ProgramError
from flykka.messages.graph.job_graph import (
    FailoverStrategyKind,
    InputDependencyConstraint,
    ScheduleMode,
    SchedulerType,
    TaskCancellationSettings,
)
from tests.flykka.api.without_spark import without_spark


def test_graph_settings_are_passed_to_the_graph_generator() -> None:
    env = without_spark()

    env.disable_operator_chaining().disable_auto_generated_uids().set_schedule_mode("PIPELINED_REGION")

    assert env.defaults == Defaults(
        chaining_enabled=False, auto_generated_uids=False, schedule_mode=ScheduleMode.PIPELINED_REGION
    )


@pytest.mark.parametrize("mode", ["LAZY", "eager", None])
def test_an_unsupported_schedule_mode_is_refused_with_the_supported_ones(mode: str) -> None:
    with pytest.raises(ProgramError, match=f"one of EAGER, PIPELINED_REGION, LAZY_FROM_SOURCES, not {mode!r}"):
        without_spark().set_schedule_mode(mode)


def test_a_lazily_scheduled_task_waits_for_any_or_all_inputs() -> None:
    assert without_spark().job_settings.input_dependency_constraint is InputDependencyConstraint.ANY

    env = without_spark().set_schedule_mode("LAZY_FROM_SOURCES").set_default_input_dependency_constraint("ALL")

    assert env.job_settings.input_dependency_constraint is InputDependencyConstraint.ALL
    with pytest.raises(ProgramError, match="input constraint must be one of ANY, ALL, not 'SOME'"):
        env.set_default_input_dependency_constraint("SOME")


def test_the_failover_strategy_defaults_to_that_of_the_cluster() -> None:
    assert without_spark().job_settings.failover_strategy is None
    assert without_spark().set_failover_strategy("full").job_settings.failover_strategy is FailoverStrategyKind.FULL
    with pytest.raises(ProgramError, match="failover strategy must be one of region, full, not 'individual'"):
        without_spark().set_failover_strategy("individual")


@pytest.mark.parametrize("scheduler", ["FAIR", 3, None])
def test_an_unknown_scheduler_is_refused(scheduler: str) -> None:
    assert without_spark().set_scheduler("adaptive").job_settings.rescaling.scheduler_type is SchedulerType.ADAPTIVE
    with pytest.raises(ProgramError, match=f"scheduler must be one of DEFAULT, ADAPTIVE, not {scheduler!r}"):
        without_spark().set_scheduler(scheduler)


def test_unset_cancellation_settings_are_left_to_the_cluster() -> None:
    assert without_spark().job_settings.task_cancellation == TaskCancellationSettings()


def test_the_cancellation_timeout_is_configurable() -> None:
    env = without_spark().set_task_cancellation(interval="5s", timeout=0)

    assert env.job_settings.task_cancellation == TaskCancellationSettings(interval_ms=5_000, timeout_ms=0)
    with pytest.raises(DurationError, match="task cancellation interval"):
        env.set_task_cancellation(interval=0)


@pytest.mark.parametrize("mode", ["BATCH", RuntimeExecutionMode.BATCH])
def test_the_runtime_mode_is_an_enum_or_its_name(mode: RuntimeExecutionMode | str) -> None:
    assert without_spark().set_runtime_mode(mode).defaults.runtime_mode is RuntimeExecutionMode.BATCH


def test_an_unknown_runtime_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProgramError, match="one of STREAMING, BATCH, AUTOMATIC, not 'batch'"):
        without_spark().set_runtime_mode("batch")
