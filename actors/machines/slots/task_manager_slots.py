"""The slots of all TaskManagers as the ResourceManager knows them, and which slots are free.

A request with a declared size gets a new slot of this size, if a TaskManager supports that (`DynamicSlots`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from flykka.actors.machines.slots.least_utilized import LeastUtilized
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, ResourceBudget, cut_for
from flykka.actors.machines.states import next_phase
from flykka.messages.control.registration import SlotReport, SlotStatus
from flykka.messages.control.slots import AllocateSlotConfirmed
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId, slot_id, task_manager_of


class SlotState(Enum):
    FREE = "FREE"
    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"


SLOT_MOVES: dict[SlotState, tuple[SlotState, ...]] = {
    SlotState.FREE: (SlotState.PENDING, SlotState.ALLOCATED),
    SlotState.PENDING: (SlotState.ALLOCATED, SlotState.FREE),
    SlotState.ALLOCATED: (SlotState.FREE,),
}
"""A slot moves from FREE to ALLOCATED if its TaskManager reports an unknown allocation."""


@dataclass(slots=True, kw_only=True)
class TaskManagerSlot:
    """A slot (Flink's TaskManagerSlot). `job_id` is `None` if only a refusal has named its allocation.

    A slot that `is_dynamic` exists only while it is allocated.
    """

    slot_id: SlotId
    task_manager: TaskManagerId
    size: ResourceSpec
    is_dynamic: bool = False
    state: SlotState = SlotState.FREE
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None

    @property
    def holder(self) -> AllocationId:
        assert self.allocation_id is not None, f"{self.slot_id} is free"
        return self.allocation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The slots of a TaskManager, the number of available slots, its declared resources, and the unused resources."""

    slots: int
    free: int
    total: ResourceSpec
    remaining: ResourceSpec
    network_memory_bytes: int = 0


class TaskManagerSlots:
    def __init__(self) -> None:
        self._by_id: dict[SlotId, TaskManagerSlot] = {}
        self._of: dict[TaskManagerId, dict[SlotId, TaskManagerSlot]] = {}
        self._free = LeastUtilized()
        self._dynamic = DynamicSlots()
        self._network_memory_bytes: dict[TaskManagerId, int] = {}

    def __iter__(self) -> Iterator[TaskManagerSlot]:
        return iter(self._by_id.values())

    def __getitem__(self, slot_id: SlotId) -> TaskManagerSlot:
        return self._by_id[slot_id]

    def get(self, slot_id: SlotId) -> TaskManagerSlot | None:
        return self._by_id.get(slot_id)

    @property
    def task_managers(self) -> tuple[TaskManagerId, ...]:
        return tuple(self._of)

    def choose(self, required: ResourceSpec) -> ChosenSlot | None:
        cut = self._dynamic.choose(required)
        if cut is not None:
            return cut
        free = self._free.next(required)
        return None if free is None else ChosenSlot(task_manager=self._by_id[free].task_manager, slot_id=free)

    def take(self, chosen: ChosenSlot) -> TaskManagerSlot:
        if chosen.cut is None:
            return self._by_id[chosen.slot_id]
        cut = SlotStatus(slot_id=chosen.slot_id, resources=chosen.cut, is_dynamic=True)
        return self.add(chosen.task_manager, cut)

    def sizes(self) -> set[ResourceSpec]:
        declared = self._dynamic.totals()
        return {*declared.values(), *(slot.size for slot in self if slot.task_manager not in declared)}

    def usage(self, task_manager: TaskManagerId) -> Usage:
        slots = self._of[task_manager].values()
        total, remaining = self._dynamic.resources(task_manager)
        return Usage(
            slots=len(slots),
            free=sum(map(self.is_free, slots)),
            total=total,
            remaining=remaining,
            network_memory_bytes=self._network_memory_bytes[task_manager],
        )

    def is_free(self, slot: TaskManagerSlot) -> bool:
        return slot.state is SlotState.FREE and not self._dynamic.is_blocked(slot.task_manager, slot.slot_id)

    def is_unused(self, task_manager: TaskManagerId) -> bool:
        return self._free.is_unused(task_manager) and self._dynamic.is_unused(task_manager)

    def register(self, task_manager: TaskManagerId, total: ResourceSpec, network_memory_bytes: int = 0) -> None:
        self._network_memory_bytes[task_manager] = network_memory_bytes
        self._of[task_manager] = {}
        self._free.register(task_manager)
        self._dynamic.register(task_manager, total)

    def add(self, task_manager: TaskManagerId, status: SlotStatus) -> TaskManagerSlot:
        slot = TaskManagerSlot(
            slot_id=status.slot_id, task_manager=task_manager, size=status.resources, is_dynamic=status.is_dynamic
        )
        self._by_id[slot.slot_id] = self._of[task_manager][slot.slot_id] = slot
        self._dynamic.note(task_manager, slot.slot_id, slot.size, is_dynamic=slot.is_dynamic)
        if not slot.is_dynamic:
            self._free.add_slot(task_manager, slot.slot_id, slot.size)
            self._block(task_manager)
        return slot

    def unknown_cut(self, confirmed: AllocateSlotConfirmed) -> TaskManagerSlot | None:
        """Add a slot that was cut for a request that no longer waits. Returns `None` if its TaskManager is unknown."""
        task_manager = task_manager_of(confirmed.slot_id)
        if confirmed.cut is None or task_manager not in self._of:
            return None
        return self.add(task_manager, SlotStatus(slot_id=confirmed.slot_id, resources=confirmed.cut, is_dynamic=True))

    def missing_from(self, task_manager: TaskManagerId, report: SlotReport) -> list[TaskManagerSlot]:
        reported = {status.slot_id for status in report.slots}
        cut = (slot for slot in self._of[task_manager].values() if slot.is_dynamic)
        return [slot for slot in cut if slot.state is SlotState.ALLOCATED and slot.slot_id not in reported]

    def remove(self, task_manager: TaskManagerId) -> list[TaskManagerSlot]:
        """Remove a TaskManager. Returns its slots, if it was known."""
        if task_manager not in self._of:
            return []
        self._free.forget(task_manager)
        self._dynamic.forget(task_manager)
        del self._network_memory_bytes[task_manager]
        slots = list(self._of.pop(task_manager).values())
        for slot in slots:
            del self._by_id[slot.slot_id]
        return slots

    def hold(self, slot: TaskManagerSlot, state: SlotState, allocation_id: AllocationId, job_id: JobId | None) -> None:
        was_free = slot.state is SlotState.FREE
        slot.state = next_phase(SLOT_MOVES, slot.state, state)
        slot.allocation_id, slot.job_id = allocation_id, job_id
        if not was_free:
            return
        was_blocked = self._dynamic.take(slot.task_manager, slot.slot_id, slot.size, is_dynamic=slot.is_dynamic)
        if not slot.is_dynamic and not was_blocked:
            self._free.occupy(slot.task_manager, slot.slot_id)
        self._block(slot.task_manager)

    def release(self, slot: TaskManagerSlot) -> None:
        slot.state = next_phase(SLOT_MOVES, slot.state, SlotState.FREE)
        slot.allocation_id = slot.job_id = None
        self._dynamic.give_back(slot.task_manager, slot.size, is_dynamic=slot.is_dynamic)
        if slot.is_dynamic:
            del self._by_id[slot.slot_id], self._of[slot.task_manager][slot.slot_id]
        else:
            self._free.release(slot.task_manager, slot.slot_id)
        self._block(slot.task_manager)

    def _block(self, task_manager: TaskManagerId) -> None:
        """Block or unblock free slots, so that as many are available as the free resources allow."""
        while (too_many := self._dynamic.to_block(task_manager)) != 0:
            if too_many < 0:
                self._free.release(task_manager, self._dynamic.unblock(task_manager))
                continue
            free = self._free.next_on(task_manager, UNSPECIFIED)
            assert free is not None, f"{task_manager} has fewer free slots than counted"
            self._free.occupy(task_manager, free)
            self._dynamic.block(task_manager, free)

    def check(self) -> None:
        self._free.check()
        self._dynamic.check()
        assert sum(map(len, self._of.values())) == len(self._by_id)
        for slot in self._by_id.values():
            is_free = slot.state is SlotState.FREE
            assert is_free == (slot.allocation_id is None), (
                f"{slot} must have an allocation if and only if it is not free"
            )
            if slot.is_dynamic:
                assert not is_free, f"{slot} is dynamic but free: it belongs to no request"
                continue
            offered = self._free.is_free(slot.task_manager, slot.slot_id)
            assert offered == self.is_free(slot), f"{slot} is offered while it is held"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSlot:
    task_manager: TaskManagerId
    slot_id: SlotId
    cut: ResourceSpec | None = None


@dataclass(slots=True, kw_only=True)
class _Declared:
    budget: ResourceBudget
    default: ResourceSpec = UNSPECIFIED
    open: int = 0
    blocked: dict[SlotId, None] = field(default_factory=dict)
    next_index: int = 0


class DynamicSlots:
    """Creates slots of a requested size from the free resources of a TaskManager (Flink's fine-grained resources).

    Only TaskManagers that have declared their resources create such slots. Their slots of the default size, which exist
    from the start, use the same resources, so free slots are blocked if the remaining resources do not suffice. A slot
    is created at the most used TaskManager that has room, so that room for large requests remains elsewhere.

    Not here: which slots are free and which allocations hold them (`task_manager_slots`).
    """

    def __init__(self) -> None:
        self._declared: dict[TaskManagerId, _Declared] = {}

    def register(self, task_manager: TaskManagerId, total: ResourceSpec) -> None:
        if total != UNSPECIFIED:
            self._declared[task_manager] = _Declared(budget=ResourceBudget(total))

    def forget(self, task_manager: TaskManagerId) -> None:
        self._declared.pop(task_manager, None)

    def note(self, task_manager: TaskManagerId, slot: SlotId, size: ResourceSpec, *, is_dynamic: bool) -> None:
        """Add a slot. A slot of the default size is free."""
        own = self._declared.get(task_manager)
        if own is None:
            return
        own.next_index = max(own.next_index, int(slot.rpartition("/")[2]) + 1)
        if not is_dynamic:
            own.default = size
            own.open += 1

    def take(self, task_manager: TaskManagerId, slot: SlotId, size: ResourceSpec, *, is_dynamic: bool) -> bool:
        """Count a free or new slot as used. Returns True if it was blocked."""
        own = self._declared.get(task_manager)
        if own is None:
            return False
        own.budget.take(size)
        if is_dynamic:
            return False
        if slot in own.blocked:
            del own.blocked[slot]
            return True
        own.open -= 1
        return False

    def give_back(self, task_manager: TaskManagerId, size: ResourceSpec, *, is_dynamic: bool) -> None:
        own = self._declared.get(task_manager)
        if own is not None:
            own.budget.give_back(size)
            own.open += not is_dynamic

    def to_block(self, task_manager: TaskManagerId) -> int:
        """Return the number of free slots to block. A negative number is the number of slots to unblock."""
        own = self._declared.get(task_manager)
        if own is None:
            return 0
        room = own.budget.slots_left(own.default, at_most=own.open + len(own.blocked))
        return own.open - room

    def block(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        own = self._declared[task_manager]
        own.open -= 1
        own.blocked[slot] = None

    def unblock(self, task_manager: TaskManagerId) -> SlotId:
        own = self._declared[task_manager]
        own.open += 1
        slot, _ = own.blocked.popitem()
        return slot

    def choose(self, required: ResourceSpec) -> ChosenSlot | None:
        """Return the slot to cut for a request, or `None` if no TaskManager has room or the request has no size."""
        if required == UNSPECIFIED:
            return None
        candidates = [
            (-own.budget.utilization, order, task_manager, own)
            for order, (task_manager, own) in enumerate(self._declared.items())
            if own.budget.has_room_for(cut_for(required, own.default))
        ]
        if not candidates:
            return None
        *_, task_manager, own = min(candidates, key=lambda each: each[:2])
        new = slot_id(task_manager, own.next_index)
        return ChosenSlot(task_manager=task_manager, slot_id=new, cut=cut_for(required, own.default))

    def is_unused(self, task_manager: TaskManagerId) -> bool:
        """Return True if no slot uses resources of the TaskManager, or its resources are not known."""
        return task_manager not in self._declared or not self._declared[task_manager].budget.utilization

    def totals(self) -> dict[TaskManagerId, ResourceSpec]:
        return {task_manager: own.budget.total for task_manager, own in self._declared.items()}

    def resources(self, task_manager: TaskManagerId) -> tuple[ResourceSpec, ResourceSpec]:
        own = self._declared.get(task_manager)
        return (UNSPECIFIED, UNSPECIFIED) if own is None else (own.budget.total, own.budget.remaining)

    def is_blocked(self, task_manager: TaskManagerId, slot: SlotId) -> bool:
        return task_manager in self._declared and slot in self._declared[task_manager].blocked

    def check(self) -> None:
        for task_manager in self._declared:
            assert self.to_block(task_manager) == 0, f"{task_manager} has the wrong number of available slots"
