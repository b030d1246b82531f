"""Area 03: runs each case on its subject: a strategy, a handler, the classifier or settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.machines.restart.failure_handler import (
    ExecutionFailureHandler,
    GiveUp,
    RestartAllFailoverStrategy,
    RestartTasks,
    ThrowableType,
    classify,
)
from flykka.actors.machines.restart.restart_strategy import FixedDelayRestartStrategy, RestartStrategy, restart_strategy
from flykka.actors.machines.scheduling.topology import SchedulingTopology
from flykka.api.configuration.options import restart_strategy as read_restart_strategy
from flykka.api.configuration.restart_strategies import FallbackRestartStrategyConfiguration, resolve_restart_strategy
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.runtime.errors import serialized
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.restart_strategies.strategy_case import StrategyCase
from tests.flykka.api.without_spark import without_spark

_GIVEN: dict[str, set[str]] = {
    "fixed-delay": {"attempts", "delay_ms"},
    "failure-rate": {"max_failures", "interval_ms", "delay_ms"},
    "exponential-delay": {"initial_ms", "max_ms", "multiplier", "reset_after_ms", "jitter"},
    "none": set(),
    "handler": {"restart_allowed", "delay_ms", "region", "error"},
    "resolve": {"job", "cluster", "checkpointing"},
    "job-config": {"checkpointing_interval_ms"},
}
_ONE_OF_EACH: dict[str, RestartStrategyConfiguration] = {
    "none": NoRestartStrategyConfiguration(),
    "fixed-delay": FixedDelayRestartStrategyConfiguration(attempts=3, delay_ms=7),
    "failure-rate": FailureRateRestartStrategyConfiguration(max_failures=3, interval_ms=100, delay_ms=7),
    "exponential-delay": ExponentialDelayRestartStrategyConfiguration(
        initial_backoff_ms=1,
        max_backoff_ms=10,
        backoff_multiplier=2.0,
        reset_backoff_threshold_ms=100,
        jitter_factor=0.1,
    ),
}
_NAMES: dict[type, str] = {
    NoRestartStrategyConfiguration: "none",
    FixedDelayRestartStrategyConfiguration: "fixed-delay",
    FailureRateRestartStrategyConfiguration: "failure-rate",
    ExponentialDelayRestartStrategyConfiguration: "exponential-delay",
    FallbackRestartStrategyConfiguration: "fallback",
}
_CLASSES = {
    "NonRecoverable": ThrowableType.NON_RECOVERABLE,
    "PartitionDataMissing": ThrowableType.PARTITION_DATA_MISSING,
    "Environment": ThrowableType.ENVIRONMENT,
    "Recoverable": ThrowableType.RECOVERABLE,
}


def run_case(case: Case) -> None:
    given = case["given"]
    subject = given["strategy"]
    if subject not in _GIVEN:
        raise UnknownWordError(f"strategy {subject!r}")
    only_known_words("given", given, {"strategy"} | _GIVEN[subject])
    match subject:
        case "handler" if "error" in given:
            _run_classification(case)
        case "handler":
            _run_handler(case)
        case "resolve":
            _run_resolution(case)
        case "job-config":
            _run_job_config(case)
        case _ if "construction_error" in case["expect"]:
            with pytest.raises(ValueError, match=r"must be|is above"):
                restart_strategy(configuration(given))
        case _:
            StrategyCase(lambda: restart_strategy(configuration(given))).run(case)


def configuration(given: Mapping[str, Any]) -> RestartStrategyConfiguration:
    match given["strategy"]:
        case "none":
            return NoRestartStrategyConfiguration()
        case "fixed-delay":
            return FixedDelayRestartStrategyConfiguration(attempts=given["attempts"], delay_ms=given["delay_ms"])
        case "failure-rate":
            return FailureRateRestartStrategyConfiguration(
                max_failures=given["max_failures"], interval_ms=given["interval_ms"], delay_ms=given["delay_ms"]
            )
        case "exponential-delay":
            return ExponentialDelayRestartStrategyConfiguration(
                initial_backoff_ms=given["initial_ms"],
                max_backoff_ms=given["max_ms"],
                backoff_multiplier=float(given["multiplier"]),
                reset_backoff_threshold_ms=given["reset_after_ms"],
                jitter_factor=float(given["jitter"]),
            )
        case unknown:
            raise UnknownWordError(f"strategy {unknown!r}")


# Failures


def _run_handler(case: Case) -> None:
    given = case["given"]
    allowed = given["restart_allowed"]
    strategy: RestartStrategy = FixedDelayRestartStrategy(None if allowed else 0, given["delay_ms"])
    topology = SchedulingTopology(given["region"], [])
    handler = ExecutionFailureHandler(strategy, RestartAllFailoverStrategy(topology))
    result: RestartTasks[str] | GiveUp | None = None
    for step in case["steps"]:
        match step:
            case ["task_failure", str(error)]:
                result = handler.handle(given["region"][:1], _failure(error), 0)
            case ["global_failure", str(error)]:
                result = handler.handle_global(_failure(error), 0)
            case unknown:
                raise UnknownWordError(f"step {unknown}")
    assert result is not None
    for word, wanted in case["expect"].items():
        assert _observed_value(result, word) == (sorted(wanted) if word == "tasks" else wanted), word


def _observed_value(result: RestartTasks[str] | GiveUp, word: str) -> object:
    match word:
        case "restart":
            return isinstance(result, RestartTasks)
        case "delay_ms":
            return _read(result, "backoff").drawn(0.0)
        case "tasks":
            return sorted(_read(result, "tasks"))
        case "error_present":
            return hasattr(result, "cause")
        case "error_is_unrecoverable_kind":
            return classify(_read(result, "cause")) is ThrowableType.NON_RECOVERABLE
        case "reading_error_raises":
            return not hasattr(result, "cause")
        case "reading_tasks_raises":
            return not hasattr(result, "tasks")
        case "reading_delay_raises":
            return not hasattr(result, "backoff")
        case unknown:
            raise UnknownWordError(unknown)


def _read(result: RestartTasks[str] | GiveUp, name: str) -> Any:
    return getattr(result, name)


def _run_classification(case: Case) -> None:
    if case["steps"]:
        raise UnknownWordError(f"steps of a classification: {case['steps']}")
    found = classify(_failure(case["given"]["error"]))
    for word, wanted in case["expect"].items():
        match word:
            case "unrecoverable":
                assert (found is ThrowableType.NON_RECOVERABLE) is wanted
            case "class":
                assert found is _CLASSES[wanted]
            case unknown:
                raise UnknownWordError(unknown)


class _SuppressRestartsError(Exception):
    suppress_restarts = True


def _failure(words: str) -> SerializedThrowable:
    """Return an error that is described as `<kind>`, or `<kind> wrapped in <kind>`, and so on."""
    inner, _, outer = words.partition(" wrapped in ")
    if outer:
        return serialized(_exception_chain(words.split(" wrapped in ")))
    if inner.startswith("subclass of "):
        marked = _failure(inner.removeprefix("subclass of "))
        return replace(marked, type_name=f"Special{marked.type_name}")
    match inner:
        case "plain":
            return serialized(ValueError("plain"))
        case "unrecoverable" | "suppress-restarts":
            return serialized(_SuppressRestartsError("unrecoverable"))
        case "no-resource-available":
            return SerializedThrowable(type_name="NoResourceAvailableError", message="no slot in time")
        case "marked environment error":
            return SerializedThrowable(type_name="SlotLostError", message="a TaskManager is lost")
        case "marked partition-data-missing":
            lost = ResultPartitionId("job_v_0_0:0")
            return SerializedThrowable(type_name="LostBatchError", message="gone", lost_partition=lost)
        case unknown:
            raise UnknownWordError(f"error {unknown!r}")


def _exception_chain(kinds: list[str]) -> Exception:
    """Return chained exceptions: each is the cause of the next one, and the last one is raised."""
    makers: dict[str, Callable[[str], Exception]] = {
        "plain": ValueError,
        "unrecoverable": _SuppressRestartsError,
        "suppress-restarts": _SuppressRestartsError,
    }
    made: Exception | None = None
    for kind in kinds:
        if kind not in makers:
            raise UnknownWordError(f"error {kind!r}")
        error = makers[kind](kind)
        error.__cause__ = made
        made = error
    assert made is not None
    return made


# Selection of a strategy


def _run_resolution(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    job, cluster = given["job"], given.get("cluster")
    if "error" in expect:
        only_known_words("expect", expect, {"error"})
        assert expect["error"] is True
        with pytest.raises(ValueError, match=f"no restart strategy '{cluster}'"):
            read_restart_strategy(cluster)
        return
    resolved = resolve_restart_strategy(
        FallbackRestartStrategyConfiguration() if job == "fallback" else _ONE_OF_EACH[job],
        None if cluster is None else _ONE_OF_EACH[cluster],
        is_checkpointing_enabled=given["checkpointing"],
    )
    _compare(resolved, expect)


def _run_job_config(case: Case) -> None:
    given, settings = case["given"], without_spark()
    if given.get("checkpointing_interval_ms") is not None:
        settings.enable_checkpointing(given["checkpointing_interval_ms"])
    _compare(settings.job_settings.restart_strategy, case["expect"])


def _compare(
    found: RestartStrategyConfiguration | FallbackRestartStrategyConfiguration, expect: Mapping[str, Any]
) -> None:
    for word, wanted in expect.items():
        match word:
            case "strategy":
                assert _NAMES[type(found)] == wanted
            case "attempts" if wanted in ("unlimited", None, 2**31 - 1):
                # Flink counts up to the largest int; flykka has no limit.
                assert isinstance(found, FixedDelayRestartStrategyConfiguration)
                assert found.attempts is None
            case "attempts" | "delay_ms":
                assert getattr(found, word) == wanted
            case unknown:
                raise UnknownWordError(unknown)
