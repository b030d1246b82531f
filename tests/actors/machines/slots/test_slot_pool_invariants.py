"""Invariants under any events: a request is pending or fulfilled, and a slot is used or free."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED
from flykka.actors.machines.slots.slot_pool import (
    ResourceManagerConnected,
    SlotAssigned,
    SlotPool,
    SlotPoolEffect,
    SlotRemoved,
    SlotReservationReleased,
)
from flykka.actors.machines.slots.slot_requests import AssignedSlot
from flykka.messages.control.slots import CancelSlotRequest, RequestSlot
from flykka.messages.wire.ids import AllocationId, TaskManagerId
from tests.actors.machines.slots.slot_pool_events import (
    FIRST,
    JOB,
    JOB_MASTER,
    SECOND,
    connected,
    free_slots,
    lost,
    offered,
    returned,
    wanted,
)


class SlotPoolLives(RuleBasedStateMachine):
    """Requests are created and cancelled while TaskManagers offer slots and are lost."""

    requests = st.sampled_from("rstu")
    task_managers = st.sampled_from([FIRST, SECOND])

    @initialize()
    def begin(self) -> None:
        self.slots = SlotPool("a", JOB, JOB_MASTER)
        self.asked: set[AllocationId] = set()
        self.served: dict[str, AllocationId] = {}
        self.made = 0
        self.feed(ResourceManagerConnected())

    def feed(self, event: Any) -> None:
        for effect in self.slots.handle(event, 0):
            self.perform(effect)

    def perform(self, effect: SlotPoolEffect) -> None:
        match effect:
            case Tell(message=RequestSlot(allocation_id=allocation_id)):
                self.asked.add(allocation_id)
                self.made += 1
            case Tell(message=CancelSlotRequest(allocation_id=allocation_id)):
                self.asked.remove(allocation_id)
            case SlotAssigned(request_id=request_id, slot=AssignedSlot(allocation_id=allocation_id)):
                assert allocation_id not in self.served.values(), "one slot for two requests"
                self.asked.discard(allocation_id)
                self.served[request_id] = allocation_id
            case SlotRemoved(request_id=str(request_id)):
                del self.served[request_id]

    @rule(request=requests)
    def want(self, request: str) -> None:
        self.feed(wanted(request, held=self.slots.choose(UNSPECIFIED)))

    @rule(request=requests)
    def give_back(self, request: str) -> None:
        self.served.pop(request, None)
        self.feed(returned(request))

    @rule(request=requests)
    def leave_for_a_while(self, request: str) -> None:
        self.served.pop(request, None)
        self.feed(returned(request, is_kept=True))

    @rule()
    def come_back_no_more(self) -> None:
        for allocation_id in free_slots(self.slots, FIRST, SECOND):
            self.feed(SlotReservationReleased(allocation_id=allocation_id))

    @rule(task_manager=task_managers)
    def connect(self, task_manager: TaskManagerId) -> None:
        self.feed(connected(task_manager))

    @rule(task_manager=task_managers)
    def lose(self, task_manager: TaskManagerId) -> None:
        self.feed(lost(task_manager))

    @rule(task_manager=task_managers, number=st.integers(1, 6), index=st.integers(0, 1))
    def offer(self, task_manager: TaskManagerId, number: int, index: int) -> None:
        # A slot for an earlier allocation, or for an allocation that the pool does not know.
        allocation = f"a-{number}" if number <= self.made else f"stray{number}"
        self.feed(offered(allocation, task_manager=task_manager, first_index=index))

    @invariant()
    def every_request_waits_or_is_served(self) -> None:
        self.slots.check()
        assert len(self.asked) == len(self.slots.pending_requests)
        held = {*self.slots.report(FIRST).values(), *self.slots.report(SECOND).values()}
        assert held == {*self.served.values(), *free_slots(self.slots, FIRST, SECOND)}


TestSlotPoolLives = pytest.mark.slow(SlotPoolLives.TestCase)
