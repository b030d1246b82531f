"""The measured topologies: the numbers of sources and sinks, and their edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from flykka.cluster.cluster_settings import HEARTBEAT_INTERVAL_MS
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobEdge,
    JobGraph,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId

NEVER_MS = 24 * 3_600_000
"""The interval of periodic checkpoints in ms: they are enabled, but none is due during the measurement."""

TASK_MANAGERS = 4

MAX_PARALLELISM = 32_768

HEARTBEAT_TIMEOUT_MS = 50_000
"""Flink's timeout in ms. On a busy machine ten thousand tasks may need more than a local cluster's 10 s to start."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A job with `parallelism` sources and as many sinks, and its numbers of warm-up and measured checkpoints.

    `target_ms` is the upper limit of the median, `flink_ms` the time of Flink 2.3 on two similar cores with a keyed
    shuffle, `submit_target_s` the maximum time from the submission until every task runs.
    """

    name: str
    parallelism: int
    wiring: ShipStrategy
    checkpoints: int
    warm_up: int
    target_ms: float | None = None
    flink_ms: float | None = None
    submit_target_s: float | None = None

    @property
    def tasks(self) -> int:
        return 2 * self.parallelism

    @property
    def channels(self) -> int:
        return self.parallelism if self.wiring is ShipStrategy.FORWARD else self.parallelism**2

    @property
    def slots_per_task_manager(self) -> int:
        """The number of slots per TaskManager; a source and a sink share a slot."""
        return -(-self.parallelism // TASK_MANAGERS)

    def scaled(self, scale: float) -> Self:
        """Return the topology with `scale` times the checkpoints, at least one."""
        return replace(self, checkpoints=max(1, round(self.checkpoints * scale)), warm_up=round(self.warm_up * scale))


TOPOLOGIES = (
    Topology(
        name="16",
        parallelism=8,
        wiring=ShipStrategy.FORWARD,
        checkpoints=200,
        warm_up=50,
        target_ms=2.0,
        flink_ms=4.0,
        submit_target_s=0.5,
    ),
    Topology(
        name="256",
        parallelism=128,
        wiring=ShipStrategy.FORWARD,
        checkpoints=50,
        warm_up=10,
        target_ms=20.0,
        flink_ms=96.0,
    ),
    Topology(
        name="10000",
        parallelism=5_000,
        wiring=ShipStrategy.FORWARD,
        checkpoints=10,
        warm_up=2,
        target_ms=800.0,
        submit_target_s=5.0,
    ),
    Topology(
        name="128x128",
        parallelism=128,
        wiring=ShipStrategy.HASH,
        checkpoints=30,
        warm_up=5,
        target_ms=200.0,
        flink_ms=96.0,
    ),
)


def topology_named(name: str) -> Topology:
    """Return the measured topology with this name, or a pointwise topology with this number of tasks."""
    known = {each.name: each for each in TOPOLOGIES}
    return known.get(name) or Topology(
        name=name, parallelism=int(name) // 2, wiring=ShipStrategy.FORWARD, checkpoints=30, warm_up=10
    )


def job_graph(topology: Topology, directory: str) -> JobGraph:
    """Create a job whose sources read nothing, because a checkpoint of an idle job measures only the control plane."""
    return JobGraph(
        job_id=JobId(topology.name.encode().hex().zfill(32)),
        name=f"{topology.name} tasks",
        vertices=(
            _vertex("source", OperatorKind.SOURCE, topology, outputs=1),
            _vertex("sink", OperatorKind.SINK, topology, reads="source"),
        ),
        checkpointing=CheckpointingSettings(directory=directory, interval_ms=NEVER_MS),
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
    )


def _vertex(
    name: str, kind: OperatorKind, topology: Topology, *, outputs: int = 0, reads: str | None = None
) -> JobVertex:
    operator = Operator(operator_id=OperatorId(name), ref=OperatorRef(uid=name, fingerprint=name), name=name, kind=kind)
    edge = None if reads is None else JobEdge(source=JobVertexId(reads), source_output=0, ship_strategy=topology.wiring)
    return JobVertex(
        vertex_id=JobVertexId(name),
        name=name,
        operators=(operator,),
        parallelism=topology.parallelism,
        max_parallelism=MAX_PARALLELISM,
        inputs=() if edge is None else (edge,),
        outputs=(operator.operator_id,) * outputs,
    )
