"""The state machine of the ResourceManager: which slot serves which request, and which TaskManagers are started.

Mirrors Flink's SlotManager. A slot is FREE, PENDING (assigned to a request; its TaskManager has not replied) or
ALLOCATED. Reports of TaskManagers are authoritative: a request whose slot is occupied is assigned another slot, and an
unknown allocation is adopted. Requests are served in order by slots that are large enough. If no slot serves a request,
another TaskManager is started, up to the limit (`task_manager_tracker`). After its timeout the request fails.

Not here: the refs of TaskManagers and JobMasters (the actor holds them) and their heartbeat deadlines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from flykka.actors.machines.effects import Ignore, JobMasterOf, Tell
from flykka.actors.machines.slots.resource_profile import fits, too_large
from flykka.actors.machines.slots.slot_table import JobDisconnected
from flykka.actors.machines.slots.task_manager_slots import (
    ChosenSlot,
    SlotState,
    TaskManagerSlot,
    TaskManagerSlots,
    Usage,
)
from flykka.actors.machines.slots.task_manager_tracker import StartTaskManager, TaskManagerTracker, WorkerCounts
from flykka.messages.control import registration, slots
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerStarted:
    """The ResourceManager starts. These TaskManagers of its predecessor are alive and will register again."""

    task_managers: tuple[TaskManagerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerGone:
    """A TaskManager has ended or missed its heartbeats, or one that was started never registered.

    If it `is_superseded`, its successor, or the same TaskManager, registers under its name.
    """

    task_manager: TaskManagerId
    reason: str
    instance: int = 1
    is_superseded: bool = False


SlotManagerEvent = (
    ResourceManagerStarted
    | registration.RegisterTaskManager
    | registration.Heartbeat
    | TaskManagerGone
    | registration.ReleaseAnswer
    | registration.HeartbeatDue
    | registration.StartUpPeriodElapsed
    | slots.RequestSlot
    | slots.CancelSlotRequest
    | slots.AllocateSlotConfirmed
    | slots.AllocateSlotRefused
    | slots.SlotAvailable
    | JobDisconnected
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptTaskManager:
    """Acknowledge the registration of the TaskManager, with a new session."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTaskManager:
    """End the registration of the TaskManager, which is refused or released."""

    task_manager: TaskManagerId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignSlot:
    """Request the TaskManager to allocate the slot to the job, whose JobMaster the actor adds.

    If `cut` is set, a new slot of this size is created.
    """

    task_manager: TaskManagerId
    slot_id: SlotId
    job_id: JobId
    allocation_id: AllocationId
    cut: ResourceSpec | None = None


SlotManagerEffect = (
    StartTaskManager | AcceptTaskManager | ForgetTaskManager | AssignSlot | Tell[TaskManagerId | JobMasterOf] | Ignore
)


REQUEST_TIMEOUT_MS = 300_000
"""Flink's slot.request.timeout in ms, which also applies in the SlotPool of the job."""
ALLOCATE_TIMEOUT_MS = 10_000
"""The time in which a TaskManager has to reply, in milliseconds (Flink's akka.ask.timeout)."""


