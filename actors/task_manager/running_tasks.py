"""The part of a TaskManager that manages its Tasks, one per execution attempt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from flykka.actors.data_plane import DataPlane
from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.result_partition import KeptPartition, partition_not_found
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings, ShuffleEnvironment
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.actors.task.actor import Task
from flykka.messages.graph.job_graph import ResultPartitionType, TaskCancellationSettings
from flykka.messages.tasks import exchange
from flykka.messages.tasks.task import (
    FinishedPartition,
    KeepPartitions,
    PartitionsReleased,
    ReleasePartitions,
    TaskDeploymentDescriptor,
    TaskExecutionState,
)
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, ResultPartitionId, producer_of
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props

PartitionMessage = KeepPartitions | ReleasePartitions | PartitionsReleased

_NAME_LENGTH = 40


@dataclass(slots=True)
class RunningTask:
    """The Task of one attempt. If it finishes, its `to_keep` partitions outlive it."""

    attempt: ExecutionAttemptId
    job_id: JobId
    to_keep: tuple[ResultPartitionId, ...] = ()
    is_abandoned: bool = False
    reported_its_end: bool = False


class RunningTasks:
    """Used in the turns of one TaskManager only."""

    def __init__(
        self,
        context: ActorContext,
        data_plane: DataPlane,
        cancellation: TaskCancellationSettings,
        network: NetworkSettings | None = None,
    ) -> None:
        self._context = context
        self._data_plane = data_plane
        self._cancellation = cancellation
        self._refs: dict[ExecutionAttemptId, Ref] = {}
        self._tasks: dict[Ref, RunningTask] = {}
        self._network = ShuffleEnvironment(network)
        self._partitions = PartitionTracker(context, data_plane)
        self._redistribution_is_due = False
        self._spawned = 0

    def __contains__(self, attempt: ExecutionAttemptId) -> bool:
        return attempt in self._refs

    @property
    def keeps_results(self) -> bool:
        """True if a result of a finished Task is retained here and may still be read."""
        return not self._partitions.is_empty

    def run(self, descriptor: TaskDeploymentDescriptor, job_master: Gateway) -> None:
        """Run the attempt in a new Task with its share of the network buffers.

        Raises:
            NetworkBuffersExhaustedError: there are not enough buffers.
        """
        buffers = self._network.register_task(
            descriptor.attempt,
            [output.subpartitions for output in descriptor.outputs],
            [len(gate.channels) for gate in descriptor.inputs],
        )
        self._redistribute_later()
        self._spawned += 1
        props = Props(Task, replace(descriptor, buffers=buffers), job_master, self._data_plane, self._cancellation)
        task = self._context.spawn(props, f"{_readable(descriptor)}-{self._spawned}")
        self._context.watch(task)
        self._refs[descriptor.attempt] = task
        to_keep = tuple(
            output.partition_id
            for output in descriptor.outputs
            if output.partition_type is ResultPartitionType.BLOCKING
        )
        self._tasks[task] = RunningTask(descriptor.attempt, descriptor.job_id, to_keep)

    def redistribute(self) -> None:
        self._redistribution_is_due = False
        for attempt, buffers in self._network.take_resized().items():
            self._refs[attempt].tell(exchange.BuffersResized(buffers=buffers))

    def _redistribute_later(self) -> None:
        # Many Tasks start and end together, so all shares are computed once for all of them.
        if not self._network.is_settled and not self._redistribution_is_due:
            self._redistribution_is_due = True
            self._context.ref.tell(exchange.RedistributionDue())

    def forward(self, attempt: ExecutionAttemptId, message: Message) -> None:
        task = self._refs.get(attempt)
        if task is None:
            self._context.unhandled(message)
        else:
            task.tell(message)

    def serve(self, request: exchange.PartitionRequest) -> None:
        """Forward a consumer's request to the producing Task, or serve it from a retained partition."""
        if request.partition_id in self._partitions:
            self._partitions.serve(request)
            return
        producer = self._refs.get(producer_of(request.partition_id))
        is_unfinished = producer is not None and request.partition_id in self._tasks[producer].to_keep
        if producer is not None and not is_unfinished:
            producer.tell(request)
            return
        text = f"the partition is not {'finished' if is_unfinished else 'produced'} at {self._context.path}"
        request.consumer.tell(partition_not_found(request.partition_id, request.subpartition, text))

    def on_consumer(self, message: exchange.AddCredit | exchange.CancelPartitionRequest) -> None:
        self._partitions.on_consumer(message)

    def on_message(self, message: PartitionMessage) -> None:
        match message:
            case KeepPartitions(attempt=attempt, partitions=partitions):
                finished = self._tasks[self._refs[attempt]]
                if not finished.is_abandoned:
                    self._partitions.keep(finished.job_id, partitions)
                    finished.to_keep = ()
            case ReleasePartitions(job_id=job_id, partition_ids=partition_ids):
                self._partitions.release(job_id, partition_ids)
            case PartitionsReleased():
                self._partitions.note(message)
            case _:
                assert_never(message)

    def release_job(self, job_id: JobId) -> None:
        """Release all results of a job whose JobMaster has gone, because no task will read them."""
        for task in self._tasks.values():
            task.is_abandoned = task.is_abandoned or task.job_id == job_id
        self._partitions.release_job(job_id)

    def note(self, reached: TaskExecutionState) -> None:
        task = self._refs.get(reached.attempt)
        if task is not None and reached.state in EXECUTION_TERMINAL:
            self._tasks[task].reported_its_end = True

    def remove(self, ref: Ref) -> RunningTask | None:
        """Remove the Task of an ended actor. Returns None if the actor was no Task."""
        ended = self._tasks.pop(ref, None)
        if ended is not None:
            del self._refs[ended.attempt]
            self._network.unregister_task(ended.attempt)
            self._redistribute_later()
            # The Task did not finish, so rows already written to these partitions are of no use.
            self._partitions.release(ended.job_id, ended.to_keep)
        return ended


