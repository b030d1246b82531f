"""Builders of job graphs and machines for tests. Every argument has a default, so that a test specifies only what
matters.
"""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.job_graph.operator_ids import operator_id
from flykka.actors.machines.slots.slot_requests import AssignedSlot
from flykka.messages.control.job import CancelJob
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    JobEdge,
    JobGraph,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
    RestartStrategyConfiguration,
    ShipStrategy,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, JobId, JobVertexId, OperatorId, TaskManagerId
from flykka.messages.wire.ref import Ref

JOB = JobId("job")
CANCEL = CancelJob(job_id=JOB, client=Ref(path="/user/client", incarnation=1))
HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS = 10_000, 50_000


def vertex(
    name: str,
    parallelism: int = 1,
    *,
    reads: tuple[str, ...] = (),
    outputs: int = 0,
    ship_strategy: ShipStrategy = ShipStrategy.REBALANCE,
    group: str = "default",
) -> JobVertex:
    """Return a vertex of one operator that reads output 0 of each vertex named in `reads`."""
    return JobVertex(
        vertex_id=JobVertexId(name),
        name=name,
        operators=(
            Operator(
                operator_id=OperatorId(name),
                ref=OperatorRef(uid=name, fingerprint=""),
                name=name,
                kind=OperatorKind.STATELESS if reads else OperatorKind.SOURCE,
            ),
        ),
        parallelism=parallelism,
        max_parallelism=128,
        inputs=tuple(
            JobEdge(source=JobVertexId(source), source_output=0, ship_strategy=ship_strategy) for source in reads
        ),
        outputs=(OperatorId(name),) * outputs,
        slot_sharing_group=group,
    )


def graph_of(
    *vertices: JobVertex,
    restart: RestartStrategyConfiguration | None = None,
    failover: FailoverStrategyKind = FailoverStrategyKind.FULL,
) -> JobGraph:
    """Return a job of these vertices; by default a failure of one task is a failure of the job."""
    return JobGraph(
        job_id=JOB,
        name="job",
        vertices=vertices,
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
        restart_strategy=restart or FixedDelayRestartStrategyConfiguration(),
        failover_strategy=failover,
    )


def with_uids(graph: JobGraph) -> JobGraph:
    """Return the same job with a uid for every operator, and with the ids derived from these uids."""
    return replace(
        graph,
        vertices=tuple(
            replace(
                each,
                operators=tuple(
                    replace(operator, operator_id=operator_id(operator.ref.uid)) for operator in each.operators
                ),
            )
            for each in graph.vertices
        ),
    )


def slot(name: str = "a1", task_manager: str = "tm-1") -> AssignedSlot:
    return AssignedSlot(
        allocation_id=AllocationId(name),
        task_manager_id=TaskManagerId(task_manager),
        task_manager=Ref(f"/user/{task_manager}", 1),
    )


def failure(message: str = "boom", *, suppress_restarts: bool = False) -> SerializedThrowable:
    return SerializedThrowable(type_name="TestError", message=message, suppress_restarts=suppress_restarts)
