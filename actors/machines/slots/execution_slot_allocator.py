"""Allocates a slot for each attempt of a job: a shared slot, a free slot, or a requested slot.

Follows Flink's SchedulerImpl and its ExecutionSlotAllocator. The first of these that exists is used:

1. the slot of the tasks with the same co-location constraint or, if that slot is lost, a slot on its TaskManager;
2. the slot of the subtask's previous attempt, which may still have its state
   (PreviousAllocationSlotSelectionStrategy);
3. the shared slot of a task whose output the attempt reads (LocalInputPreferredSlotSharingStrategy);
4. a shared slot on a preferred TaskManager, then a free slot on one;
5. any shared slot, then any free slot, then a slot that is reserved for others with whom the attempt may share it;
6. a shared slot that is already requested, and else a new slot.

The attempts of a vertex that find a preferred slot come before those that take any slot. New shared slots are requested
after all attempts of one call have joined them, so that the requests are large enough for all. If the assigned slot is
too small for its members, those that fit stay, and the others are placed again. If no member fits, all of them fail,
because another request would have the same result.

Not here: which attempts share a slot (`slot_sharing`) and which slots the job holds (`slot_pool`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from flykka.actors.machines.effects import Ignore
from flykka.actors.machines.slots import slot_pool
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, fits, merged
from flykka.actors.machines.slots.slot_requests import (
    CoLocationConstraint,
    ForgetPriorSlots,
    RequestSlots,
    ReturnSlot,
    SlotAllocated,
    SlotAllocationFailed,
    SlotAnswer,
    SlotRequest,
    SlotsLost,
)
from flykka.actors.machines.slots.slot_sharing import SharedSlot, SlotSharing
from flykka.messages.control.job import TaskManagerLost
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, SlotRequestId, TaskManagerId
from flykka.messages.wire.ref import Ref

AllocatorEvent = RequestSlots | ReturnSlot | ForgetPriorSlots | slot_pool.SlotPoolEvent
AllocatorEffect = SlotAnswer | slot_pool.OutwardEffect


class ExecutionSlotAllocator:
    """The attempts of one job and their slots. `name` is the prefix of its allocation ids.

    With `batch` no slot is reserved for a returning attempt, because earlier attempts may need the slot.
    """

    def __init__(
        self,
        name: str,
        job_id: JobId,
        job_master: Ref,
        *,
        batch: bool = False,
        request_timeout_ms: int = slot_pool.REQUEST_TIMEOUT_MS,
        idle_timeout_ms: int = slot_pool.IDLE_TIMEOUT_MS,
    ) -> None:
        self._batch = batch
        self.pool = slot_pool.SlotPool(
            name, job_id, job_master, request_timeout_ms=request_timeout_ms, idle_timeout_ms=idle_timeout_ms
        )
        self.sharing = SlotSharing()
        self._locations: dict[CoLocationConstraint, TaskManagerId] = {}

    def handle(self, event: AllocatorEvent, now: int) -> list[AllocatorEffect]:
        match event:
            case RequestSlots(requests=requests):
                return self._place_all(requests, now)
            case ReturnSlot(attempt=attempt, will_return=will_return):
                return self._on_returned(attempt, now, will_return=will_return)
            case ForgetPriorSlots():
                free = filter(self.pool.is_free, self.sharing.forget_all())
                return [
                    each
                    for slot in free
                    for each in self._handle_in_pool(slot_pool.SlotReservationReleased(allocation_id=slot), now)
                ]
            case TaskManagerLost():
                return self._on_task_manager_lost(event, now)
            case _:
                return self._handle_in_pool(event, now)

    def check(self) -> None:
        self.pool.check()
        self.sharing.check()

    # Placement

    def _place_all(self, requests: Iterable[SlotRequest], now: int) -> list[AllocatorEffect]:
        effects: list[AllocatorEffect] = []
        new_slots: list[SharedSlot] = []
        for _, of_vertex in groupby(requests, lambda request: request.vertex_id):
            others: list[SlotRequest] = []
            for request in of_vertex:
                assert self.sharing.shared_slot_of(request.attempt) is None, f"{request.attempt} has a request already"
                placements = self._place_on_preferred(request, now)
                if placements is None:
                    others.append(request)
                else:
                    effects += placements
            for request in others:
                effects += self._place_anywhere(request, new_slots, now)
        for shared in new_slots:
            # A reserved slot may be free by now, because its attempt was placed elsewhere.
            free = self.pool.choose(shared.required)
            request_event = slot_pool.SlotRequested(
                request_id=shared.request_id, resources=shared.required, held=free, is_batch=self._batch
            )
            effects += self._handle_in_pool(request_event, now)
        return effects

    def _place_on_preferred(self, request: SlotRequest, now: int) -> list[AllocatorEffect] | None:
        """Place the attempt in a preferred slot. Returns `None` if it has no such slot and may be placed anywhere."""
        constraint = request.co_location
        if constraint is not None:
            shared = self.sharing.shared_slot_of_constraint(constraint)
            if shared is not None:
                return self._join(shared, request, now) if shared.has_room_for(request) else self._reject(request)
            if constraint in self._locations:
                bound = self._place_on(request, (self._locations[constraint],), now)
                return self._reject(request) if bound is None else bound
        prior = self.sharing.prior(request)
        if prior is not None:
            shared = self.sharing.shared_slot_at(prior)
            if shared is not None and self.sharing.can_join(request, shared):
                return self._join(shared, request, now)
            if self.pool.is_free(prior, request.resources):
                return self._occupy(prior, request, now)
        near = [shared for attempt in request.inputs if (shared := self.sharing.shared_slot_of(attempt)) is not None]
        joined = next((shared for shared in near if self.sharing.can_join(request, shared)), None)
        if joined is not None:
            return self._join(joined, request, now)
        near_by = dict.fromkeys(shared.slot.task_manager_id for shared in near if shared.slot is not None)
        return self._place_on(request, (*request.preferred, *near_by), now)

    def _place_on(
        self, request: SlotRequest, task_managers: Iterable[TaskManagerId], now: int
    ) -> list[AllocatorEffect] | None:
        preferred = tuple(task_managers)
        for task_manager in preferred:
            shared = self.sharing.room(request, task_manager)
            if shared is not None:
                return self._join(shared, request, now)
        for task_manager in preferred:
            free = self.pool.choose(request.resources, task_manager)
            if free is not None:
                return self._occupy(free, request, now)
        return None

    def _place_anywhere(self, request: SlotRequest, new_slots: list[SharedSlot], now: int) -> list[AllocatorEffect]:
        shared = self.sharing.room(request)
        if shared is not None:
            return self._join(shared, request, now)
        free = self.pool.choose(request.resources)
        if free is not None:
            return self._occupy(free, request, now)
        reserved = (
            each for each in self.sharing.reserved_with_room(request) if self.pool.is_free(each, request.resources)
        )
        with_others = next(reserved, None)
        if with_others is not None:
            # A returning attempt shares the slot, because another slot might never become available.
            return self._occupy(with_others, request, now)
        shared = self.sharing.room_in_pending(request)
        if shared is None:
            shared = self.sharing.create(request.slot_sharing_group)
            new_slots.append(shared)
        return self._join(shared, request, now)

    def _occupy(self, free: AllocationId, request: SlotRequest, now: int) -> list[AllocatorEffect]:
        shared = self.sharing.create(request.slot_sharing_group)
        for effect in self.pool.handle(slot_pool.SlotRequested(request_id=shared.request_id, held=free), now):
            assert isinstance(effect, slot_pool.SlotAssigned), f"a free slot was not assigned immediately: {effect}"
            self.sharing.resolve(shared, effect.slot)
        return self._join(shared, request, now)

    def _join(self, shared: SharedSlot, request: SlotRequest, now: int) -> list[AllocatorEffect]:
        unreserved = self.sharing.drop_reservation(request)
        self.sharing.join(shared, request)
        effects: list[AllocatorEffect] = []
        if shared.slot is not None:
            effects.append(self._placed(shared, (request,)))
        if unreserved is not None and self.pool.is_free(unreserved):
            effects += self._handle_in_pool(slot_pool.SlotReservationReleased(allocation_id=unreserved), now)
        return effects

    def _placed(self, shared: SharedSlot, members: Iterable[SlotRequest]) -> SlotAllocated:
        assert shared.slot is not None
        requests = tuple(members)
        for member in requests:
            if member.co_location is not None:
                self._locations[member.co_location] = shared.slot.task_manager_id
        return SlotAllocated(attempts=tuple(member.attempt for member in requests), slot=shared.slot)

    def _reject(self, request: SlotRequest) -> list[AllocatorEffect]:
        constraint = request.co_location
        assert constraint is not None
        where = self._locations.get(constraint, "its slot")
        reason = (
            f"{request.attempt} must share a slot with the other tasks of the co-location group"
            f" {constraint.group!r}, but {where} is full"
        )
        return [_failed((request.attempt,), reason)]

    # Returned and lost slots

    def _on_returned(self, attempt: ExecutionAttemptId, now: int, *, will_return: bool) -> list[AllocatorEffect]:
        shared = self.sharing.leave(attempt, will_return=will_return and not self._batch)
        if shared is None:
            return [Ignore(reason=f"{attempt} has no slot and no slot request")]
        return [] if shared.members else self._give_back(shared, now)

    def _give_back(self, shared: SharedSlot, now: int) -> list[AllocatorEffect]:
        self.sharing.drop(shared)
        is_kept = shared.slot is not None and self.sharing.is_kept(shared.slot.allocation_id)
        return self._handle_in_pool(slot_pool.SlotReturned(request_id=shared.request_id, is_kept=is_kept), now)

    def _handle_in_pool(self, event: slot_pool.SlotPoolEvent, now: int) -> list[AllocatorEffect]:
        effects: list[AllocatorEffect] = []
        for effect in self.pool.handle(event, now):
            match effect:
                case slot_pool.SlotAssigned():
                    effects += self._on_assigned(effect, now)
                case slot_pool.SlotRequestRejected(reason=reason, is_temporary=is_temporary):
                    effects.append(_failed(self._drop(effect.request_id), reason, is_temporary=is_temporary))
                case slot_pool.SlotRemoved(request_id=request_id):
                    if request_id is not None:
                        cause = _lost(effect.task_manager, effect.reason)
                        effects.append(SlotsLost(attempts=self._drop(request_id), cause=cause))
                    self._forget(effect.allocation_id, effect.task_manager)
                case _:
                    effects.append(effect)
        return effects

    def _on_task_manager_lost(self, event: TaskManagerLost, now: int) -> list[AllocatorEffect]:
        """Report the loss of all slots of the TaskManager as one failure of the job.

        The results on the TaskManager are lost too, so the loss is reported even if no attempt ran there.
        """
        effects = self._handle_in_pool(event, now)
        if any(isinstance(effect, Ignore) for effect in effects):
            return effects
        attempts = tuple(each for effect in effects if isinstance(effect, SlotsLost) for each in effect.attempts)
        cause = _lost(event.task_manager, event.reason)
        return [SlotsLost(attempts=attempts, cause=cause, task_manager_id=event.task_manager)]

    def _drop(self, request_id: SlotRequestId) -> tuple[ExecutionAttemptId, ...]:
        shared = self.sharing.get(request_id)
        assert shared is not None, f"{request_id} is unknown"
        return tuple(member.attempt for member in self.sharing.drop(shared))

    def _forget(self, allocation_id: AllocationId, task_manager: TaskManagerId) -> None:
        """Remove the slot's reservations, and the constraints bound to a TaskManager without slots of the job."""
        self.sharing.forget(allocation_id)
        if not self.pool.report(task_manager):
            for constraint in [each for each, where in self._locations.items() if where == task_manager]:
                del self._locations[constraint]

    def _on_assigned(self, assigned: slot_pool.SlotAssigned, now: int) -> list[AllocatorEffect]:
        shared = self.sharing.get(assigned.request_id)
        assert shared is not None, f"{assigned.request_id} is unknown"
        self.sharing.resolve(shared, assigned.slot)
        fitting, evicted = _fitting(shared.members.values(), assigned.slot.size)
        if not fitting:
            attempts = tuple(request.attempt for request in evicted)
            slot = assigned.slot
            reason = f"{slot.allocation_id} at {slot.task_manager_id} is too small for any of {', '.join(attempts)}"
            self.sharing.drop(shared)
            returned = self._handle_in_pool(slot_pool.SlotReturned(request_id=shared.request_id), now)
            return [_failed(attempts, reason), *returned]
        for request in evicted:
            self.sharing.leave(request.attempt, will_return=False)
        return [self._placed(shared, fitting), *self._place_all(evicted, now)]