def _readable(descriptor: TaskDeploymentDescriptor) -> str:
    """Return a readable actor name: `map-sink-0.1` is attempt 1 of subtask 0. The caller appends a unique number."""
    words = re.sub(r"[^a-z0-9]+", "-", descriptor.vertex.name.lower())[:_NAME_LENGTH].strip("-") or "task"
    return f"{words}-{descriptor.subtask}.{descriptor.attempt_number}"


class PartitionTracker:
    """The results of finished Tasks, which any consumer may read repeatedly.

    A BLOCKING partition is retained from the end of its Task until the JobMaster releases it or has gone. Its rows are
    in the data plane, which frees them. Follows Flink's NettyShuffleEnvironment and its ResultPartitionManager.
    """

    def __init__(self, context: ActorContext, data_plane: DataPlane) -> None:
        self._context = context
        self._data_plane = data_plane
        self._partitions: dict[ResultPartitionId, KeptPartition] = {}
        self._of_job: dict[JobId, dict[ResultPartitionId, None]] = {}

    def __contains__(self, partition_id: ResultPartitionId) -> bool:
        return partition_id in self._partitions

    @property
    def is_empty(self) -> bool:
        return not self._of_job

    def keep(self, job_id: JobId, partitions: Iterable[FinishedPartition]) -> None:
        for finished in partitions:
            self._partitions[finished.descriptor.partition_id] = KeptPartition(finished)
            self._of_job.setdefault(job_id, {})[finished.descriptor.partition_id] = None

    def serve(self, request: exchange.PartitionRequest) -> None:
        self._perform(self._partitions[request.partition_id].request(request))

    def on_consumer(self, message: exchange.AddCredit | exchange.CancelPartitionRequest) -> None:
        partition = self._partitions.get(message.partition_id)
        if partition is None:
            return  # The partition was released meanwhile.
        match message:
            case exchange.AddCredit():
                self._perform(partition.add_credit(message, self._context.sender))
            case exchange.CancelPartitionRequest():
                self._perform(partition.cancel(message, self._context.sender))

    def release(self, job_id: JobId, partition_ids: Iterable[ResultPartitionId]) -> None:
        """Release partitions. They may be unknown here, or only partly written."""
        released = tuple(partition_ids)
        partitions = self._of_job.get(job_id, {})
        for partition_id in released:
            self._partitions.pop(partition_id, None)
            partitions.pop(partition_id, None)
        if not partitions:
            self._of_job.pop(job_id, None)
        if released:
            self._context.pipe_to_self(
                partial(self._data_plane.release_partitions, job_id, released),
                lambda _: PartitionsReleased(partition_ids=released),
                lambda error: PartitionsReleased(partition_ids=released, cause=serialized(error)),
            )

    def release_job(self, job_id: JobId) -> None:
        self.release(job_id, self._of_job.get(job_id, {}))

    def note(self, released: PartitionsReleased) -> None:
        """Publish the event if the data plane could not free partitions. They are freed when the job ends."""
        if released.cause is not None:
            self._context.publish(released)

    def _perform(self, effects: Iterable[PartitionEffect]) -> None:
        for effect in effects:
            match effect:
                case Tell(to=consumer, message=response):
                    consumer.tell(response)
                case ReleaseBatch():
                    raise AssertionError("a finished partition cannot release a single batch")
                case Ignore():
                    pass
                case _:
                    assert_never(effect)
