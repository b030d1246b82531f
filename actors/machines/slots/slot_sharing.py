"""The shared slots of a job: their attempts, and the room for further attempts (Flink's SlotSharingManager).

A shared slot belongs to a sharing group. It holds at most one subtask of each vertex, and for each co-location group
the tasks of one constraint. The first member requests the slot, and the slot is returned when the last member has left.
The place of a subtask that will return is reserved, as Flink reserves prior allocations.

For each group an index has the slots in which a further subtask of a vertex has room, by TaskManager. So a place is
found at once with any number of tasks.

Not here: free slots and the ResourceManager (`slot_pool`), and which of several places is best
(`execution_slot_allocator`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, fits, merged
from flykka.actors.machines.slots.slot_requests import AssignedSlot, CoLocationConstraint, SlotRequest
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobVertexId, SlotRequestId, TaskManagerId
from flykka.messages.wire.tags import trace_tag

Place = tuple[str, str]
"""A unit that a shared slot holds at most once: a vertex, or a co-location group."""
Subtask = tuple[JobVertexId, int]


@dataclass(slots=True, kw_only=True)
class SharedSlot:
    request_id: SlotRequestId
    group: str
    slot: AssignedSlot | None = None
    # A dict keeps the order: decisions must not depend on hashes.
    members: dict[ExecutionAttemptId, SlotRequest] = field(default_factory=dict)
    constraints: dict[str, CoLocationConstraint] = field(default_factory=dict)

    @property
    def required(self) -> ResourceSpec:
        total = UNSPECIFIED
        for member in self.members.values():
            total = merged(total, member.resources)
        return total

    def has_room_for(self, request: SlotRequest) -> bool:
        """Return True if the slot is large enough for one more attempt, or its size is not known yet."""
        return self.slot is None or fits(merged(self.required, request.resources), self.slot.size)


@dataclass(slots=True)
class _Open:
    """The slots of a group with room for one place: the requested slots, and the held slots by TaskManager."""

    pending: dict[SlotRequestId, SharedSlot] = field(default_factory=dict)
    resolved: dict[SlotRequestId, SharedSlot] = field(default_factory=dict)
    by_task_manager: dict[TaskManagerId, dict[SlotRequestId, SharedSlot]] = field(default_factory=dict)

    def add(self, shared: SharedSlot) -> None:
        if shared.slot is None:
            self.pending[shared.request_id] = shared
        else:
            self.resolved[shared.request_id] = shared
            self.by_task_manager.setdefault(shared.slot.task_manager_id, {})[shared.request_id] = shared

    def discard(self, shared: SharedSlot) -> None:
        self.pending.pop(shared.request_id, None)
        if self.resolved.pop(shared.request_id, None) is not None:
            assert shared.slot is not None
            del self.by_task_manager[shared.slot.task_manager_id][shared.request_id]


@trace_tag("state.slot_sharing_group")
@dataclass(slots=True)
class _Group:
    slots: dict[SlotRequestId, SharedSlot] = field(default_factory=dict)
    open: dict[Place, _Open] = field(default_factory=dict)


class SlotSharing:
    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._by_request: dict[SlotRequestId, SharedSlot] = {}
        self._by_attempt: dict[ExecutionAttemptId, SharedSlot] = {}
        self._by_allocation: dict[AllocationId, SharedSlot] = {}
        self._by_constraint: dict[CoLocationConstraint, SharedSlot] = {}
        self._kept_for: dict[AllocationId, dict[Subtask, Place]] = {}
        self._kept_in: dict[str, dict[AllocationId, None]] = {}
        self._prior: dict[Subtask, AllocationId] = {}
        self._created = 0

    # Queries

    def get(self, request_id: SlotRequestId) -> SharedSlot | None:
        return self._by_request.get(request_id)

    def shared_slot_of(self, attempt: ExecutionAttemptId) -> SharedSlot | None:
        return self._by_attempt.get(attempt)

    def shared_slot_of_constraint(self, constraint: CoLocationConstraint) -> SharedSlot | None:
        return self._by_constraint.get(constraint)

    def shared_slot_at(self, allocation_id: AllocationId) -> SharedSlot | None:
        return self._by_allocation.get(allocation_id)

    def slots_of(self, group: str) -> tuple[SharedSlot, ...]:
        return tuple(self._groups[group].slots.values()) if group in self._groups else ()

    def prior(self, request: SlotRequest) -> AllocationId | None:
        return self._prior.get(_subtask(request))

    def is_kept(self, allocation_id: AllocationId) -> bool:
        return allocation_id in self._kept_for

    # Room for requests

    def room(self, request: SlotRequest, task_manager: TaskManagerId | None = None) -> SharedSlot | None:
        opened = self._open(request.slot_sharing_group, _place(request))
        if task_manager is None:
            return self._joinable(request, opened.resolved.values())
        return self._joinable(request, opened.by_task_manager.get(task_manager, {}).values())

    def room_in_pending(self, request: SlotRequest) -> SharedSlot | None:
        return self._joinable(request, self._open(request.slot_sharing_group, _place(request)).pending.values())

    def can_join(self, request: SlotRequest, shared: SharedSlot) -> bool:
        return (
            shared.group == request.slot_sharing_group
            and all(self._is_open(shared, place, _subtask(request)) for place in _places(request))
            and shared.has_room_for(request)
        )

    def reserved_with_room(self, request: SlotRequest) -> Iterator[AllocationId]:
        """Yield the slots without members that are reserved only for other vertices of the group."""
        place = ("vertex", str(request.vertex_id))
        for allocation_id in self._kept_in.get(request.slot_sharing_group, ()):
            if allocation_id not in self._by_allocation and place not in self._kept_for[allocation_id].values():
                yield allocation_id

    def _joinable(self, request: SlotRequest, candidates: Iterable[SharedSlot]) -> SharedSlot | None:
        return next((shared for shared in candidates if self.can_join(request, shared)), None)

    # Changes

    def create(self, group: str, slot: AssignedSlot | None = None) -> SharedSlot:
        self._created += 1
        shared = SharedSlot(request_id=SlotRequestId(f"{group}/{self._created}"), group=group, slot=slot)
        slots = self._groups.setdefault(group, _Group())
        slots.slots[shared.request_id] = self._by_request[shared.request_id] = shared
        if slot is not None:
            self._by_allocation[slot.allocation_id] = shared
        for place in slots.open:
            self._sort_in(shared, place)
        return shared

    def join(self, shared: SharedSlot, request: SlotRequest) -> None:
        shared.members[request.attempt] = request
        self._by_attempt[request.attempt] = shared
        if request.co_location is not None:
            shared.constraints[request.co_location.group] = request.co_location
            self._by_constraint[request.co_location] = shared
        for place in _places(request):
            self._sort_in(shared, place)

    def leave(self, attempt: ExecutionAttemptId, *, will_return: bool) -> SharedSlot | None:
        """Remove an attempt from its slot. A slot without members exists until it is dropped."""
        shared = self._by_attempt.pop(attempt, None)
        if shared is None:
            return None
        request = shared.members.pop(attempt)
        constraint = request.co_location
        if constraint is not None and all(member.co_location != constraint for member in shared.members.values()):
            del shared.constraints[constraint.group]
            del self._by_constraint[constraint]
        if will_return and shared.slot is not None:
            allocation_id = shared.slot.allocation_id
            self._prior[_subtask(request)] = allocation_id
            self._kept_for.setdefault(allocation_id, {})[_subtask(request)] = ("vertex", request.vertex_id)
            self._kept_in.setdefault(shared.group, {})[allocation_id] = None
        for place in _places(request):
            self._sort_in(shared, place)
        return shared

    def resolve(self, shared: SharedSlot, slot: AssignedSlot) -> None:
        places = self._groups[shared.group].open
        for opened in places.values():
            opened.discard(shared)
        shared.slot = slot
        self._by_allocation[slot.allocation_id] = shared
        for place in places:
            self._sort_in(shared, place)

    def drop(self, shared: SharedSlot) -> tuple[SlotRequest, ...]:
        group = self._groups[shared.group]
        del group.slots[shared.request_id]
        del self._by_request[shared.request_id]
        if shared.slot is not None:
            del self._by_allocation[shared.slot.allocation_id]
        for opened in group.open.values():
            opened.discard(shared)
        for constraint in shared.constraints.values():
            del self._by_constraint[constraint]
        for attempt in shared.members:
            del self._by_attempt[attempt]
        return tuple(shared.members.values())

    def drop_reservation(self, request: SlotRequest) -> AllocationId | None:
        allocation_id = self._prior.pop(_subtask(request), None)
        if allocation_id is None:
            return None
        kept_for = self._kept_for[allocation_id]
        place = kept_for.pop(_subtask(request))
        holder = self._by_allocation.get(allocation_id)
        if holder is not None:
            self._sort_in(holder, place)
        if kept_for:
            return None
        del self._kept_for[allocation_id]
        del self._kept_in[request.slot_sharing_group][allocation_id]
        return allocation_id

    def forget(self, allocation_id: AllocationId) -> None:
        for subtask in self._kept_for.pop(allocation_id, {}):
            del self._prior[subtask]
        for reserved in self._kept_in.values():
            reserved.pop(allocation_id, None)

    def forget_all(self) -> tuple[AllocationId, ...]:
        reserved = tuple(self._kept_for)
        for allocation_id in reserved:
            places = dict.fromkeys(self._kept_for[allocation_id].values())
            self.forget(allocation_id)
            if (holder := self._by_allocation.get(allocation_id)) is not None:
                for place in places:
                    self._sort_in(holder, place)
        return reserved

    def check(self) -> None:
        slots = list(self._by_request.values())
        assert sum(len(group.slots) for group in self._groups.values()) == len(slots)
        assert sorted(self._by_attempt) == sorted(attempt for shared in slots for attempt in shared.members)
        assert all(shared.members for shared in slots), "an empty shared slot was not returned"
        for shared in slots:
            vertices = [member.vertex_id for member in shared.members.values()]
            assert len(set(vertices)) == len(vertices), f"{shared.request_id} contains a vertex more than once"
            constraints = {member.co_location for member in shared.members.values() if member.co_location}
            assert set(shared.constraints.values()) == constraints
            assert all(self._by_constraint[constraint] is shared for constraint in constraints)
            assert shared.slot is None or self._by_allocation[shared.slot.allocation_id] is shared
            for place, opened in self._groups[shared.group].open.items():
                where = opened.pending if shared.slot is None else opened.resolved
                assert (shared.request_id in where) == self._is_open(shared, place), (shared, place)
        reservations = {subtask: allocation for allocation, for_whom in self._kept_for.items() for subtask in for_whom}
        assert reservations == self._prior, "reservations and prior slots differ"
        assert all(self._kept_for.values())
        assert sorted(each for kept_in in self._kept_in.values() for each in kept_in) == sorted(self._kept_for)

    # The index

    def _open(self, group: str, place: Place) -> _Open:
        slots = self._groups.setdefault(group, _Group())
        opened = slots.open.get(place)
        if opened is None:
            opened = slots.open[place] = _Open()
            for shared in slots.slots.values():
                if self._is_open(shared, place):
                    opened.add(shared)
        return opened

    def _sort_in(self, shared: SharedSlot, place: Place) -> None:
        opened = self._groups[shared.group].open.get(place)
        if opened is not None:
            opened.discard(shared)
            if self._is_open(shared, place):
                opened.add(shared)

    def _is_open(self, shared: SharedSlot, place: Place, subtask: Subtask | None = None) -> bool:
        kind, name = place
        if kind == "co-location":
            return name not in shared.constraints
        if any(member.vertex_id == name for member in shared.members.values()):
            return False
        kept_for = self._kept_for.get(shared.slot.allocation_id, {}) if shared.slot else {}
        return all(reserved != place for returning, reserved in kept_for.items() if returning != subtask)


def _subtask(request: SlotRequest) -> Subtask:
    return request.vertex_id, request.subtask


def _place(request: SlotRequest) -> Place:
    return _places(request)[-1]


def _places(request: SlotRequest) -> tuple[Place, ...]:
    vertex = ("vertex", str(request.vertex_id))
    return (vertex,) if request.co_location is None else (vertex, ("co-location", request.co_location.group))
