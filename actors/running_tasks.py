"""The part of a TaskManager that deals with its Tasks: one per execution attempt, found by the attempt."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from flykka.actors.data_plane import DataPlane
from flykka.actors.exchange.partition_errors import partition_not_found
from flykka.actors.exchange.shuffle_environment import NetworkSettings, ShuffleEnvironment
from flykka.actors.exchange.task_event_dispatcher import TaskEventDispatcher
from flykka.actors.graph.states import EXECUTION_TERMINAL
from flykka.actors.task import Task
from flykka.messages.exchange import (
    AddCredit,
    BuffersResized,
    CancelPartitionRequest,
    PartitionRequest,
    RedistributionDue,
    TaskEventMessage,
)
from flykka.messages.ids import ExecutionAttemptId, JobId, ResultPartitionId, producer_of
from flykka.messages.job_graph import TaskCancellationSettings
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.messages.task import TaskDeploymentDescriptor, TaskExecutionState
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props

ToProducer = AddCredit | CancelPartitionRequest | TaskEventMessage
"""What a consumer tells the Task that produces for it, through its TaskManager."""
TO_PRODUCER: tuple[type[ToProducer], ...] = (AddCredit, CancelPartitionRequest, TaskEventMessage)

_NAME_LENGTH = 40


@dataclass(slots=True)
class RunningTask:
    """The Task of one attempt."""

    attempt: ExecutionAttemptId
    job_id: JobId
    outputs: tuple[ResultPartitionId, ...] = ()
    reported_its_end: bool = False


class RunningTasks:
    """The Tasks by attempt and by ref; used in the turns of their TaskManager only."""

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
        self._dispatcher: TaskEventDispatcher[Ref, type[ToProducer]] = TaskEventDispatcher()
        self._network = ShuffleEnvironment(network)
        self._redistribution_is_due = False
        self._spawned = 0

    def __contains__(self, attempt: ExecutionAttemptId) -> bool:
        return attempt in self._refs

    def run(self, descriptor: TaskDeploymentDescriptor, job_master: Gateway) -> None:
        """Run the attempt in a Task of its own, with its share of the network buffers.

        Raises:
            InsufficientNetworkBuffersError: there is no share for it.
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
        outputs = tuple(output.partition_id for output in descriptor.outputs)
        self._tasks[task] = RunningTask(descriptor.attempt, descriptor.job_id, outputs)
        for partition_id in outputs:
            self._dispatcher.register_partition(partition_id)
            for kind in TO_PRODUCER:
                self._dispatcher.subscribe(partition_id, task, kind)

    def redistribute(self) -> None:
        """Tell the Tasks whose share of the network buffers has changed."""
        self._redistribution_is_due = False
        for attempt, buffers in self._network.take_resized().items():
            self._refs[attempt].tell(BuffersResized(buffers=buffers))

    def _redistribute_later(self) -> None:
        # Tasks come and go many at a time; the shares of all are worked out once for all of them.
        if not self._network.is_settled and not self._redistribution_is_due:
            self._redistribution_is_due = True
            self._context.ref.tell(RedistributionDue())

    def hand_on(self, attempt: ExecutionAttemptId, message: Message) -> None:
        """Give the message to the Task of the attempt."""
        task = self._refs.get(attempt)
        if task is None:
            self._context.unhandled(message)
        else:
            task.tell(message)

    def serve(self, request: PartitionRequest) -> None:
        """Bring a consumer together with the Task that produces for it."""
        producer = self._refs.get(producer_of(request.partition_id))
        if producer is not None:
            producer.tell(request)
            return
        text = f"the partition is not produced at {self._context.path}"
        request.consumer.tell(partition_not_found(request.partition_id, request.subpartition, text))

    def hand_to_producer(self, message: ToProducer) -> None:
        """Give the Task that produces the partition what its consumer says; one that has ended has sent everything."""
        for task in self._dispatcher.publish(message.partition_id, type(message)) or ():
            task.tell(message)

    def note(self, reached: TaskExecutionState) -> None:
        """The attempt has told its JobMaster of a new state."""
        task = self._refs.get(reached.attempt)
        if task is not None and reached.state in EXECUTION_TERMINAL:
            self._tasks[task].reported_its_end = True

    def remove(self, ref: Ref) -> RunningTask | None:
        """An actor has ended; what ended with it, if it was a Task."""
        ended = self._tasks.pop(ref, None)
        if ended is not None:
            del self._refs[ended.attempt]
            self._network.unregister_task(ended.attempt)
            self._redistribute_later()
            for partition_id in ended.outputs:
                self._dispatcher.unregister_partition(partition_id)
        return ended


def _readable(descriptor: TaskDeploymentDescriptor) -> str:
    """`map-sink-0.1` is attempt 1 of subtask 0; a number behind it makes it a name that is used once."""
    words = re.sub(r"[^a-z0-9]+", "-", descriptor.vertex.name.lower())[:_NAME_LENGTH].strip("-") or "task"
    return f"{words}-{descriptor.subtask}.{descriptor.attempt_number}"
