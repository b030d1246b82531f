"""Settings with the names of Flink's options, as lists of keys and values, for a cluster and for a job."""

from __future__ import annotations

from collections.abc import Mapping

from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    ExponentialDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
    NoRestartStrategyConfiguration,
    RestartStrategyConfiguration,
)
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.monitoring.job_details import ProcessEnvironment
from flykka.rest.responses.io_metrics import Json
from flykka.runtime.secrets import masked_uri

_WITHOUT_END = 2**31 - 1
"""Flink's number for unlimited restart attempts."""

Value = str | int | float | bool | None


def cluster_configuration(flink_version: str, slots: SlotsExplained) -> list[Json]:
    """Format the settings of a cluster that its TaskManagers report, without memory sizes."""
    per_task_manager = {each.slots for each in slots.by_task_manager}
    return _settings_list(
        {
            "rest.flink-version": flink_version,
            "taskmanager.numberOfTaskSlots": max(per_task_manager, default=None),
        }
    )


def job_configuration(graph: JobGraph) -> list[Json]:
    """Format the settings of a job that are set. Addresses contain no credentials."""
    cancellation = graph.task_cancellation
    return _settings_list(
        {
            "pipeline.name": graph.name,
            "execution.runtime-mode": graph.job_type.value,
            "parallelism.default": max((vertex.parallelism for vertex in graph.vertices), default=1),
            "heartbeat.interval": _ms(graph.heartbeat_interval_ms),
            "heartbeat.timeout": _ms(graph.heartbeat_timeout_ms),
            "slot.request.timeout": _ms(graph.slot_request_timeout_ms),
            "jobmanager.execution.failover-strategy": graph.failover_strategy.value,
            "task.cancellation.interval": cancellation.interval_ms,
            "task.cancellation.timeout": cancellation.timeout_ms,
            "metrics.latency.interval": _ms(graph.latency_tracking_interval_ms),
            **_restart_strategy(graph.restart_strategy),
            **_checkpointing(graph.checkpointing),
        }
    )


def environment(of_process: ProcessEnvironment) -> Json:
    """Format the Python interpreter in place of Flink's JVM. There is no class path."""
    return {"jvm": {"version": of_process.version, "arch": of_process.arch, "options": []}, "classpath": []}


def _restart_strategy(strategy: RestartStrategyConfiguration) -> Mapping[str, Value]:
    kind = "restart-strategy.type"
    match strategy:
        case NoRestartStrategyConfiguration():
            return {kind: "disable"}
        case FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=delay_ms):
            of = "restart-strategy.fixed-delay"
            most = _WITHOUT_END if attempts is None else attempts
            return {kind: "fixed-delay", f"{of}.attempts": most, f"{of}.delay": _ms(delay_ms)}
        case FailureRateRestartStrategyConfiguration():
            of = "restart-strategy.failure-rate"
            return {
                kind: "failure-rate",
                f"{of}.max-failures-per-interval": strategy.max_failures,
                f"{of}.failure-rate-interval": _ms(strategy.interval_ms),
                f"{of}.delay": _ms(strategy.delay_ms),
            }
        case ExponentialDelayRestartStrategyConfiguration():
            of = "restart-strategy.exponential-delay"
            return {
                kind: "exponential-delay",
                f"{of}.initial-backoff": _ms(strategy.initial_backoff_ms),
                f"{of}.max-backoff": _ms(strategy.max_backoff_ms),
                f"{of}.backoff-multiplier": strategy.backoff_multiplier,
                f"{of}.reset-backoff-threshold": _ms(strategy.reset_backoff_threshold_ms),
                f"{of}.jitter-factor": strategy.jitter_factor,
            }


def _checkpointing(settings: CheckpointingSettings) -> Mapping[str, Value]:
    of = "execution.checkpointing"
    return {
        f"{of}.interval": _ms(settings.interval_ms),
        f"{of}.timeout": _ms(settings.timeout_ms),
        f"{of}.min-pause": _ms(settings.min_pause_ms),
        f"{of}.max-concurrent-checkpoints": settings.max_concurrent,
        f"{of}.tolerable-failed-checkpoints": settings.tolerable_failures,
        f"{of}.num-retained": settings.retained,
        f"{of}.externalized-checkpoint-retention": settings.retention.value,
        f"{of}.fsync": settings.fsync,
        f"{of}.mode": settings.mode.value,
        f"{of}.unaligned.enabled": settings.unaligned,
        f"{of}.aligned-checkpoint-timeout": _ms(settings.aligned_timeout_ms),
        f"{of}.dir": _place(settings.directory),
        f"{of}.savepoint-dir": _place(settings.savepoint_directory),
        "jobmanager.archive.fs.dir": _place(settings.archive_directory),
    }


def _settings_list(settings: Mapping[str, Value]) -> list[Json]:
    return [{"key": key, "value": _text(value)} for key, value in settings.items() if value is not None]


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ms(length: int | None) -> str | None:
    return None if length is None else f"{length} ms"


def _place(path: str | None) -> str | None:
    return None if path is None else masked_uri(path)
