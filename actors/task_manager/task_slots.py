"""The part of a TaskManager that manages its slots and carries out the effects of its SlotTable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from flykka.actors.errors import NetworkBuffersExhaustedError
from flykka.actors.machines.effects import CancelTimer, Ignore, JobMasterOf, Role, StartTimer, Tell
from flykka.actors.machines.slots import slot_table
from flykka.actors.task_manager.running_tasks import RunningTask, RunningTasks
from flykka.actors.timer_effects import set_timer
from flykka.messages.tasks.task import AcknowledgeDeployments, AcknowledgementsDue, TaskDeploymentDescriptor
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway


class TaskSlots:
    def __init__(
        self,
        context: ActorContext,
        task_manager_id: TaskManagerId,
        table: slot_table.SlotTable,
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
        self._unacknowledged: dict[JobId, list[ExecutionAttemptId]] = {}
        """The attempts that were started since the JobMasters last received an acknowledgement."""

    def decide(self, event: slot_table.SlotTableEvent) -> None:
        for effect in self._table.handle(event, self._context.now()):
            self._perform(effect)

    def acknowledge_deployments(self) -> None:
        unacknowledged, self._unacknowledged = self._unacknowledged, {}
        for job_id, attempts in unacknowledged.items():
            self._tell_job_master(job_id, AcknowledgeDeployments(attempts=tuple(attempts)))

    def task_ended(self, ended: RunningTask) -> None:
        """Free the slot of an ended Task. Reports the Task as failed if it died before it reported its end."""
        if not ended.reported_its_end:
            died = slot_table.task_failed(
                ended.attempt, "TaskLostError", "the actor of the task died without reporting its end"
            )
            self._tell_job_master(ended.job_id, died)
        self.decide(slot_table.TaskEnded(attempt=ended.attempt))

    def _perform(self, effect: slot_table.SlotTableEffect) -> None:
        match effect:
            case Tell(to=to, message=message):
                self._tell(to, message)
            case slot_table.RunTask(descriptor=descriptor):
                self._run(descriptor)
            case StartTimer() | CancelTimer():
                set_timer(self._context, effect)
            case slot_table.End():
                self._context.stop()
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _run(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Run the attempt, or refuse it if there are too few network buffers."""
        try:
            self._tasks.run(descriptor, self._job_masters[descriptor.job_id])
        except NetworkBuffersExhaustedError as error:
            text = f"{descriptor.vertex.name} ({descriptor.subtask + 1}) cannot run on {self._id}: {error}"
            self._tell_job_master(
                descriptor.job_id, slot_table.task_failed(descriptor.attempt, "InsufficientNetworkBuffersError", text)
            )
            self.decide(slot_table.TaskEnded(attempt=descriptor.attempt))
        else:
            # Thousands of attempts that are submitted together are acknowledged together.
            if not self._unacknowledged:
                self._context.ref.tell(AcknowledgementsDue())
            self._unacknowledged.setdefault(descriptor.job_id, []).append(descriptor.attempt)

    def _tell(self, to: slot_table.TableAddress, message: Message) -> None:
        match to:
            case Role.RESOURCE_MANAGER:
                self._tell_resource_manager(message)
            case JobMasterOf(job_id=job_id):
                self._tell_job_master(job_id, message)
            case attempt:
                self._tasks.forward(attempt, message)

    def _tell_job_master(self, job_id: JobId, message: Message) -> None:
        # Without a JobMaster the state of the attempt is irrelevant.
        if job_id in self._job_masters:
            self._job_masters[job_id].tell(message)
