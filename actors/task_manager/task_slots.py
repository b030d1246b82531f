"""The part of a TaskManager that deals with its slots: it performs the effects of its SlotTable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from flykka.actors.errors import NetworkBuffersExhaustedError
from flykka.actors.machines.effects import CancelTimer, Ignore, JobMasterOf, Role, StartTimer, Tell
from flykka.actors.machines.slots.slot_table import (
    End,
    RunTask,
    SlotTable,
    SlotTableEffect,
    SlotTableEvent,
    TableAddress,
    TaskEnded,
    task_failed,
)
from flykka.actors.task_manager.running_tasks import RunningTask, RunningTasks
from flykka.actors.timer_effects import set_timer
from flykka.messages.tasks.task import AcknowledgeDeployments, AcknowledgementsDue, TaskDeploymentDescriptor
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway


class TaskSlots:
    """Used in the turns of its TaskManager only."""

    def __init__(
        self,
        context: ActorContext,
        task_manager_id: TaskManagerId,
        table: SlotTable,
        tasks: RunningTasks,
        job_masters: Mapping[JobId, Gateway],
        tell_resource_manager: Callable[[Message], None],
    ) -> None:
        self._context = context
        self._id = task_manager_id
        self._table = table
        self._tasks = tasks
        self._job_masters = job_masters
        self._tell_resource_manager = tell_resource_manager
        self._acknowledgements = DeploymentAcknowledgements(context, self._tell_job_master)

    def decide(self, event: SlotTableEvent) -> None:
        for effect in self._table.handle(event, self._context.now()):
            self._perform(effect)

    def acknowledge_deployments(self) -> None:
        """Tell each JobMaster which of its attempts run here that it was not told of."""
        self._acknowledgements.tell()

    def task_ended(self, ended: RunningTask) -> None:
        """Free the place of a Task that has ended, and report one that died without a word."""
        if not ended.reported_its_end:
            died = task_failed(ended.attempt, "TaskLostError", "the actor of the task died without a word")
            self._tell_job_master(ended.job_id, died)
        self.decide(TaskEnded(attempt=ended.attempt))

    def _perform(self, effect: SlotTableEffect) -> None:
        match effect:
            case Tell(to=to, message=message):
                self._tell(to, message)
            case RunTask(descriptor=descriptor):
                self._run(descriptor)
            case StartTimer() | CancelTimer():
                set_timer(self._context, effect)
            case End():
                self._context.stop()
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _run(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Run the attempt with its share of the buffers; refuse it where there is no share for it."""
        try:
            self._tasks.run(descriptor, self._job_masters[descriptor.job_id])
        except NetworkBuffersExhaustedError as refused:
            text = f"{descriptor.vertex.name} ({descriptor.subtask + 1}) cannot run on {self._id}: {refused}"
            self._tell_job_master(
                descriptor.job_id, task_failed(descriptor.attempt, "InsufficientNetworkBuffersError", text)
            )
            self.decide(TaskEnded(attempt=descriptor.attempt))
        else:
            self._acknowledgements.add(descriptor.job_id, descriptor.attempt)

    def _tell(self, to: TableAddress, message: Message) -> None:
        match to:
            case Role.RESOURCE_MANAGER:
                self._tell_resource_manager(message)
            case JobMasterOf(job_id=job_id):
                self._tell_job_master(job_id, message)
            case attempt:
                self._tasks.forward(attempt, message)

    def _tell_job_master(self, job_id: JobId, message: Message) -> None:
        # Without a JobMaster there is nobody left to whom the attempt means anything.
        if job_id in self._job_masters:
            self._job_masters[job_id].tell(message)


class DeploymentAcknowledgements:
    """Acknowledges deployments: what a TaskManager has taken on since it told its JobMasters last.

    Used in the turns of its TaskManager only. Thousands of attempts that come together are answered for together.
    """

    def __init__(self, context: ActorContext, tell_job_master: Callable[[JobId, Message], None]) -> None:
        self._context = context
        self._tell_job_master = tell_job_master
        self._waiting: dict[JobId, list[ExecutionAttemptId]] = {}

    def add(self, job_id: JobId, attempt: ExecutionAttemptId) -> None:
        """The attempt runs; its JobMaster hears of it when what has come with it is dealt with."""
        if not self._waiting:
            self._context.ref.tell(AcknowledgementsDue())
        self._waiting.setdefault(job_id, []).append(attempt)

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for job_id, attempts in waiting.items():
            self._tell_job_master(job_id, AcknowledgeDeployments(attempts=tuple(attempts)))
