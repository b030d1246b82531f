"""Selects a free slot of the least used TaskManager (Flink's LeastUtilizationSlotMatchingStrategy).

Ties go to the TaskManager that registered first. A heap for each slot size has the order of the TaskManagers. Its
entries may be outdated; an outdated entry is dropped when it reaches the top. Each TaskManager has at most one entry
per utilization. So a slot is found in logarithmic time with any number of TaskManagers, if there are few slot sizes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from flykka.actors.machines.slots.resource_profile import fits
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import SlotId, TaskManagerId

_Entry = tuple[float, int, TaskManagerId]


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """The slots of a TaskManager by size, and the free slots of each size in the order in which they became free."""

    order: int
    sizes: dict[SlotId, ResourceSpec] = field(default_factory=dict)
    free: dict[ResourceSpec, dict[SlotId, None]] = field(default_factory=dict)
    used: int = 0
    queued: set[tuple[ResourceSpec, float]] = field(default_factory=set)

    @property
    def utilization(self) -> float:
        return self.used / len(self.sizes) if self.sizes else 0.0

    def first_free(self, required: ResourceSpec) -> SlotId | None:
        matching = (slots for size, slots in self.free.items() if slots and fits(required, size))
        return next((slot for slots in matching for slot in slots), None)


class LeastUtilized:
    def __init__(self) -> None:
        self._candidates: dict[TaskManagerId, _Candidate] = {}
        self._heaps: dict[ResourceSpec, list[_Entry]] = {}
        self._registered = 0

    def register(self, task_manager: TaskManagerId) -> None:
        self._candidates[task_manager] = _Candidate(order=self._registered)
        self._registered += 1

    def forget(self, task_manager: TaskManagerId) -> None:
        del self._candidates[task_manager]

    def add_slot(self, task_manager: TaskManagerId, slot: SlotId, size: ResourceSpec) -> None:
        candidate = self._candidates[task_manager]
        candidate.sizes[slot] = size
        candidate.free.setdefault(size, {})[slot] = None
        self._queue(task_manager)

    def remove_slot(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        candidate = self._candidates[task_manager]
        size = candidate.sizes.pop(slot)
        if slot in candidate.free[size]:
            del candidate.free[size][slot]
        else:
            candidate.used -= 1
        self._queue(task_manager)

    def release(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        candidate = self._candidates[task_manager]
        candidate.free[candidate.sizes[slot]][slot] = None
        candidate.used -= 1
        self._queue(task_manager)

    def occupy(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        candidate = self._candidates[task_manager]
        del candidate.free[candidate.sizes[slot]][slot]
        candidate.used += 1
        self._queue(task_manager)

    def next(self, required: ResourceSpec) -> SlotId | None:
        """Return the free slot to use next for the required resources. The slot stays free until it is occupied."""
        best = min((top for size in self._heaps if fits(required, size) and (top := self._top(size))), default=None)
        return self._candidates[best[2]].first_free(required) if best else None

    def next_on(self, task_manager: TaskManagerId, required: ResourceSpec) -> SlotId | None:
        """Like `next`, but only on one TaskManager, which may be unknown."""
        candidate = self._candidates.get(task_manager)
        return candidate.first_free(required) if candidate else None

    def has_slot_for(self, required: ResourceSpec) -> bool:
        sizes = {size for candidate in self._candidates.values() for size in candidate.sizes.values()}
        return any(fits(required, size) for size in sizes)

    def is_free(self, task_manager: TaskManagerId, slot: SlotId) -> bool:
        candidate = self._candidates[task_manager]
        return slot in candidate.free[candidate.sizes[slot]]

    def utilization(self, task_manager: TaskManagerId) -> float:
        return self._candidates[task_manager].utilization

    def is_unused(self, task_manager: TaskManagerId) -> bool:
        return self._candidates[task_manager].used == 0

    def check(self) -> None:
        for task_manager, candidate in self._candidates.items():
            free = sum(map(len, candidate.free.values()))
            assert free + candidate.used == len(candidate.sizes), (
                f"{task_manager}: the free and the used slots do not add up to all slots"
            )
            for size, slots in candidate.free.items():
                queued = (size, candidate.utilization) in candidate.queued
                assert not slots or queued, f"the free slots of {task_manager} are not queued"

    def _top(self, size: ResourceSpec) -> _Entry | None:
        heap = self._heaps[size]
        while heap:
            utilization, order, task_manager = heap[0]
            candidate = self._candidates.get(task_manager)
            if candidate is not None and candidate.order == order:
                if candidate.free.get(size) and candidate.utilization == utilization:
                    return heap[0]
                candidate.queued.discard((size, utilization))
            heapq.heappop(heap)
        return None

    def _queue(self, task_manager: TaskManagerId) -> None:
        candidate = self._candidates[task_manager]
        utilization = candidate.utilization
        for size, slots in candidate.free.items():
            if slots and (size, utilization) not in candidate.queued:
                candidate.queued.add((size, utilization))
                heapq.heappush(self._heaps.setdefault(size, []), (utilization, candidate.order, task_manager))