def _failed(
    attempts: tuple[ExecutionAttemptId, ...], reason: str, *, is_temporary: bool = False
) -> SlotAllocationFailed:
    # NoResourceAvailableError is final, because a restart would wait just as long for the same slot.
    name = "SlotAllocationError" if is_temporary else "NoResourceAvailableError"
    return SlotAllocationFailed(attempts=attempts, cause=SerializedThrowable(type_name=name, message=reason))


def _lost(task_manager: TaskManagerId, reason: str) -> SerializedThrowable:
    return SerializedThrowable(type_name="SlotLostError", message=f"{task_manager} is lost: {reason}")


def _fitting(members: Iterable[SlotRequest], size: ResourceSpec) -> tuple[list[SlotRequest], list[SlotRequest]]:
    """Split the requests into those that fit into a slot and the others. Co-located requests fit only together."""
    units: dict[CoLocationConstraint | ExecutionAttemptId, list[SlotRequest]] = {}
    for member in members:
        units.setdefault(member.co_location or member.attempt, []).append(member)
    fitting: list[SlotRequest] = []
    evicted: list[SlotRequest] = []
    used = UNSPECIFIED
    for unit in units.values():
        needed = used
        for member in unit:
            needed = merged(needed, member.resources)
        if fits(needed, size):
            used = needed
            fitting += unit
        else:
            evicted += unit
    return fitting, evicted
