"""From the program to what is submitted: chains become vertices (Flink's StreamingJobGraphGenerator).

Decided here: names and ids, how many key groups a vertex has, and whether its windows may wait for a checkpoint. Ids
depend on uids alone, so that the same application finds its state again.
"""

from __future__ import annotations

from hashlib import blake2b

from flykka.actors.errors import GraphError
from flykka.actors.graph.chaining import Chain, chains
from flykka.actors.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flykka.messages.ids import JobId, JobVertexId, OperatorId
from flykka.messages.job_graph import (
    CheckpointingSettings,
    FiringMode,
    JobEdge,
    JobGraph,
    JobVertex,
    Operator,
    OperatorKind,
    RestartStrategyConfiguration,
)

_PREFIX = {OperatorKind.SOURCE: "Source: ", OperatorKind.SINK: "Sink: "}


def job_graph(
    stream_graph: StreamGraph,
    *,
    job_id: JobId,
    name: str,
    checkpointing: CheckpointingSettings,
    heartbeat_interval_ms: int,
    heartbeat_timeout_ms: int,
    restart_strategy: RestartStrategyConfiguration | None = None,
    chaining_enabled: bool = True,
) -> JobGraph:
    """The job graph of a program. Raises `GraphError`, naming the uid, where the program cannot be built."""
    if not stream_graph.nodes:
        raise GraphError(f"the program of job {name!r} has no operator")
    made = chains(stream_graph, enabled=chaining_enabled)
    vertex_of = {node.uid: vertex_id(chain.head.uid) for chain in made for node in chain.nodes}
    output_number = {edge: number for chain in made for number, edge in enumerate(chain.outputs)}
    return JobGraph(
        job_id=job_id,
        name=name,
        vertices=tuple(_vertex(stream_graph, chain, vertex_of, output_number) for chain in made),
        checkpointing=checkpointing,
        restart_strategy=restart_strategy or RestartStrategyConfiguration(),
        heartbeat_interval_ms=heartbeat_interval_ms,
        heartbeat_timeout_ms=heartbeat_timeout_ms,
    )


def operator_id(uid: str) -> OperatorId:
    """The stable id of an operator: state is found by it when the application runs again."""
    return OperatorId(_hash(uid))


def vertex_id(head_uid: str) -> JobVertexId:
    """The id of the vertex whose chain begins with this operator."""
    return JobVertexId(_hash(head_uid))


def derived_max_parallelism(parallelism: int) -> int:
    """Flink's default number of key groups: 1.5 times the parallelism, up to a power of two, within bounds."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), 128), 32_768)


def _hash(uid: str) -> str:
    return blake2b(uid.encode(), digest_size=8).hexdigest()


def _vertex(
    graph: StreamGraph,
    chain: Chain,
    vertex_of: dict[str, JobVertexId],
    output_number: dict[StreamEdge, int],
) -> JobVertex:
    head = chain.head
    max_parallelism = head.max_parallelism or derived_max_parallelism(head.parallelism)
    if max_parallelism < head.parallelism:
        raise GraphError(
            f"the maximum parallelism {max_parallelism} is below the parallelism {head.parallelism} of {head.uid!r}"
        )
    return JobVertex(
        vertex_id=vertex_of[head.uid],
        name=_name(chain),
        operators=tuple(
            Operator(
                operator_id=operator_id(node.uid), ref=node.ref, name=node.name, kind=node.kind, input_operator=reads
            )
            for node, reads in zip(chain.nodes, chain.reads, strict=True)
        ),
        parallelism=head.parallelism,
        max_parallelism=max_parallelism,
        inputs=tuple(
            JobEdge(
                source=vertex_of[edge.source_uid],
                source_output=output_number[edge],
                ship_strategy=edge.ship_strategy,
                key_by=edge.key_by,
            )
            for edge in chain.inputs
        ),
        outputs=tuple(operator_id(edge.source_uid) for edge in chain.outputs),
        slot_sharing_group=chain.group,
        firing_mode=_firing_mode(graph, chain),
        watermark_delay_ms=head.watermark_delay_ms,
        idle_timeout_ms=head.idle_timeout_ms,
    )


def _name(chain: Chain) -> str:
    """Flink's way to name a chain: `Source: a -> b`, and `a -> (b, c)` where it branches."""
    readers: dict[int, list[int]] = {}
    for place, reads in enumerate(chain.reads):
        if reads is not None:
            readers.setdefault(reads, []).append(place)
    # Readers stand behind what they read: from the back, every name that is needed is already there.
    names = [_PREFIX.get(node.kind, "") + node.name for node in chain.nodes]
    for place in reversed(range(len(names))):
        following = [names[reader] for reader in readers.get(place, ())]
        if len(following) == 1:
            names[place] += f" -> {following[0]}"
        elif following:
            names[place] += f" -> ({', '.join(following)})"
    return names[0]


def _firing_mode(graph: StreamGraph, chain: Chain) -> FiringMode:
    firing = [node for node in chain.nodes if node.event_time]
    if firing and all(_may_fire_late(graph, node) for node in firing):
        return FiringMode.ON_CHECKPOINT
    return FiringMode.ON_WATERMARK


def _may_fire_late(graph: StreamGraph, node: StreamNode) -> bool:
    """Whether nobody can tell that windows wait for the checkpoint: no event time behind, no sink shows rows."""
    downstream = list(graph.downstream(node.uid))
    sinks = [reached for reached in downstream if reached.kind is OperatorKind.SINK]
    return (
        bool(sinks)
        and all(sink.publishes_per_checkpoint for sink in sinks)
        and not any(reached.event_time for reached in downstream)
    )
