"""The slots of a job under test: its ExecutionSlotAllocator, and what it was heard to say."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.slots.execution_slot_allocator import (
    AllocatorEffect,
    AllocatorEvent,
    AttemptsLost,
    AttemptsPlaced,
    AttemptsRejected,
    ExecutionSlotAllocator,
)
from flykka.actors.machines.slots.slot_pool_events import (
    CancelRequestTimer,
    SlotsOffered,
    StartRequestTimer,
    TaskManagerConnected,
)
from flykka.actors.machines.slots.slot_requests import (
    ReturnSlot,
    SlotRequestId,
)
from flykka.messages.control.slots import SlotOffer
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, TaskManagerId, slot_id
from tests.actors.machines.slots.slot_pool_events import free_slots


class JobSlots:
    """What a job asks for and is given, whatever words a case uses for it."""

    def __init__(self, **settings: Any) -> None:
        self.allocator = ExecutionSlotAllocator("a", **settings)
        self.now = 0
        self.effects: list[AllocatorEffect] = []
        self.step: list[AllocatorEffect] = []
        self.placed: dict[str, AttemptsPlaced] = {}
        self.failed: dict[str, str] = {}
        self.lost: set[str] = set()
        self._offering: dict[TaskManagerId, None] = {}
        self.timers: dict[SlotRequestId, int] = {}

    def tell(self, event: AllocatorEvent) -> list[AllocatorEffect]:
        """What follows from one event."""
        effects = self.allocator.handle(event, self.now)
        self.allocator.check()
        self.effects += effects
        self.step += effects
        for effect in effects:
            match effect:
                case AttemptsPlaced(attempts=attempts):
                    self.placed |= dict.fromkeys(attempts, effect)
                case AttemptsRejected(attempts=attempts, reason=reason):
                    self.failed |= dict.fromkeys(attempts, reason)
                case AttemptsLost(attempts=attempts):
                    self.lost |= set(attempts)
                case StartRequestTimer(request_id=request_id, delay_ms=delay_ms):
                    self.timers[request_id] = self.now + delay_ms
                case CancelRequestTimer(request_id=request_id):
                    self.timers.pop(request_id, None)
        return effects

    def connect(self, task_manager: str, slots: int = 0, size: ResourceSpec | None = None) -> None:
        """A TaskManager is there, and offers so many slots that nobody has asked for."""
        self.tell(TaskManagerConnected(task_manager=TaskManagerId(task_manager)))
        for index in range(slots):
            self.offer(task_manager, f"{task_manager}-{index}", index, size)

    def offer(self, task_manager: str, allocation: str, index: int, size: ResourceSpec | None = None) -> None:
        """A slot for an allocation."""
        name = TaskManagerId(task_manager)
        self._offering[name] = None
        offer = SlotOffer(
            allocation_id=AllocationId(allocation), slot_id=slot_id(name, index), resources=size or ResourceSpec()
        )
        self.tell(SlotsOffered(task_manager=name, offers=(offer,)))

    def free_slots(self) -> tuple[AllocationId, ...]:
        """What no task uses."""
        return free_slots(self.allocator.pool, *self._offering)

    def release(self, task: str) -> None:
        """The task has finished."""
        self.tell(ReturnSlot(attempt=ExecutionAttemptId(task), will_return=False))

    def made(self, kind: type[Any]) -> list[Any]:
        """Everything of one kind that was asked for so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]
