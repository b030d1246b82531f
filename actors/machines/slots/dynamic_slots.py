"""Slots that are cut to the size of a request, out of what a TaskManager has left (Flink's fine-grained resources).

Only TaskManagers that have declared their resources cut slots. Their slots of the default size, which are there from
the start, take the same resources when they are used: where not enough is left for one that is free, it is blocked.
A slot is cut at the TaskManager that is used most of those that have room, so that large requests find some as well.

Not here: which slots are free and who has them (`task_manager_slots`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.actors.machines.slots.resource_budget import ResourceBudget
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, cut_for
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import SlotId, TaskManagerId, slot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSlot:
    """The slot that a request gets: one that is there, or one that is `cut` to this size."""

    task_manager: TaskManagerId
    slot_id: SlotId
    cut: ResourceSpec | None = None


@dataclass(slots=True, kw_only=True)
class _Declared:
    """A TaskManager with declared resources."""

    budget: ResourceBudget
    default: ResourceSpec = UNSPECIFIED
    open: int = 0
    """Free slots of the default size that can be had."""
    blocked: dict[SlotId, None] = field(default_factory=dict)
    """Free ones that cannot."""
    next_index: int = 0


class DynamicSlots:
    """The TaskManagers that cut slots."""

    def __init__(self) -> None:
        self._declared: dict[TaskManagerId, _Declared] = {}

    def register(self, task_manager: TaskManagerId, total: ResourceSpec) -> None:
        """A TaskManager without slots as yet; nothing to do where it has declared no resources."""
        if total != UNSPECIFIED:
            self._declared[task_manager] = _Declared(budget=ResourceBudget(total))

    def forget(self, task_manager: TaskManagerId) -> None:
        self._declared.pop(task_manager, None)

    def note(self, task_manager: TaskManagerId, slot: SlotId, size: ResourceSpec, *, is_dynamic: bool) -> None:
        """A slot is there, which is free where it is of the default size."""
        own = self._declared.get(task_manager)
        if own is None:
            return
        own.next_index = max(own.next_index, int(slot.rpartition("/")[2]) + 1)
        if not is_dynamic:
            own.default = size
            own.open += 1

    def take(self, task_manager: TaskManagerId, slot: SlotId, size: ResourceSpec, *, is_dynamic: bool) -> bool:
        """A slot that was free, or was not there, is used; True where it was blocked."""
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
        """A slot is free, or gone where it is dynamic."""
        own = self._declared.get(task_manager)
        if own is not None:
            own.budget.give_back(size)
            own.open += not is_dynamic

    def to_block(self, task_manager: TaskManagerId) -> int:
        """The number of free slots that cannot be had any more; below 0 that of blocked ones that can again."""
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
        """A blocked slot can be had again."""
        own = self._declared[task_manager]
        own.open += 1
        slot, _ = own.blocked.popitem()
        return slot

    def choose(self, required: ResourceSpec) -> ChosenSlot | None:
        """The slot to be cut for a request; None where nobody has room, or it needs nothing in particular."""
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
        """True if no slot has anything of a TaskManager, as far as that is known."""
        return task_manager not in self._declared or not self._declared[task_manager].budget.utilization

    def totals(self) -> dict[TaskManagerId, ResourceSpec]:
        return {task_manager: own.budget.total for task_manager, own in self._declared.items()}

    def resources(self, task_manager: TaskManagerId) -> tuple[ResourceSpec, ResourceSpec]:
        """The resources of a TaskManager, and what is left of them; nothing in particular where they are not known."""
        own = self._declared.get(task_manager)
        return (UNSPECIFIED, UNSPECIFIED) if own is None else (own.budget.total, own.budget.remaining)

    def is_blocked(self, task_manager: TaskManagerId, slot: SlotId) -> bool:
        """True if a slot is free and cannot be had."""
        return task_manager in self._declared and slot in self._declared[task_manager].blocked

    def check(self) -> None:
        """Assert that no more slots are open than there is room for."""
        for task_manager in self._declared:
            assert self.to_block(task_manager) == 0, f"{task_manager} has other free slots than there is room for"
