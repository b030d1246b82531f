"""Attempts for the cases: a source without consumers, and a task that reads one partition."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.graph.job_graph import OperatorKind, TaskCancellationSettings
from flykka.messages.tasks.task import InputChannelDescriptor, InputGateDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import ExecutionAttemptId, partition_id
from flykka.messages.wire.ref import Ref
from tests.actors.machines.scheduling.descriptors import descriptor

PARTITION = partition_id(ExecutionAttemptId("job-1_producer_0_0"), 0)


def source_descriptor(cancellation: TaskCancellationSettings) -> TaskDeploymentDescriptor:
    return replace(descriptor("job_v_0_0"), task_cancellation=cancellation)


def consumer_descriptor() -> TaskDeploymentDescriptor:
    of_source = descriptor("job_v_0_0")
    (operator,) = of_source.vertex.operators
    channel = InputChannelDescriptor(partition_id=PARTITION, subpartition=0, task_manager=Ref("/user/tm-1", 1))
    return replace(
        of_source,
        vertex=replace(of_source.vertex, operators=(replace(operator, kind=OperatorKind.STATELESS),)),
        inputs=(InputGateDescriptor(gate=0, channels=(channel,)),),
    )
