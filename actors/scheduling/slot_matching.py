"""Which free slot is next: one of the TaskManager that is used least (Flink's LeastUtilizationSlotMatchingStrategy).

Ties go to the TaskManager that registered first. The order lives in a heap whose entries may be outdated; one that no
longer says the truth is dropped when it comes up, and each TaskManager has at most one entry per utilization. So a slot
is found in logarithmic time, however many TaskManagers there are.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from flykka.messages.ids import SlotId, TaskManagerId


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A TaskManager's slots: `total` of them, `free` in the order in which they became so."""

    order: int
    total: int = 0
    free: dict[SlotId, None] = field(default_factory=dict)
    queued: set[float] = field(default_factory=set)

    @property
    def utilization(self) -> float:
        return 1 - len(self.free) / self.total if self.total else 1.0


class LeastUtilized:
    """The free slots of all TaskManagers."""

    def __init__(self) -> None:
        self._candidates: dict[TaskManagerId, _Candidate] = {}
        self._heap: list[tuple[float, int, TaskManagerId]] = []
        self._registered = 0

    def register(self, task_manager: TaskManagerId) -> None:
        """A TaskManager, without slots as yet."""
        self._candidates[task_manager] = _Candidate(order=self._registered)
        self._registered += 1

    def forget(self, task_manager: TaskManagerId) -> None:
        """Its slots are gone, and it."""
        del self._candidates[task_manager]

    def add_slot(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        """One more slot, free."""
        self._candidates[task_manager].total += 1
        self.release(task_manager, slot)

    def release(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        """The slot is free."""
        self._candidates[task_manager].free[slot] = None
        self._queue(task_manager)

    def occupy(self, task_manager: TaskManagerId, slot: SlotId) -> None:
        """The slot is not free."""
        del self._candidates[task_manager].free[slot]
        self._queue(task_manager)

    def next(self) -> SlotId | None:
        """The free slot that should be used next; it stays free until it is occupied."""
        while self._heap:
            utilization, order, task_manager = self._heap[0]
            candidate = self._candidates.get(task_manager)
            if candidate is not None and candidate.order == order:
                if candidate.free and candidate.utilization == utilization:
                    return next(iter(candidate.free))
                candidate.queued.discard(utilization)
            heapq.heappop(self._heap)
        return None

    def is_free(self, task_manager: TaskManagerId, slot: SlotId) -> bool:
        """Whether the slot could be next."""
        return slot in self._candidates[task_manager].free

    def check(self) -> None:
        """Assert that whatever is free can come up."""
        for task_manager, candidate in self._candidates.items():
            assert len(candidate.free) <= candidate.total, f"{task_manager} has more free slots than slots"
            assert not candidate.free or candidate.utilization in candidate.queued, f"{task_manager} cannot come up"

    def _queue(self, task_manager: TaskManagerId) -> None:
        candidate = self._candidates[task_manager]
        utilization = candidate.utilization
        if candidate.free and utilization not in candidate.queued:
            candidate.queued.add(utilization)
            heapq.heappush(self._heap, (utilization, candidate.order, task_manager))
