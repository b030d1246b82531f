"""The slots of all TaskManagers as the ResourceManager knows them, and which of them are free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from flykka.actors.machines.slots.slot_matching import LeastUtilized
from flykka.messages.control.registration import SlotStatus
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId, TaskManagerId


class SlotState(Enum):
    """The state of a slot at the ResourceManager."""

    FREE = "FREE"
    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"


@dataclass(slots=True, kw_only=True)
class TaskManagerSlot:
    """A slot (Flink's TaskManagerSlot). `job_id` is None where a refusal named an allocation without a request."""

    slot_id: SlotId
    task_manager: TaskManagerId
    size: ResourceSpec
    state: SlotState = SlotState.FREE
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None


class TaskManagerSlots:
    """All of them."""

    def __init__(self) -> None:
        self._by_id: dict[SlotId, TaskManagerSlot] = {}
        self._of: dict[TaskManagerId, list[TaskManagerSlot]] = {}
        self._free = LeastUtilized()

    def __iter__(self) -> Iterator[TaskManagerSlot]:
        return iter(self._by_id.values())

    def __getitem__(self, slot_id: SlotId) -> TaskManagerSlot:
        return self._by_id[slot_id]

    def get(self, slot_id: SlotId) -> TaskManagerSlot | None:
        """The slot, if it is known."""
        return self._by_id.get(slot_id)

    @property
    def task_managers(self) -> tuple[TaskManagerId, ...]:
        """The TaskManagers whose slots are known."""
        return tuple(self._of)

    def choose(self, required: ResourceSpec) -> SlotId | None:
        """The free slot that should be used next."""
        return self._free.next(required)

    def has_slot_for(self, required: ResourceSpec) -> bool:
        """True if any slot, free or not, is large enough."""
        return self._free.has_slot_for(required)

    def is_unused(self, task_manager: TaskManagerId) -> bool:
        """True if all slots of the TaskManager are free."""
        return self._free.is_unused(task_manager)

    def register(self, task_manager: TaskManagerId) -> None:
        """A TaskManager, without slots as yet."""
        self._of[task_manager] = []
        self._free.register(task_manager)

    def add(self, task_manager: TaskManagerId, status: SlotStatus) -> TaskManagerSlot:
        """Add a free slot."""
        slot = TaskManagerSlot(slot_id=status.slot_id, task_manager=task_manager, size=status.resources)
        self._by_id[slot.slot_id] = slot
        self._of[task_manager].append(slot)
        self._free.add_slot(task_manager, slot.slot_id, slot.size)
        return slot

    def remove(self, task_manager: TaskManagerId) -> list[TaskManagerSlot]:
        """A TaskManager is there no more; the slots that it had, if it was known."""
        if task_manager not in self._of:
            return []
        self._free.forget(task_manager)
        slots = self._of.pop(task_manager)
        for slot in slots:
            del self._by_id[slot.slot_id]
        return slots

    def hold(self, slot: TaskManagerSlot, state: SlotState, allocation_id: AllocationId, job_id: JobId | None) -> None:
        """The slot is PENDING for an allocation, or ALLOCATED to it."""
        if slot.state is SlotState.FREE:
            self._free.occupy(slot.task_manager, slot.slot_id)
        slot.state, slot.allocation_id, slot.job_id = state, allocation_id, job_id

    def release(self, slot: TaskManagerSlot) -> None:
        """The slot is free."""
        slot.state, slot.allocation_id, slot.job_id = SlotState.FREE, None, None
        self._free.release(slot.task_manager, slot.slot_id)

    def check(self) -> None:
        """Assert the invariants."""
        self._free.check()
        assert sum(map(len, self._of.values())) == len(self._by_id)
        for slot in self._by_id.values():
            is_free = slot.state is SlotState.FREE
            assert is_free == (slot.allocation_id is None), f"{slot} is free and held"
            assert is_free == self._free.is_free(slot.task_manager, slot.slot_id), f"{slot} is offered while it is held"
