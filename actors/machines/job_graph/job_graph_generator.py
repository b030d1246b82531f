"""Translates the program into the submitted graph: chains become vertices (Flink's StreamingJobGraphGenerator).

Decides on names, on the number of key groups of a vertex, on pipelined or blocking outputs, and whether the windows of
a vertex may wait for a checkpoint. `operator_ids` determines the ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.broadcast_inputs import feeding_broadcast_variables
from flykka.actors.machines.job_graph.chaining import Chain, chains
from flykka.actors.machines.job_graph.operator_ids import operator_ids, vertex_id
from flykka.actors.machines.job_graph.stream_graph import ExchangeMode, StreamEdge, StreamGraph, StreamNode
from flykka.actors.machines.job_graph.validation import check_approximate, fixed_parallelism
from flykka.actors.machines.slots.resource_profile import total_of
from flykka.actors.machines.state.key_groups import VertexParallelism
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FailoverStrategyKind,
    FiringMode,
    FixedDelayRestartStrategyConfiguration,
    InputDependencyConstraint,
    JobEdge,
    JobGraph,
    JobType,
    JobVertex,
    Operator,
    OperatorKind,
    RestartStrategyConfiguration,
    ResultPartitionType,
    SchedulerType,
    TaskCancellationSettings,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId

_PREFIX = {OperatorKind.SOURCE: "Source: ", OperatorKind.SINK: "Sink: "}


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalingSettings:
    """The scheduler of streaming jobs, and when it rescales."""

    scheduler_type: SchedulerType = SchedulerType.DEFAULT
    resource_wait_timeout_ms: int = 10_000
    rescale_cooldown_ms: int = 30_000


def job_graph(
    stream_graph: StreamGraph,
    *,
    job_id: JobId,
    name: str,
    checkpointing: CheckpointingSettings,
    heartbeat_interval_ms: int,
    heartbeat_timeout_ms: int,
    restart_strategy: RestartStrategyConfiguration | None = None,
    task_cancellation: TaskCancellationSettings | None = None,
    latency_tracking_interval_ms: int | None = None,
    stage_timeout_ms: int | None = None,
    failover_strategy: FailoverStrategyKind = FailoverStrategyKind.REGION,
    input_dependency_constraint: InputDependencyConstraint = InputDependencyConstraint.ANY,
    rescaling: RescalingSettings | None = None,
) -> JobGraph:
    """Return the job graph of a program. Raises `GraphError`, naming the uid, if the program is invalid."""
    if not stream_graph.nodes:
        raise GraphError(f"the program of job {name!r} has no operator")
    program_chains = chains(stream_graph)
    rescaling = rescaling or RescalingSettings()
    ids = operator_ids(stream_graph)
    wiring = _Wiring(
        feeding=feeding_broadcast_variables(stream_graph),
        operator_ids=ids,
        vertex_ids={node.uid: vertex_id(ids[chain.head.uid]) for chain in program_chains for node in chain.nodes},
        output_numbers={edge: number for chain in program_chains for number, edge in enumerate(chain.outputs)},
    )
    graph = JobGraph(
        job_id=job_id,
        name=name,
        vertices=with_managed_memory([_vertex(stream_graph, chain, wiring) for chain in program_chains]),
        # A batch job takes one checkpoint, at its end.
        checkpointing=replace(checkpointing, interval_ms=None)
        if stream_graph.job_type is JobType.BATCH
        else checkpointing,
        restart_strategy=restart_strategy or FixedDelayRestartStrategyConfiguration(),
        heartbeat_interval_ms=heartbeat_interval_ms,
        heartbeat_timeout_ms=heartbeat_timeout_ms,
        schedule_mode=stream_graph.schedule_mode,
        job_type=stream_graph.job_type,
        task_cancellation=task_cancellation or TaskCancellationSettings(),
        latency_tracking_interval_ms=latency_tracking_interval_ms,
        stage_timeout_ms=stage_timeout_ms,
        coalesces_batches=stream_graph.coalesces_batches,
        mini_batch_latency_ms=stream_graph.mini_batch_latency_ms,
        failover_strategy=failover_strategy,
        input_dependency_constraint=input_dependency_constraint,
        # A batch job runs its tasks one after the other, with any number of slots.
        scheduler_type=SchedulerType.DEFAULT if stream_graph.job_type is JobType.BATCH else rescaling.scheduler_type,
        resource_wait_timeout_ms=rescaling.resource_wait_timeout_ms,
        rescale_cooldown_ms=rescaling.rescale_cooldown_ms,
    )
    if stream_graph.approximate_local_recovery:
        check_approximate(graph)
    if graph.scheduler_type is SchedulerType.ADAPTIVE and (why := fixed_parallelism(graph)) is not None:
        raise GraphError(f"the adaptive scheduler does not support this job: {why}")
    return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wiring:
    """The ids by which vertices and operators refer to each other: by uid, and by edge for the outputs.

    Operators with the uids `feeding` only produce broadcast variables.
    """

    feeding: frozenset[str]
    operator_ids: dict[str, OperatorId]
    vertex_ids: dict[str, JobVertexId]
    output_numbers: dict[StreamEdge, int]


def _vertex(graph: StreamGraph, chain: Chain, wiring: _Wiring) -> JobVertex:
    head = chain.head
    own_id = wiring.vertex_ids[head.uid]
    parallelism = _parallelism(head)
    return JobVertex(
        vertex_id=own_id,
        name=_name(chain),
        operators=tuple(_operator(node, reads, wiring) for node, reads in zip(chain.nodes, chain.reads, strict=True)),
        parallelism=parallelism.parallelism,
        max_parallelism=parallelism.max_parallelism,
        is_max_parallelism_configured=parallelism.is_max_configured,
        inputs=tuple(_edge(graph, edge, wiring) for edge in chain.inputs),
        outputs=tuple(wiring.operator_ids[edge.source_uid] for edge in chain.outputs),
        # If slots are not shared, every vertex has its own sharing group.
        slot_sharing_group=chain.group,
        firing_mode=_firing_mode(graph, chain, feeds_broadcast_variables=head.uid in wiring.feeding),
        watermark_delay_ms=head.watermark_delay_ms,
        idle_timeout_ms=head.idle_timeout_ms,
        quiet_period_ms=head.quiet_period_ms,
        watermark_alignment=head.watermark_alignment,
        feeds_broadcast_variables=head.uid in wiring.feeding,
        on_monotony_violation=head.on_monotony_violation,
        punctuated_watermarks=head.punctuated_watermarks,
        co_location_group=_co_location_group(chain),
        parallelism_limit=min(
            (node.parallelism_limit for node in chain.nodes if node.parallelism_limit is not None), default=None
        ),
        resources=total_of(node.resources for node in chain.nodes),
    )


def _operator(node: StreamNode, reads: int | None, wiring: _Wiring) -> Operator:
    return Operator(
        operator_id=wiring.operator_ids[node.uid],
        ref=node.ref,
        name=node.name,
        kind=node.kind,
        input_operator=reads,
        state_schema=node.state_schema,
        user_defined_operator_id=None if node.uid_hash is None else OperatorId(node.uid_hash),
        has_coordinator=node.has_coordinator,
    )


def _edge(graph: StreamGraph, edge: StreamEdge, wiring: _Wiring) -> JobEdge:
    return JobEdge(
        source=wiring.vertex_ids[edge.source_uid],
        source_output=wiring.output_numbers[edge],
        ship_strategy=edge.ship_strategy,
        key_by=edge.key_by,
        result_partition_type=_result_partition_type(graph, edge),
        broadcast_variable=edge.broadcast_variable,
    )


def _result_partition_type(graph: StreamGraph, edge: StreamEdge) -> ResultPartitionType:
    match edge.exchange_mode:
        case ExchangeMode.BATCH:
            return ResultPartitionType.BLOCKING
        case _ if graph.job_type is JobType.BATCH:
            return ResultPartitionType.BLOCKING
        case _ if graph.approximate_local_recovery:
            return ResultPartitionType.PIPELINED_APPROXIMATE
        case _:
            return ResultPartitionType.PIPELINED_BOUNDED


def _parallelism(head: StreamNode) -> VertexParallelism:
    try:
        return VertexParallelism.of(head.parallelism, head.max_parallelism)
    except GraphError as refused:
        raise GraphError(f"{head.uid!r}: {refused}") from refused


def _co_location_group(chain: Chain) -> str | None:
    uid_by_group = {node.co_location_group: node.uid for node in chain.nodes if node.co_location_group is not None}
    if len(uid_by_group) > 1:
        groups = ", ".join(f"{group!r} ({uid})" for group, uid in uid_by_group.items())
        raise GraphError(f"operators that run in one task belong to two co-location groups: {groups}")
    return next(iter(uid_by_group), None)


def _name(chain: Chain) -> str:
    """Return Flink's name of a chain: `Source: a -> b`, and `a -> (b, c)` for branches."""
    readers: dict[int, list[int]] = {}
    for place, reads in enumerate(chain.reads):
        if reads is not None:
            readers.setdefault(reads, []).append(place)
    # Readers come after their inputs, so in reverse order every name is complete when it is used.
    names = [_PREFIX.get(node.kind, "") + node.name for node in chain.nodes]
    for place in reversed(range(len(names))):
        following = [names[reader] for reader in readers.get(place, ())]
        if len(following) == 1:
            names[place] += f" -> {following[0]}"
        elif following:
            names[place] += f" -> ({', '.join(following)})"
    return names[0]


