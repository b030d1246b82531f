"""Slot requests and deployment descriptors of attempts: their partitions, gates and state."""

from __future__ import annotations

from collections.abc import Mapping

from flykka.actors.machines.graph.execution_job_vertex import Consumer, ExecutionJobVertex, ExecutionVertex
from flykka.actors.machines.job_graph.wiring import POINTWISE, channels, pointwise_producers, subpartitions
from flykka.actors.machines.slots.slot_requests import CoLocationConstraint, SlotRequest
from flykka.messages.control.checkpoint_coordination import CoordinatedTask
from flykka.messages.graph.job_graph import JobEdge, JobGraph, ResultPartitionType
from flykka.messages.tasks.task import (
    InputChannelDescriptor,
    InputGateDescriptor,
    ResultPartitionDescriptor,
    TaskDeploymentDescriptor,
)
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, partition_id

Vertices = Mapping[JobVertexId, ExecutionJobVertex]

REPORTS_PER_SECOND = 1_000
"""The maximum number of metric reports from all tasks of a job: 10,000 tasks report every ten seconds, as in Flink."""


def deployment_descriptor(
    job_graph: JobGraph,
    vertices: Vertices,
    vertex: ExecutionVertex,
) -> TaskDeploymentDescriptor:
    """Return the descriptor of a subtask's current attempt. This attempt and those that it reads must have slots."""
    execution = vertex.execution
    assert execution.slot is not None, f"{execution.attempt} is deployed without a slot"
    consumers = vertices[vertex.job_vertex.vertex_id].consumers
    return TaskDeploymentDescriptor(
        job_id=job_graph.job_id,
        attempt=execution.attempt,
        attempt_number=execution.number,
        vertex=vertex.job_vertex,
        subtask=vertex.subtask,
        allocation_id=execution.slot.allocation_id,
        outputs=tuple(_output(vertex, output, consumers[output]) for output in sorted(consumers)),
        inputs=tuple(_gate(vertices, vertex, gate, edge) for gate, edge in enumerate(vertex.job_vertex.inputs)),
        checkpoint_directory=job_graph.checkpointing.directory,
        restore=execution.restore,
        restored_checkpoint_id=execution.restored_checkpoint_id,
        metrics_interval_ms=max(job_graph.heartbeat_interval_ms, _tasks(job_graph) * 1_000 // REPORTS_PER_SECOND),
        latency_tracking_interval_ms=job_graph.latency_tracking_interval_ms,
        task_cancellation=job_graph.task_cancellation,
        stage_timeout_ms=job_graph.stage_timeout_ms,
        coalesces_batches=job_graph.coalesces_batches,
        mini_batch_latency_ms=job_graph.mini_batch_latency_ms,
        checkpointing_mode=job_graph.checkpointing.mode,
        checkpoint_fsync=job_graph.checkpointing.fsync,
        job_type=job_graph.job_type,
    )


def _tasks(job_graph: JobGraph) -> int:
    return sum(vertex.parallelism for vertex in job_graph.vertices)


def coordinated_task(vertex: ExecutionVertex) -> CoordinatedTask:
    execution, job_vertex = vertex.execution, vertex.job_vertex
    assert execution.slot is not None, f"{execution.attempt} is coordinated without a slot"
    return CoordinatedTask(
        attempt=execution.attempt,
        vertex_id=execution.vertex_id,
        subtask=vertex.subtask,
        parallelism=job_vertex.parallelism,
        max_parallelism=job_vertex.max_parallelism,
        task_manager=execution.slot.task_manager,
        state=execution.state,
        # A task that reads only finished results receives no barriers.
        is_source=all(edge.result_partition_type is ResultPartitionType.BLOCKING for edge in job_vertex.inputs),
    )


def _output(vertex: ExecutionVertex, output: int, consumer: Consumer) -> ResultPartitionDescriptor:
    edge, reader = consumer.edge, consumer.job_vertex
    return ResultPartitionDescriptor(
        partition_id=partition_id(vertex.execution.attempt, output),
        output=output,
        subpartitions=subpartitions(
            edge.ship_strategy, vertex.job_vertex.parallelism, reader.parallelism, vertex.subtask
        ),
        ship_strategy=edge.ship_strategy,
        # Key groups belong to the state downstream of the edge, so the consumer determines their number.
        max_parallelism=reader.max_parallelism,
        key_by=edge.key_by,
        partition_type=edge.result_partition_type,
    )


def _gate(vertices: Vertices, vertex: ExecutionVertex, gate: int, edge: JobEdge) -> InputGateDescriptor:
    producers = vertices[edge.source].subtasks
    return InputGateDescriptor(
        gate=gate,
        consumed_partition_type=edge.result_partition_type,
        channels=tuple(
            _channel(producers[channel.producer], vertex, edge, channel.subpartition)
            for channel in channels(edge.ship_strategy, len(producers), vertex.job_vertex.parallelism, vertex.subtask)
        ),
    )


def _channel(
    producer: ExecutionVertex, reader: ExecutionVertex, edge: JobEdge, subpartition: int
) -> InputChannelDescriptor:
    execution = producer.execution
    assert execution.slot is not None, f"{execution.attempt} is the input of a deployed task but has no slot"
    return InputChannelDescriptor(
        partition_id=partition_id(execution.attempt, edge.source_output),
        subpartition=subpartition,
        task_manager=execution.slot.task_manager,
        reconnects=(reader.job_vertex.vertex_id, reader.subtask) in execution.readers,
    )


MAX_PRODUCERS_TO_BE_NEAR = 8
"""The number of input locations above which a consumer has no preferred location (Flink's
MAX_DISTINCT_LOCATIONS_TO_CONSIDER).
"""


def slot_request(vertices: Mapping[JobVertexId, ExecutionJobVertex], subtask: ExecutionVertex) -> SlotRequest:
    vertex = subtask.job_vertex
    group = vertex.co_location_group
    return SlotRequest(
        attempt=subtask.execution.attempt,
        vertex_id=vertex.vertex_id,
        subtask=subtask.subtask,
        slot_sharing_group=vertex.slot_sharing_group,
        co_location=CoLocationConstraint(group=group, index=subtask.subtask) if group is not None else None,
        resources=vertex.resources,
        inputs=_inputs(vertices, subtask),
    )


def _inputs(
    vertices: Mapping[JobVertexId, ExecutionJobVertex], subtask: ExecutionVertex
) -> tuple[ExecutionAttemptId, ...]:
    """Return the attempts whose output the subtask reads, beginning with the edge that has the fewest producers."""
    producers: list[list[ExecutionAttemptId]] = []
    for edge in subtask.job_vertex.inputs:
        upstream = vertices[edge.source].subtasks
        read = range(len(upstream))
        if edge.ship_strategy in POINTWISE:
            read = pointwise_producers(len(upstream), subtask.job_vertex.parallelism, subtask.subtask)
        if len(read) <= MAX_PRODUCERS_TO_BE_NEAR:
            producers.append([upstream[producer].execution.attempt for producer in read])
    return tuple(attempt for attempts in sorted(producers, key=len) for attempt in attempts)