class SlotManager:
    def __init__(self, workers: WorkerCounts, *, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        self._tracker = TaskManagerTracker(workers)
        self._request_timeout_ms = request_timeout_ms
        self._refuses_unfulfillable = False
        self._now = 0
        self._slots = TaskManagerSlots()
        self._allocated: dict[AllocationId, TaskManagerSlot] = {}
        self._requests: dict[AllocationId, PendingSlotRequest] = {}
        self._waiting = PendingSlotRequests()

    def handle(self, event: SlotManagerEvent, now: int) -> list[SlotManagerEffect]:
        self._now = now
        match event:
            case ResourceManagerStarted(task_managers=task_managers):
                self._tracker.take_over(task_managers)
                return [*self._tracker.start_missing()]
            case registration.RegisterTaskManager():
                return self._on_register_task_manager(event)
            case registration.Heartbeat(task_manager_id=task_manager, slot_report=report):
                return self._on_slot_report(task_manager, report)
            case TaskManagerGone():
                return self._on_task_manager_gone(event)
            case registration.ReleaseAnswer():
                return self._on_release_answer(event)
            case registration.HeartbeatDue():
                return self._check_timeouts()
            case registration.StartUpPeriodElapsed():
                # Before this time, a TaskManager might still register with larger slots than those known.
                self._refuses_unfulfillable = True
                return self._fail_unfulfillable()
            case slots.RequestSlot():
                return self._on_request_slot(event)
            case slots.CancelSlotRequest(allocation_id=allocation_id):
                return self._on_cancel_slot_request(allocation_id)
            case slots.AllocateSlotConfirmed():
                return self._on_confirmed(event)
            case slots.AllocateSlotRefused():
                return self._on_refused(event)
            case slots.SlotAvailable():
                return self._on_slot_available(event)
            case JobDisconnected(job_id=job_id):
                return self._on_job_disconnected(job_id)
            case _:
                assert_never(event)

    @property
    def slot_states(self) -> dict[SlotId, SlotState]:
        return {slot.slot_id: slot.state for slot in self._slots}

    @property
    def task_managers(self) -> tuple[TaskManagerId, ...]:
        return self._slots.task_managers

    @property
    def waiting_requests(self) -> tuple[AllocationId, ...]:
        """The requests without a slot, next request first."""
        return tuple(request.allocation_id for request in self._waiting)

    @property
    def allocations(self) -> dict[SlotId, AllocationId | None]:
        return {slot.slot_id: slot.allocation_id for slot in self._slots}

    @property
    def requests(self) -> tuple[AllocationId, ...]:
        return tuple(self._requests)

    @property
    def task_manager_tracker(self) -> TaskManagerTracker:
        return self._tracker

    def usage(self, task_manager: TaskManagerId) -> Usage:
        return self._slots.usage(task_manager)

    def is_idle(self, task_manager: TaskManagerId) -> bool:
        return self._tracker.is_idle(task_manager)

    def check(self) -> None:
        self._tracker.check()
        self._slots.check()
        for slot in self._slots:
            if slot.state is SlotState.ALLOCATED:
                assert slot.allocation_id is not None
                assert self._allocated.get(slot.allocation_id) is slot, f"{slot} is not found by its allocation"
        assert all(slot.state is SlotState.ALLOCATED for slot in self._allocated.values())
        assert not self._allocated.keys() & self._requests.keys(), "an allocation that has its slot is still requested"
        for allocation_id, request in self._requests.items():
            assert (request.slot_id is None) == (request in self._waiting), (
                f"{request} must wait if and only if it has no slot"
            )
            if request.slot_id is not None:
                slot = self._slots[request.slot_id]
                assert (slot.state, slot.allocation_id) == (SlotState.PENDING, allocation_id)

    # TaskManagers

    def _on_register_task_manager(self, event: registration.RegisterTaskManager) -> list[SlotManagerEffect]:
        task_manager, instance = event.task_manager_id, event.task_manager.incarnation
        report = event.slot_report or registration.SlotReport(slots=())
        if self._tracker.is_gone(task_manager, instance):
            refusal = registration.RefuseRegistration(reason=f"{task_manager} was given up and replaced")
            return [
                Tell(to=task_manager, message=refusal),
                ForgetTaskManager(task_manager=task_manager),
            ]
        if not self._tracker.is_registered(task_manager):
            is_foreign = not self._tracker.knows(task_manager)
            self._tracker.register(task_manager, instance)
            if is_foreign:
                self._tracker.fulfil_expectations(report)
            self._slots.register(task_manager, report.total, event.network_memory_bytes)
        self._adopt(task_manager, report)
        self._record_use(task_manager)
        return [AcceptTaskManager(task_manager=task_manager), *self._serve()]

    def _on_slot_report(
        self, task_manager: TaskManagerId, report: registration.SlotReport | None
    ) -> list[SlotManagerEffect]:
        if not self._tracker.is_registered(task_manager):
            return [Ignore(reason=f"{task_manager} is not registered")]
        if report is not None:
            self._adopt(task_manager, report)
        return self._serve()

    def _on_task_manager_gone(self, event: TaskManagerGone) -> list[SlotManagerEffect]:
        task_manager, reason = event.task_manager, event.reason
        if not self._tracker.knows(task_manager):
            return [Ignore(reason=f"{task_manager} is not known")]
        effects: list[SlotManagerEffect] = []
        for slot in reversed(self._slots.remove(task_manager)):
            if slot.state is SlotState.PENDING:
                self._wait_again(slot)
            elif slot.state is SlotState.ALLOCATED:
                effects = self._fail_allocation(slot, reason) + effects
        if event.is_superseded:
            self._tracker.leave(task_manager)
            return [*effects, *self._serve()]
        started = self._tracker.give_up(task_manager, event.instance)
        return [*effects, *started, *self._fail_hopeless(reason), *self._serve()]

    def _fail_allocation(self, slot: TaskManagerSlot, reason: str) -> list[SlotManagerEffect]:
        del self._allocated[slot.holder]
        if slot.job_id is None:
            return []
        failure = slots.SlotRequestFailed(allocation_id=slot.holder, reason=reason)
        return [Tell(to=JobMasterOf(slot.job_id), message=failure)]

    def _adopt(self, task_manager: TaskManagerId, report: registration.SlotReport) -> None:
        for status in report.slots:
            slot = self._slots.get(status.slot_id) or self._slots.add(task_manager, status)
            if status.allocation_id is not None:
                self._allocate(slot, status.allocation_id, status.job_id)
            elif slot.state is SlotState.ALLOCATED:
                self._release(slot)
            # A PENDING slot that is reported free was free when the report was sent; the TaskManager's reply is still
            # to come.
        for slot in self._slots.missing_from(task_manager, report):
            self._release(slot)

    def _record_use(self, task_manager: TaskManagerId) -> None:
        self._tracker.record_use(task_manager, self._now, is_unused=self._slots.is_unused(task_manager))

    # Idle TaskManagers

    def _check_timeouts(self) -> list[SlotManagerEffect]:
        effects: list[SlotManagerEffect] = []
        for request in tuple(self._requests.values()):
            if self._now - request.since_ms >= self._request_timeout_ms:
                effects.append(self._fail_request(request, f"no slot was free within {self._request_timeout_ms} ms"))
            elif request.slot_id is not None and self._now - request.given_at_ms >= ALLOCATE_TIMEOUT_MS:
                effects += self._retry_on_other_task_manager(self._slots[request.slot_id])
        for task_manager, idle_period in self._tracker.idle_for_too_long(self._now):
            effects.append(Tell(to=task_manager, message=registration.AskForRelease(idle_period=idle_period)))
        return [*effects, *self._serve()]

    def _on_release_answer(self, event: registration.ReleaseAnswer) -> list[SlotManagerEffect]:
        task_manager = event.task_manager_id
        if not event.can_be_released or not self._tracker.may_release(task_manager, event.idle_period):
            return [Ignore(reason=f"{task_manager} is needed")]
        self._slots.remove(task_manager)
        self._tracker.forget_released(task_manager)
        return [
            Tell(to=task_manager, message=registration.ReleaseTaskManager()),
            ForgetTaskManager(task_manager=task_manager),
        ]

    # Requests

    def _on_request_slot(self, event: slots.RequestSlot) -> list[SlotManagerEffect]:
        allocation_id = event.allocation_id
        if allocation_id in self._requests or allocation_id in self._allocated:
            return [Ignore(reason=f"{allocation_id} was requested before")]
        request = PendingSlotRequest(
            job_id=event.job_id, allocation_id=allocation_id, resources=event.resources, since_ms=self._now
        )
        self._requests[allocation_id] = request
        self._waiting.add(request)
        return [*self._fail_unfulfillable(), *self._serve()]

    def _fail_unfulfillable(self) -> list[SlotManagerEffect]:
        if not self._refuses_unfulfillable:
            return []
        sizes = self._slots.sizes() | self._tracker.sizes_to_come()
        hopeless = [each for each in self._waiting if not any(fits(each.resources, size) for size in sizes)]
        return [self._fail_request(each, too_large(each.resources, sizes), is_unfulfillable=True) for each in hopeless]

    def _fail_hopeless(self, reason: str) -> list[SlotManagerEffect]:
        if not self._tracker.keeps_failing:
            return []
        why = f"no TaskManager can be started: {reason}"
        return [self._fail_request(request, why) for request in tuple(self._waiting)]

    def _fail_request(
        self, request: PendingSlotRequest, reason: str, *, is_unfulfillable: bool = False
    ) -> Tell[JobMasterOf]:
        allocation_id = request.allocation_id
        self._drop_request(allocation_id)
        failure = slots.SlotRequestFailed(allocation_id=allocation_id, reason=reason, is_unfulfillable=is_unfulfillable)
        return Tell(to=JobMasterOf(request.job_id), message=failure)

    def _on_cancel_slot_request(self, allocation_id: AllocationId) -> list[SlotManagerEffect]:
        if allocation_id not in self._requests:
            return [Ignore(reason=f"{allocation_id} is not requested")]
        self._drop_request(allocation_id)
        return self._serve()

    def _on_job_disconnected(self, job_id: JobId) -> list[SlotManagerEffect]:
        for request in [request for request in self._requests.values() if request.job_id == job_id]:
            self._drop_request(request.allocation_id)
        return self._serve()

    def _drop_request(self, allocation_id: AllocationId) -> None:
        request = self._requests.pop(allocation_id)
        self._waiting.discard(request)
        if request.slot_id is not None:
            self._release(self._slots[request.slot_id])

    def _on_confirmed(self, event: slots.AllocateSlotConfirmed) -> list[SlotManagerEffect]:
        slot = self._slots.get(event.slot_id) or self._slots.unknown_cut(event)
        if slot is None:
            return [Ignore(reason=f"{event.slot_id} is not known")]
        self._allocate(slot, event.allocation_id, event.job_id)
        return self._serve()

    def _on_refused(self, event: slots.AllocateSlotRefused) -> list[SlotManagerEffect]:
        slot = self._slots.get(event.slot_id)
        if slot is None or slot.state is not SlotState.PENDING or slot.allocation_id != event.allocation_id:
            return [Ignore(reason=f"{event.slot_id} was not waiting for an answer about {event.allocation_id}")]
        if event.occupied_by is not None:
            holder = self._requests.get(event.occupied_by)
            self._allocate(slot, event.occupied_by, holder.job_id if holder is not None else None)
            return self._serve()
        return self._retry_on_other_task_manager(slot)

    def _retry_on_other_task_manager(self, slot: TaskManagerSlot) -> list[SlotManagerEffect]:
        """Assign another slot to the request that did not get this one, and this slot to another request."""
        request = self._requests[slot.holder]
        self._wait_again(slot)
        effects = self._serve()
        self._release(slot)
        if request not in self._waiting:
            return [*effects, *self._serve()]
        self._waiting.discard(request)
        effects += self._serve()
        self._waiting.add_first(request)
        return effects

    def _on_slot_available(self, event: slots.SlotAvailable) -> list[SlotManagerEffect]:
        slot = self._slots.get(event.slot_id)
        if slot is None or slot.state is not SlotState.ALLOCATED or slot.allocation_id != event.allocation_id:
            return [Ignore(reason=f"{event.slot_id} is not held by {event.allocation_id}")]
        self._release(slot)
        return self._serve()

    # Slots

    def _serve(self) -> list[SlotManagerEffect]:
        effects: list[SlotManagerEffect] = []
        while (choice := self._waiting.next(self._slots.choose)) is not None:
            request, chosen_slot = choice
            self._waiting.discard(request)
            slot = self._slots.take(chosen_slot)
            self._slots.hold(slot, SlotState.PENDING, request.allocation_id, request.job_id)
            self._record_use(slot.task_manager)
            request.slot_id, request.given_at_ms = slot.slot_id, self._now
            effects.append(
                AssignSlot(
                    task_manager=slot.task_manager,
                    slot_id=slot.slot_id,
                    job_id=request.job_id,
                    allocation_id=request.allocation_id,
                    cut=chosen_slot.cut,
                )
            )
        return [*effects, *self._tracker.start_for(self._waiting.sizes())]

    def _allocate(self, slot: TaskManagerSlot, allocation_id: AllocationId, job_id: JobId | None) -> None:
        if slot.state is SlotState.ALLOCATED and slot.allocation_id == allocation_id:
            return
        if slot.state is SlotState.ALLOCATED:
            del self._allocated[slot.holder]
        elif slot.state is SlotState.PENDING and slot.allocation_id != allocation_id:
            self._wait_again(slot)
        request = self._requests.pop(allocation_id, None)
        elsewhere = self._allocated.get(allocation_id)
        if request is not None:
            self._waiting.discard(request)
            elsewhere = self._slots[request.slot_id] if request.slot_id is not None else None
        if elsewhere is not None and elsewhere is not slot:
            self._release(elsewhere)
        self._slots.hold(slot, SlotState.ALLOCATED, allocation_id, job_id)
        self._allocated[allocation_id] = slot
        self._record_use(slot.task_manager)

    def _release(self, slot: TaskManagerSlot) -> None:
        if slot.state is SlotState.ALLOCATED:
            del self._allocated[slot.holder]
        self._slots.release(slot)
        self._record_use(slot.task_manager)

    def _wait_again(self, slot: TaskManagerSlot) -> None:
        request = self._requests[slot.holder]
        request.slot_id = None
        self._waiting.add_first(request)


@dataclass(slots=True, kw_only=True)
class PendingSlotRequest:
    """A job's request for a slot: it waits, or `slot_id` is PENDING for it (Flink's PendingSlotRequest)."""

    job_id: JobId
    allocation_id: AllocationId
    resources: ResourceSpec
    since_ms: int
    order: int = 0
    slot_id: SlotId | None = None
    given_at_ms: int = 0


class PendingSlotRequests:
    """The waiting requests by size. Among the requests that a slot can serve, the one with the lowest `order` is next.

    There are only a few sizes, so the next request is found at once, even if many wait for larger slots than those that
    become free.
    """

    def __init__(self) -> None:
        self._by_size: dict[ResourceSpec, dict[AllocationId, PendingSlotRequest]] = {}
        self._last, self._first = 0, 0

    def __len__(self) -> int:
        return sum(map(len, self._by_size.values()))

    def __iter__(self) -> Iterator[PendingSlotRequest]:
        every = [request for requests in self._by_size.values() for request in requests.values()]
        return iter(sorted(every, key=lambda request: request.order))

    def __contains__(self, request: PendingSlotRequest) -> bool:
        return request.allocation_id in self._by_size.get(request.resources, {})

    def add(self, request: PendingSlotRequest) -> None:
        self._last += 1
        request.order = self._last
        self._by_size.setdefault(request.resources, {})[request.allocation_id] = request

    def add_first(self, request: PendingSlotRequest) -> None:
        self._first -= 1
        request.order = self._first
        of_size = self._by_size.pop(request.resources, {})
        self._by_size[request.resources] = {request.allocation_id: request, **of_size}

    def discard(self, request: PendingSlotRequest) -> None:
        self._by_size.get(request.resources, {}).pop(request.allocation_id, None)

    def sizes(self) -> tuple[tuple[ResourceSpec, int], ...]:
        return tuple((size, len(requests)) for size, requests in self._by_size.items() if requests)

    def next(self, choose: Callable[[ResourceSpec], ChosenSlot | None]) -> tuple[PendingSlotRequest, ChosenSlot] | None:
        best: tuple[PendingSlotRequest, ChosenSlot] | None = None
        for size, requests in self._by_size.items():
            request = next(iter(requests.values()), None)
            if request is None or (best is not None and best[0].order < request.order):
                continue
            chosen_slot = choose(size)
            if chosen_slot is not None:
                best = request, chosen_slot
        return best