def _firing_mode(graph: StreamGraph, chain: Chain, *, feeds_broadcast_variables: bool) -> FiringMode:
    firing = [node for node in chain.nodes if node.event_time]
    if graph.job_type is JobType.BATCH or feeds_broadcast_variables:
        # A batch job emits only the end of event time, and operators that produce variables finish before any
        # checkpoint.
        return FiringMode.ON_WATERMARK
    if firing and all(_may_fire_late(graph, node) for node in firing):
        return FiringMode.ON_CHECKPOINT
    return FiringMode.ON_WATERMARK


def _is_checkpointed(node: StreamNode) -> bool:
    return node.kind is OperatorKind.STATELESS and node.state_schema is not None


def _may_fire_late(graph: StreamGraph, node: StreamNode) -> bool:
    """Return True if delaying windows until the checkpoint has no visible effect: there are no event-time operators
    downstream, and all sinks publish per checkpoint.

    Timers of functions must not be delayed: rows that arrive meanwhile would see state that the timers have yet to
    change. No downstream function may have operator state: the checkpoint would contain this state without the effect
    of the delayed rows.
    """
    downstream = list(graph.downstream(node.uid))
    sinks = [reached for reached in downstream if reached.kind is OperatorKind.SINK]
    return (
        node.kind is OperatorKind.WINDOW_AGGREGATE
        and bool(sinks)
        and all(sink.publishes_per_checkpoint for sink in sinks)
        and not any(reached.event_time or _is_checkpointed(reached) for reached in downstream)
    )


def with_managed_memory(vertices: Sequence[JobVertex]) -> tuple[JobVertex, ...]:
    """Divide the managed memory of a slot among the tasks that share it (Flink's managedMemFraction).

    Every operator with keyed state gets an equal share, and a task gets the shares of its operators.
    """
    users: Counter[str] = Counter()
    for vertex in vertices:
        users[vertex.slot_sharing_group] += _users(vertex)
    return tuple(
        replace(vertex, managed_memory_fraction=own / users[vertex.slot_sharing_group])
        if (own := _users(vertex))
        else vertex
        for vertex in vertices
    )


def _users(vertex: JobVertex) -> int:
    return sum(operator.kind.keeps_keyed_state for operator in vertex.operators)
