"""The scenario of a simulation as explicit data. Unlike a seed, a scenario can be reduced part by part.

A seed draws a scenario, which is then run. Each fault draws its victim from its own seed, so that the victim does not
change if another fault is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
    JobType,
    RestartStrategyConfiguration,
    ScheduleMode,
)
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.simulation.settings import FaultKind
from flykka.simulation.topology import Topology

HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS = 2_000, 10_000
LATENCY_TRACKING_INTERVAL_MS = 700
QUICK_MS = (0, 0, 1, 5, 20)
"""Stage durations in milliseconds with which most rows are read before the first checkpoint."""
SLOW_MS = (5, 40, 120, 250)
"""Stage durations in milliseconds with which rows are read during checkpoints, and queued batches become state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that is injected right before any actor handles the `count`-th message of the class `before`.

    If `before` is None, the fault is injected `at_ms` after the submission of the job. Its victim is drawn from `seed`.
    """

    kind: FaultKind
    at_ms: int = 0
    before: type[Message] | None = None
    count: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """The plan of a job: its checkpoints, below the root of the simulation's files, and its faults.

    A vertex of parallelism n gets the nth value of `parallelism`, if it exists. If the job leaves a checkpoint,
    `goes_on` decides whether another job continues from it. After a stop with a checkpoint, another job always
    continues.
    """

    checkpointing: CheckpointingSettings
    faults: tuple[Fault, ...] = ()
    parallelism: tuple[int, ...] = ()
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster and its consecutive jobs. `seed` draws the order of turns and all durations.

    No job continues from a BATCH job, so a batch scenario has only one job.
    """

    seed: int
    topology: Topology
    jobs: tuple[JobPlan, ...]
    task_managers: int = 1
    stage_ms: tuple[int, ...] = QUICK_MS
    job_type: JobType = JobType.STREAMING
    failover_strategy: FailoverStrategyKind = FailoverStrategyKind.REGION
    coalesces_batches: bool = False
    local_recovery: bool = True
    approximate: bool = False
    """True for approximate local recovery: tasks upstream of a failed task continue, and rows are lost."""
    restart_strategy: RestartStrategyConfiguration = field(default_factory=FixedDelayRestartStrategyConfiguration)


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
