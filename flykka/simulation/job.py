"""Draws the settings of the jobs of a simulation: checkpoints, restarts, timeouts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from flykka.messages.graph.job_graph import (
    CheckpointFailureReason,
    CheckpointingMode,
    CheckpointingSettings,
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
    JobType,
    RestartStrategyConfiguration,
    ScheduleMode,
    TolerableFailures,
)
from flykka.messages.wire.ids import JobId
from flykka.simulation.topology import Topology

HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS = 2_000, 10_000
LATENCY_TRACKING_INTERVAL_MS = 700


def draw_checkpointing(chance: Random, directory: str, mode: CheckpointingMode | None = None) -> CheckpointingSettings:
    """Draw how a job takes checkpoints. A job that follows another has its `mode`."""
    is_at_least_once = chance.random() < 0.15 if mode is None else mode is CheckpointingMode.AT_LEAST_ONCE
    is_unaligned = not is_at_least_once and chance.random() < 0.5
    return CheckpointingSettings(
        directory=directory,
        interval_ms=chance.choice((100, 100, 300, 1_000)),
        timeout_ms=chance.choice((200, 2_000, 20_000)),
        min_pause_ms=chance.choice((0, 0, 150)),
        # As the API has it: barriers that overtake rows must not overtake each other.
        max_concurrent=1 if is_unaligned else chance.choice((1, 1, 2)),
        tolerable_failures=chance.choice((0, 3, 1_000)),
        retained=chance.choice((1, 1, 3)),
        retention=chance.choice(tuple(ExternalizedCheckpointRetention)),
        mode=CheckpointingMode.AT_LEAST_ONCE if is_at_least_once else CheckpointingMode.EXACTLY_ONCE,
        unaligned=is_unaligned,
        aligned_timeout_ms=chance.choice((0, 20)) if is_unaligned else 0,
    )


def vary_checkpointing(chance: Random, checkpointing: CheckpointingSettings) -> CheckpointingSettings:
    """Draw when the first checkpoint begins, which failed ones are tolerated by cause, and how many deletions run."""
    reasons = (CheckpointFailureReason.CHECKPOINT_EXPIRED, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE)
    tolerable = tuple(TolerableFailures(reason=reason, number=chance.choice((0, 2, 1_000))) for reason in reasons)
    return replace(
        checkpointing,
        initial_delay_ms=chance.choice((None, None, 0, 150)),
        has_random_initial_delay=chance.random() < 0.25,
        tolerable_by_reason=tolerable[: chance.choice((0, 0, 1, 2))],
        max_concurrent_deletions=chance.choice((1, 1, 2, 4)),
    )


def draw_restart_strategy(chance: Random) -> FixedDelayRestartStrategyConfiguration:
    """Draw how often a job is restarted: mostly without end."""
    attempts = chance.choice((None, None, None, None, 0, 2))
    return FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=chance.choice((50, 100, 500)))


def job_graph(
    job_id: JobId,
    topology: Topology,
    checkpointing: CheckpointingSettings,
    restart_strategy: RestartStrategyConfiguration,
    job_type: JobType = JobType.STREAMING,
    failover_strategy: FailoverStrategyKind = FailoverStrategyKind.REGION,
    *,
    coalesces_batches: bool = False,
) -> JobGraph:
    is_batch = job_type is JobType.BATCH
    return JobGraph(
        job_id=job_id,
        name=job_id,
        vertices=(topology.as_batch() if is_batch else topology).vertices,
        checkpointing=replace(checkpointing, interval_ms=None) if is_batch else checkpointing,
        job_type=job_type,
        schedule_mode=ScheduleMode.PIPELINED_REGION if is_batch else ScheduleMode.EAGER,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
        restart_strategy=restart_strategy,
        failover_strategy=failover_strategy,
        coalesces_batches=coalesces_batches,
        latency_tracking_interval_ms=LATENCY_TRACKING_INTERVAL_MS,
    )
