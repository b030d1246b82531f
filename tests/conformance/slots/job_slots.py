"""The slots of a job under test: the job's ExecutionSlotAllocator, and the messages that it sent."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.effects import CancelTimer, StartTimer, Tell
from flykka.actors.machines.slots.execution_slot_allocator import (
    AllocatorEffect,
    AllocatorEvent,
    ExecutionSlotAllocator,
)
from flykka.actors.machines.slots.slot_requests import (
    AssignedSlot,
    ReturnSlot,
    SlotAllocated,
    SlotAllocationFailed,
    SlotsLost,
)
from flykka.messages.control.slots import OfferSlots, SlotOffer
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, TaskManagerId, slot_id
from tests.actors.machines.slots.slot_pool_events import JOB, JOB_MASTER, connected, free_slots


class JobSlots:
    """The slots that a job has requested and received, independent of the vocabulary of the test cases."""

    def __init__(self, **settings: Any) -> None:
        self.allocator = ExecutionSlotAllocator("a", JOB, JOB_MASTER, **settings)
        self.now = 0
        self.effects: list[AllocatorEffect] = []
        self.step: list[AllocatorEffect] = []
        self.placed: dict[str, AssignedSlot] = {}
        self.failed: dict[str, str] = {}
        self.lost: set[str] = set()
        self._offering: dict[TaskManagerId, None] = {}
        self.timers: dict[str, int] = {}

    def tell(self, event: AllocatorEvent) -> list[AllocatorEffect]:
        effects = self.allocator.handle(event, self.now)
        self.allocator.check()
        self.effects += effects
        self.step += effects
        for effect in effects:
            match effect:
                case SlotAllocated(attempts=attempts, slot=slot):
                    self.placed |= dict.fromkeys(attempts, slot)
                case SlotAllocationFailed(attempts=attempts, cause=cause):
                    self.failed |= dict.fromkeys(attempts, cause.message)
                case SlotsLost(attempts=attempts):
                    self.lost |= set(attempts)
                case StartTimer(key=key, delay_ms=delay_ms):
                    self.timers[key.removeprefix("slot-request/")] = self.now + delay_ms
                case CancelTimer(key=key):
                    self.timers.pop(key.removeprefix("slot-request/"), None)
        return effects

    def connect(self, task_manager: str, slots: int = 0, size: ResourceSpec | None = None) -> None:
        """Connect a TaskManager that offers this number of slots without a request."""
        self.tell(connected(TaskManagerId(task_manager)))
        for index in range(slots):
            self.offer(task_manager, f"{task_manager}-{index}", index, size)

    def offer(self, task_manager: str, allocation: str, index: int, size: ResourceSpec | None = None) -> None:
        name = TaskManagerId(task_manager)
        self._offering[name] = None
        offer = SlotOffer(
            allocation_id=AllocationId(allocation), slot_id=slot_id(name, index), resources=size or ResourceSpec()
        )
        self.tell(OfferSlots(task_manager_id=name, offers=(offer,)))

    def free_slots(self) -> tuple[AllocationId, ...]:
        return free_slots(self.allocator.pool, *self._offering)

    def release(self, task: str) -> None:
        self.tell(ReturnSlot(attempt=ExecutionAttemptId(task), will_return=False))

    def messages_of(self, kind: type[Any]) -> list[Any]:
        messages = [each.message for each in self.effects if isinstance(each, Tell)]
        return [message for message in messages if isinstance(message, kind)]
