"""The part of a TaskManager that deals with its slots: what its SlotTable decides is done here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from flykka.actors.errors import InsufficientNetworkBuffersError
from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.slots import slot_table_events as events
from flykka.actors.machines.slots.slot_table import SlotTable
from flykka.actors.task_manager.running_tasks import RunningTask, RunningTasks
from flykka.messages.control.slots import (
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    FailSlot,
    OfferSlots,
    OfferTimedOut,
    SlotAvailable,
    SlotTimedOut,
)
from flykka.messages.tasks.task import (
    ExecutionState,
    FailTask,
    TaskDeploymentDescriptor,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway

OFFER_TIMEOUT_MS = 10_000
"""After which a JobMaster that has not answered is offered its slots again (Flink's akka.ask.timeout)."""
SLOT_TIMEOUT_MS = 60_000
"""After which a slot that nobody has taken is free again: some offers later (Flink's taskmanager.slot.timeout)."""


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

    def decide(self, event: events.SlotTableEvent) -> None:
        """Let the table take the event, and do what follows."""
        for effect in self._table.handle(event, self._context.now()):
            self._perform(effect)

    def task_ended(self, ended: RunningTask) -> None:
        """Nothing of the task runs any more."""
        if not ended.reported_its_end:
            self._report_failure(
                ended.job_id, ended.attempt, "TaskLostError", "the actor of the task died without a word"
            )
        self.decide(events.TaskEnded(attempt=ended.attempt))

    def _perform(self, effect: events.SlotTableEffect) -> None:
        timers = self._context.timers
        match effect:
            case events.ConfirmAllocation(slot_id=slot, job_id=job_id, allocation_id=allocation_id):
                confirmation = AllocateSlotConfirmed(slot_id=slot, job_id=job_id, allocation_id=allocation_id)
                self._tell_resource_manager(confirmation)
            case events.RefuseAllocation(slot_id=slot, allocation_id=allocation_id, occupied_by=holder):
                refusal = AllocateSlotRefused(slot_id=slot, allocation_id=allocation_id, occupied_by=holder)
                self._tell_resource_manager(refusal)
            case events.AnnounceFreeSlot(slot_id=slot, allocation_id=allocation_id):
                self._tell_resource_manager(SlotAvailable(slot_id=slot, allocation_id=allocation_id))
            case events.OfferToJobMaster(job_id=job_id, offers=offers, offer=offer):
                self._job_masters[job_id].tell(OfferSlots(task_manager_id=self._id, offers=offers, offer=offer))
                timed_out = OfferTimedOut(job_id=job_id, offer=offer)
                timers.start_once(f"slot-offer/{job_id}", OFFER_TIMEOUT_MS, timed_out)
            case events.CancelOfferTimer(job_id=job_id):
                timers.cancel(f"slot-offer/{job_id}")
            case events.StartSlotTimer(allocation_id=allocation_id):
                timers.start_once(f"slot/{allocation_id}", SLOT_TIMEOUT_MS, SlotTimedOut(allocation_id=allocation_id))
            case events.CancelSlotTimer(allocation_id=allocation_id):
                timers.cancel(f"slot/{allocation_id}")
            case events.FailAtJobMaster(job_id=job_id, allocation_id=allocation_id):
                reason = f"{self._id} knows nothing of it"
                failed = FailSlot(task_manager_id=self._id, allocation_id=allocation_id, reason=reason)
                self._job_masters[job_id].tell(failed)
            case events.RunTask(descriptor=descriptor):
                self._run(descriptor)
            case events.RejectTask(job_id=job_id, attempt=attempt, reason=reason):
                self._report_failure(job_id, attempt, "TaskSubmissionError", reason)
            case events.StopTask(attempt=attempt):
                # Not a cancellation: nobody asked for one, and the JobMaster, where it still lives, has to act on it.
                text = f"{self._id} has given up the slot of {attempt}"
                cause = SerializedThrowable(type_name="SlotGivenUpError", message=text)
                self._tasks.hand_on(attempt, FailTask(attempt=attempt, cause=cause))
            case events.End():
                self._context.stop()
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _run(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Run the attempt with its share of the buffers; refuse it where there is no share for it."""
        attempt = descriptor.attempt
        try:
            self._tasks.run(descriptor, self._job_masters[descriptor.job_id])
        except InsufficientNetworkBuffersError as refused:
            text = f"{descriptor.vertex.name} ({descriptor.subtask + 1}) cannot run on {self._id}: {refused}"
            self._report_failure(descriptor.job_id, attempt, "InsufficientNetworkBuffersError", text)
            self.decide(events.TaskEnded(attempt=attempt))

    def _report_failure(self, job_id: JobId, attempt: ExecutionAttemptId, type_name: str, text: str) -> None:
        failure = SerializedThrowable(type_name=type_name, message=text)
        reached = TaskExecutionState(attempt=attempt, state=ExecutionState.FAILED, failure=failure)
        # Without a JobMaster there is nobody left to whom the attempt means anything.
        if job_id in self._job_masters:
            self._job_masters[job_id].tell(UpdateTaskExecutionState(state=reached))
