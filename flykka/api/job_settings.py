"""JobSettings: the settings that an environment applies to its jobs. The setters are methods of the environment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flykka.actors.machines.job_graph.job_graph_generator import RescalingSettings
from flykka.api.configuration.restart_strategies import FallbackRestartStrategyConfiguration, resolve_restart_strategy
from flykka.api.runtime_mode import RuntimeExecutionMode
from flykka.api.streams.program import one_of
from flykka.api.streams.stream_graph_generator import Defaults
from flykka.client.start_settings import StartSettings
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    CheckpointingSettings,
    ClientHeartbeatSettings,
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    InputDependencyConstraint,
    RestartStrategyConfiguration,
    TaskCancellationSettings,
)

_CHECKPOINTING = CheckpointingSettings(directory="")
_CLIENT_HEARTBEATS = ClientHeartbeatSettings(interval_ms=30_000, timeout_ms=180_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of an environment's jobs; `start` applies to the next job only.

    `is_retention_set` is True if the user set the retention. Jobs without a `failover_strategy` or `restart_strategy`
    use the cluster's strategies. A timeout or interval of 0 means that it is disabled.

    Raises:
        ProgramError: unaligned checkpoints are combined with settings that they do not support.
    """

    defaults: Defaults = field(default_factory=Defaults)
    checkpointing: CheckpointingSettings = _CHECKPOINTING
    is_retention_set: bool = False
    restart_strategy: RestartStrategyConfiguration | FallbackRestartStrategyConfiguration = field(
        default_factory=FallbackRestartStrategyConfiguration
    )
    failover_strategy: FailoverStrategyKind | None = None
    input_dependency_constraint: InputDependencyConstraint = InputDependencyConstraint.ANY
    rescaling: RescalingSettings = field(default_factory=RescalingSettings)
    task_cancellation: TaskCancellationSettings = field(default_factory=TaskCancellationSettings)
    stage_timeout_ms: int = 0
    latency_tracking_interval_ms: int = 0
    sql_state_ttl_ms: int | None = None
    rpc_timeout_ms: int = 10_000
    shuts_down_on_attached_exit: bool = False
    client_heartbeats: ClientHeartbeatSettings = _CLIENT_HEARTBEATS
    start: StartSettings = field(default_factory=StartSettings)

    def __post_init__(self) -> None:
        checkpointing = self.checkpointing
        if checkpointing.unaligned and checkpointing.mode is not CheckpointingMode.EXACTLY_ONCE:
            raise ProgramError(
                f"unaligned checkpoints need the checkpointing mode EXACTLY_ONCE, not {checkpointing.mode}: leave out"
                " set_checkpointing_mode, or enable_unaligned_checkpoints"
            )
        if checkpointing.unaligned and checkpointing.max_concurrent > 1:
            raise ProgramError(
                f"unaligned checkpoints cannot overlap: enable_checkpointing with max_concurrent=1, not"
                f" {checkpointing.max_concurrent}, or leave out enable_unaligned_checkpoints"
            )

    def with_field(self, path: str, value: object) -> JobSettings:
        name, _, inner = path.partition(".")
        changed: Any = replace(getattr(self, name), **{inner: value}) if inner else value
        return replace(self, **{name: changed})

    def with_runtime_mode(self, mode: RuntimeExecutionMode | str) -> JobSettings:
        return self.with_field("defaults.runtime_mode", one_of(RuntimeExecutionMode, mode, "runtime mode"))

    def with_retention(self, retention: ExternalizedCheckpointRetention | str) -> JobSettings:
        chosen = one_of(ExternalizedCheckpointRetention, retention, "retention of checkpoints")
        return replace(self.with_field("checkpointing.retention", chosen), is_retention_set=True)

    @property
    def attached_client_heartbeat(self) -> ClientHeartbeatSettings | None:
        """The heartbeats without which a job is cancelled; None if it needs no client. Raises `ProgramError`."""
        if not self.shuts_down_on_attached_exit:
            return None
        check_heartbeats(self.client_heartbeats)
        return self.client_heartbeats

    def resolved_restart_strategy(self, cluster: RestartStrategyConfiguration | None) -> RestartStrategyConfiguration:
        enabled = self.checkpointing.interval_ms is not None
        return resolve_restart_strategy(self.restart_strategy, cluster, is_checkpointing_enabled=enabled)


def check_heartbeats(heartbeats: ClientHeartbeatSettings) -> None:
    """Raise `ProgramError` if every client would be considered dead."""
    if heartbeats.timeout_ms <= heartbeats.interval_ms:
        raise ProgramError(
            f"the timeout of client heartbeats ({heartbeats.timeout_ms} ms) must be longer than their interval"
            f" ({heartbeats.interval_ms} ms): otherwise every client would time out"
        )
