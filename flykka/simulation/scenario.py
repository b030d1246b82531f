"""The scenario of a simulation, written out: parts can be removed from it, which a seed does not allow.

A seed draws a scenario, and a scenario runs. Each fault draws whom it hits from a seed of its own, so that it stays as
it is when another one is taken away.
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
"""Jobs are short: most of their rows are read before the first checkpoint."""
SLOW_MS = (5, 40, 120, 250)
"""Checkpoints come while rows are read, and what waits in line becomes state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something happens: right before any actor handles the `count`-th message of the class `before`.

    Where no class is said, it happens `at_ms` behind the submission of the job. Whom it hits is drawn from `seed`.
    """

    kind: FaultKind
    at_ms: int = 0
    before: type[Message] | None = None
    count: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """The plan of a job: its checkpoints, below the root of the simulation's files, and the faults that happen to it.

    A vertex of parallelism n has the nth of `parallelism`, where there is one. Whether another job goes on from the
    checkpoint that this one leaves is said by `goes_on`; from one that it was stopped with another one does anyway.
    """

    checkpointing: CheckpointingSettings
    faults: tuple[Fault, ...] = ()
    parallelism: tuple[int, ...] = ()
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster, and jobs that follow each other. `seed` draws the order of turns and how long everything takes.

    Nothing goes on from a BATCH job, so there is one.
    """

    seed: int
    topology: Topology
    jobs: tuple[JobPlan, ...]
    task_managers: int = 1
    stage_ms: tuple[int, ...] = QUICK_MS
    """A stage takes one of these."""
    job_type: JobType = JobType.STREAMING
    failover_strategy: FailoverStrategyKind = FailoverStrategyKind.REGION
    coalesces_batches: bool = False
    local_recovery: bool = True
    approximate: bool = False
    """Tasks before one that has failed run on, and rows are lost."""
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
