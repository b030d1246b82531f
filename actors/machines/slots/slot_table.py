"""The slots of one TaskManager: their allocations and their tasks (Flink's TaskSlotTable).

A slot is FREE, ALLOCATED (for a job that has not accepted it yet), ACTIVE (accepted) or RELEASING (given up, while its
tasks end). If a task arrives before its slot is accepted, the JobMaster has evidently accepted the slot. A slot without
tasks stays allocated until its JobMaster frees it, and is free only when its last task has ended.

There is at most one unanswered offer per JobMaster, so that a reply is unambiguous. The offer is repeated with the same
number until there is a reply. A slot that no JobMaster accepts is freed after a timeout. Slots that are created for a
request exist until they are free; together they never exceed the `ResourceBudget`.

Not here: refs, sessions, and how a task runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, assert_never

from flykka.actors.machines.effects import CancelTimer, Ignore, JobMasterOf, Role, StartTimer, Tell
from flykka.actors.machines.slots.resource_profile import MIB, UNSPECIFIED, ResourceBudget, fits, total_of
from flykka.actors.machines.states import next_phase
from flykka.messages.control.registration import ReleaseTaskManager, SlotReport, SlotStatus
from flykka.messages.control.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    FailSlot,
    FreeSlot,
    OfferSlots,
    OfferTimedOut,
    SlotAvailable,
    SlotOffer,
    SlotTimedOut,
)
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.tasks.task import (
    ExecutionState,
    FailTask,
    SubmitTask,
    TaskDeploymentDescriptor,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, SlotId, TaskManagerId, slot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConnected:
    """The JobMaster of the job has acknowledged this TaskManager, which can now offer slots."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationsKnown:
    """The JobMaster reports the allocations that it believes to have here (Flink's AllocatedSlotReport)."""

    job_id: JobId
    allocations: tuple[AllocationId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDisconnected:
    """The JobMaster of the job has left or was lost, and its allocations end."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost:
    """The JobMaster misses its heartbeats: its tasks end, and slots without tasks are offered to it again."""

    job_id: JobId


SlotTableEvent = (
    AllocateSlot
    | JobConnected
    | AcceptSlots
    | OfferTimedOut
    | SlotTimedOut
    | AllocationsKnown
    | SubmitTask
    | TaskEnded
    | FreeSlot
    | JobDisconnected
    | JobLost
    | ReleaseTaskManager
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    descriptor: TaskDeploymentDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Stop the TaskManager, which has no tasks and will get no more."""


TableAddress = Literal[Role.RESOURCE_MANAGER] | JobMasterOf | ExecutionAttemptId
SlotTableEffect = Tell[TableAddress] | RunTask | StartTimer | CancelTimer | End | Ignore


OFFER_TIMEOUT_MS = 10_000
"""The timeout in ms after which an unanswered offer is repeated (Flink's akka.ask.timeout)."""
SLOT_TIMEOUT_MS = 60_000
"""The timeout in ms after which a slot that no JobMaster has accepted is freed (Flink's taskmanager.slot.timeout)."""


class TaskSlotState(Enum):
    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"
    RELEASING = "RELEASING"


TASK_SLOT_MOVES: dict[TaskSlotState, tuple[TaskSlotState, ...]] = {
    TaskSlotState.FREE: (TaskSlotState.ALLOCATED,),
    TaskSlotState.ALLOCATED: (TaskSlotState.ACTIVE, TaskSlotState.FREE),
    TaskSlotState.ACTIVE: (TaskSlotState.ALLOCATED, TaskSlotState.RELEASING, TaskSlotState.FREE),
    TaskSlotState.RELEASING: (TaskSlotState.FREE,),
}
"""A slot moves from ACTIVE to ALLOCATED when its JobMaster is lost, because it is offered again."""


@dataclass(slots=True)
class _TaskSlot:
    slot_id: SlotId
    size: ResourceSpec
    is_dynamic: bool = False
    state: TaskSlotState = TaskSlotState.FREE
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    tasks: dict[ExecutionAttemptId, None] = field(default_factory=dict)

    def move(self, state: TaskSlotState) -> None:
        self.state = next_phase(TASK_SLOT_MOVES, self.state, state)


@dataclass(slots=True)
class _Job:
    """The slots of a JobMaster, its unanswered offer, and the slots not offered yet."""

    connected: bool = False
    offer: int = 0
    slots: dict[AllocationId, _TaskSlot] = field(default_factory=dict)
    offered: tuple[AllocationId, ...] = ()
    to_offer: dict[AllocationId, None] = field(default_factory=dict)


class SlotTable:
    """All slots of one TaskManager: the slots of equal size, and those that are created from its `total` resources."""

    def __init__(
        self,
        task_manager: TaskManagerId,
        slots: int,
        size: ResourceSpec = UNSPECIFIED,
        total: ResourceSpec = UNSPECIFIED,
    ) -> None:
        self._id = task_manager
        self._budget = ResourceBudget(total)
        self._is_closing = False
        ids = [slot_id(task_manager, index) for index in range(slots)]
        self._slots = {each: _TaskSlot(each, size) for each in ids}
        self._allocations: dict[AllocationId, _TaskSlot] = {}
        self._tasks: dict[ExecutionAttemptId, _TaskSlot] = {}
        self._jobs: dict[JobId, _Job] = {}

    def handle(self, event: SlotTableEvent, now: int) -> list[SlotTableEffect]:
        match event:
            case AllocateSlot():
                return self._on_allocate_slot(event)
            case JobConnected(job_id=job_id):
                job = self._jobs.setdefault(job_id, _Job())
                job.connected = True
                return self._offer(job_id, job)
            case AcceptSlots():
                return self._on_accept_slots(event)
            case OfferTimedOut(job_id=job_id, offer=offer):
                return self._on_offer_timed_out(job_id, offer)
            case SlotTimedOut(allocation_id=allocation_id):
                slot = self._allocations.get(allocation_id)
                waits = slot is not None and slot.state is TaskSlotState.ALLOCATED
                return self._release(slot) if slot and waits else [Ignore(reason=f"{allocation_id} does not wait")]
            case AllocationsKnown():
                return self._on_allocations_known(event)
            case SubmitTask(descriptor=descriptor):
                return self._on_submit_task(descriptor)
            case TaskEnded(attempt=attempt):
                return self._on_task_ended(attempt)
            case FreeSlot(allocation_id=allocation_id):
                slot = self._allocations.get(allocation_id)
                return self._release(slot) if slot else [Ignore(reason=f"{allocation_id} holds no slot here")]
            case JobDisconnected(job_id=job_id):
                return self._on_job_disconnected(job_id)
            case JobLost(job_id=job_id):
                return self._on_job_lost(job_id)
            case ReleaseTaskManager():
                self._is_closing = True
                released = [each for slot in tuple(self._allocations.values()) for each in self._release(slot)]
                return [*released, *self._end_when_empty()]
            case _:
                assert_never(event)

    def report(self) -> SlotReport:
        return SlotReport(
            slots=tuple(
                SlotStatus(
                    slot_id=slot.slot_id,
                    allocation_id=slot.allocation_id,
                    job_id=slot.job_id,
                    resources=slot.size,
                    is_dynamic=slot.is_dynamic,
                )
                for slot in self._slots.values()
            ),
            total=self._budget.total,
        )

    @property
    def slot_states(self) -> dict[SlotId, TaskSlotState]:
        return {slot.slot_id: slot.state for slot in self._slots.values()}

    @property
    def is_closed(self) -> bool:
        return self._is_closing and not self._tasks

    def holds_slots(self, job_id: JobId) -> bool:
        return job_id in self._jobs and bool(self._jobs[job_id].slots)

    def check(self) -> None:
        for slot in self._slots.values():
            assert (slot.state is TaskSlotState.FREE) == (slot.allocation_id is None) == (slot.job_id is None), slot
            assert not slot.tasks or slot.state in (TaskSlotState.ACTIVE, TaskSlotState.RELEASING), slot
            assert slot.tasks or slot.state is not TaskSlotState.RELEASING, (
                f"{slot} is RELEASING although it has no tasks"
            )
            assert all(self._tasks[task] is slot for task in slot.tasks)
            if slot.allocation_id is not None:
                assert self._allocations[slot.allocation_id] is slot
            assert not (slot.is_dynamic and slot.state is TaskSlotState.FREE), (
                f"{slot} is dynamic but FREE: it belongs to no request"
            )
        used = total_of(slot.size for slot in self._slots.values() if slot.state is not TaskSlotState.FREE)
        assert fits(used, self._budget.total), "slots exceed the total resources"
        assert len(self._tasks) == sum(len(slot.tasks) for slot in self._slots.values())
        assert all(slot.allocation_id == allocation_id for allocation_id, slot in self._allocations.items())
        for job in self._jobs.values():
            assert not set(job.offered) & job.to_offer.keys(), "a slot that was offered is about to be offered again"

    def _on_allocate_slot(self, event: AllocateSlot) -> list[SlotTableEffect]:
        slot = self._slots.get(event.slot_id)
        if slot is None and event.cut is not None:
            slot = _TaskSlot(event.slot_id, event.cut, is_dynamic=True)
        holds = self._allocations.get(event.allocation_id)
        if (
            slot is None
            or self._is_closing
            or slot.state is TaskSlotState.RELEASING
            or holds is not (slot if slot.allocation_id else None)
            or (holds is None and not self._budget.has_room_for(slot.size))
        ):
            occupied_by = slot.allocation_id if slot is not None else None
            refusal = AllocateSlotRefused(
                slot_id=event.slot_id, allocation_id=event.allocation_id, occupied_by=occupied_by
            )
            return [Tell(to=Role.RESOURCE_MANAGER, message=refusal)]
        job = self._jobs.setdefault(event.job_id, _Job())
        timer: list[SlotTableEffect] = []
        if slot.state is TaskSlotState.FREE:
            slot.move(TaskSlotState.ALLOCATED)
            slot.allocation_id, slot.job_id = event.allocation_id, event.job_id
            self._slots[slot.slot_id] = slot
            self._budget.take(slot.size)
            self._allocations[event.allocation_id] = slot
            job.slots[event.allocation_id] = slot
            job.to_offer[event.allocation_id] = None
            timer = [_start_slot_timer(event.allocation_id)]
        confirmed = AllocateSlotConfirmed(
            slot_id=event.slot_id, job_id=event.job_id, allocation_id=event.allocation_id, cut=event.cut
        )
        return [*timer, Tell(to=Role.RESOURCE_MANAGER, message=confirmed), *self._offer(event.job_id, job)]

    def _offer(self, job_id: JobId, job: _Job) -> list[SlotTableEffect]:
        if not job.connected or job.offered or not job.to_offer:
            return []
        job.offer += 1
        job.offered = tuple(job.to_offer)
        job.to_offer.clear()
        return self._offered(job_id, job)

    def _offered(self, job_id: JobId, job: _Job) -> list[SlotTableEffect]:
        offers = tuple(
            SlotOffer(allocation_id=each, slot_id=job.slots[each].slot_id, resources=job.slots[each].size)
            for each in job.offered
            if each in job.slots
        )
        message = OfferSlots(task_manager_id=self._id, offers=offers, offer=job.offer)
        timed_out = OfferTimedOut(job_id=job_id, offer=job.offer)
        return [
            Tell(to=JobMasterOf(job_id), message=message),
            StartTimer(key=_offer_timer(job_id), delay_ms=OFFER_TIMEOUT_MS, message=timed_out),
        ]

    def _on_offer_timed_out(self, job_id: JobId, offer: int) -> list[SlotTableEffect]:
        job = self._jobs.get(job_id)
        if job is None or not job.offered or job.offer != offer:
            return [Ignore(reason=f"offer {offer} to {job_id} does not wait for an answer")]
        return self._offered(job_id, job)

    def _on_accept_slots(self, event: AcceptSlots) -> list[SlotTableEffect]:
        job = self._jobs.get(event.job_id)
        if job is None or not job.offered or job.offer != event.offer:
            return [Ignore(reason=f"{event.job_id} has no offer {event.offer} to answer")]
        effects: list[SlotTableEffect] = [CancelTimer(key=_offer_timer(event.job_id))]
        offered, job.offered = job.offered, ()
        for allocation_id in offered:
            slot = job.slots.get(allocation_id)
            if slot is None:
                continue  # The slot was freed after it was offered.
            if allocation_id not in event.accepted:
                effects += self._release(slot)
            else:
                effects += self._activate(slot)
        return effects + self._offer(event.job_id, job)

    def _on_submit_task(self, descriptor: TaskDeploymentDescriptor) -> list[SlotTableEffect]:
        attempt, allocation_id, job_id = descriptor.attempt, descriptor.allocation_id, descriptor.job_id
        if attempt in self._tasks:
            return [Ignore(reason=f"{attempt} was submitted before")]
        slot = self._allocations.get(allocation_id)
        if slot is None or slot.job_id != job_id or slot.state is TaskSlotState.RELEASING:
            text = f"{job_id} holds no slot by {allocation_id}"
            return [Tell(to=JobMasterOf(job_id), message=task_failed(attempt, "TaskSubmissionError", text))]
        activated = self._activate(slot)
        slot.tasks[attempt] = None
        self._tasks[attempt] = slot
        return [*activated, RunTask(descriptor=with_managed_memory(descriptor, slot.size))]

    def _activate(self, slot: _TaskSlot) -> list[SlotTableEffect]:
        if slot.state is not TaskSlotState.ALLOCATED:
            return []
        assert slot.allocation_id is not None
        slot.move(TaskSlotState.ACTIVE)
        return [CancelTimer(key=_slot_timer(slot.allocation_id))]

    def _on_task_ended(self, attempt: ExecutionAttemptId) -> list[SlotTableEffect]:
        slot = self._tasks.pop(attempt, None)
        if slot is None:
            return [Ignore(reason=f"{attempt} does not run here")]
        del slot.tasks[attempt]
        freed = self._free(slot) if slot.state is TaskSlotState.RELEASING and not slot.tasks else []
        return [*freed, *self._end_when_empty()]

    def _on_job_disconnected(self, job_id: JobId) -> list[SlotTableEffect]:
        job = self._jobs.pop(job_id, None)
        if job is None:
            return [Ignore(reason=f"{job_id} has no slots here")]
        timer = [CancelTimer(key=_offer_timer(job_id))] if job.offered else []
        return [*timer, *(effect for slot in tuple(job.slots.values()) for effect in self._release(slot))]

    def _on_job_lost(self, job_id: JobId) -> list[SlotTableEffect]:
        job = self._jobs.get(job_id)
        if job is None:
            return [Ignore(reason=f"{job_id} has no slots here")]
        effects: list[SlotTableEffect] = [CancelTimer(key=_offer_timer(job_id))] if job.offered else []
        job.connected, job.offered = False, ()
        for allocation_id, slot in tuple(job.slots.items()):
            if slot.tasks:
                effects += self._release(slot)
                continue
            if slot.state is TaskSlotState.ACTIVE:
                effects.append(_start_slot_timer(allocation_id))
            slot.move(TaskSlotState.ALLOCATED)
            job.to_offer[allocation_id] = None
        return effects

    def _on_allocations_known(self, event: AllocationsKnown) -> list[SlotTableEffect]:
        """Release slots that the JobMaster does not know, and report allocations that are unknown here as failed."""
        job = self._jobs.get(event.job_id, _Job())
        unknown_here = [each for each in event.allocations if each not in job.slots]
        unknown_there = [
            slot
            for allocation_id, slot in job.slots.items()
            if slot.state is TaskSlotState.ACTIVE and allocation_id not in event.allocations
        ]
        reason = f"{self._id} does not know the slot"
        failures = [FailSlot(task_manager_id=self._id, allocation_id=each, reason=reason) for each in unknown_here]
        reports = [Tell(to=JobMasterOf(event.job_id), message=each) for each in failures]
        return [*reports, *(effect for slot in unknown_there for effect in self._release(slot))]

    def _end_when_empty(self) -> list[SlotTableEffect]:
        return [End()] if self.is_closed else []

    def _release(self, slot: _TaskSlot) -> list[SlotTableEffect]:
        if slot.state is TaskSlotState.RELEASING:
            return [Ignore(reason=f"{slot.slot_id} is being released")]
        if not slot.tasks:
            return self._free(slot)
        slot.move(TaskSlotState.RELEASING)
        # The tasks fail and are not cancelled: no cancellation was requested, so the JobMaster has to handle a
        # failure.
        return [Tell(to=attempt, message=self._fail_task(attempt)) for attempt in slot.tasks]

    def _fail_task(self, attempt: ExecutionAttemptId) -> FailTask:
        text = f"{self._id} has released the slot of {attempt}"
        return FailTask(attempt=attempt, cause=SerializedThrowable(type_name="SlotGivenUpError", message=text))

    def _free(self, slot: _TaskSlot) -> list[SlotTableEffect]:
        allocation_id, job_id = slot.allocation_id, slot.job_id
        assert allocation_id is not None
        assert job_id is not None
        del self._allocations[allocation_id]
        job = self._jobs.get(job_id)
        # A JobMaster that has taken over the job has its own claims.
        if job is not None and job.slots.get(allocation_id) is slot:
            del job.slots[allocation_id]
            job.to_offer.pop(allocation_id, None)
        waited = slot.state is TaskSlotState.ALLOCATED
        slot.move(TaskSlotState.FREE)
        slot.allocation_id = slot.job_id = None
        self._budget.give_back(slot.size)
        if slot.is_dynamic:
            del self._slots[slot.slot_id]
        timer = [CancelTimer(key=_slot_timer(allocation_id))] if waited else []
        available = SlotAvailable(slot_id=slot.slot_id, allocation_id=allocation_id)
        return [*timer, Tell(to=Role.RESOURCE_MANAGER, message=available)]


def task_failed(attempt: ExecutionAttemptId, type_name: str, text: str) -> UpdateTaskExecutionState:
    """Report that an attempt has failed which never ran, or which ended without a report."""
    failure = SerializedThrowable(type_name=type_name, message=text)
    reached = TaskExecutionState(attempt=attempt, state=ExecutionState.FAILED, failure=failure)
    return UpdateTaskExecutionState(state=reached)


def _offer_timer(job_id: JobId) -> str:
    return f"slot-offer/{job_id}"


def _slot_timer(allocation_id: AllocationId) -> str:
    return f"slot/{allocation_id}"


def _start_slot_timer(allocation_id: AllocationId) -> StartTimer:
    timed_out = SlotTimedOut(allocation_id=allocation_id)
    return StartTimer(key=_slot_timer(allocation_id), delay_ms=SLOT_TIMEOUT_MS, message=timed_out)


def with_managed_memory(descriptor: TaskDeploymentDescriptor, size: ResourceSpec) -> TaskDeploymentDescriptor:
    if not size.managed_mib:
        return descriptor
    own = int(size.managed_mib * MIB * descriptor.vertex.managed_memory_fraction)
    return replace(descriptor, managed_memory_bytes=own)
