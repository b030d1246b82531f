"""The SlotManager's state is correct after any order of actions of TaskManagers and JobMasters."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flykka.actors.machines.effects import JobMasterOf, Tell
from flykka.actors.machines.slots.slot_manager import AssignSlot, SlotManager, SlotManagerEffect
from flykka.actors.machines.slots.task_manager_slots import SlotState
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.messages.control.slots import CancelSlotRequest, SlotRequestFailed
from flykka.messages.wire.ids import AllocationId, SlotId, TaskManagerId, slot_id
from tests.actors.machines.slots.slot_manager_events import (
    FIRST,
    SECOND,
    allocation_refused,
    confirmed,
    freed,
    registered,
    requested,
)


class SlotManagerLives(RuleBasedStateMachine):
    """TaskManagers that fulfil slot requests in any order, compared with a model of their slots."""

    allocations = st.sampled_from([AllocationId(name) for name in "abcdef"])
    task_managers = st.sampled_from([FIRST, SECOND])

    @initialize()
    def begin(self) -> None:
        self.slots = SlotManager(WorkerCounts(configured=0))
        self.wanted: set[AllocationId] = set()
        self.held: dict[SlotId, AllocationId | None] = {}
        self.inbox: list[AssignSlot] = []

    def feed(self, *events: object) -> None:
        for event in events:
            for effect in self.slots.handle(event, 0):  # type: ignore[arg-type]
                self.perform(effect)

    def perform(self, effect: SlotManagerEffect) -> None:
        match effect:
            case AssignSlot():
                assert effect.allocation_id in self.wanted, "a slot for nobody"
                self.inbox.append(effect)
            case Tell(to=JobMasterOf(), message=SlotRequestFailed(allocation_id=allocation_id)):
                self.wanted.discard(allocation_id)

    @rule(task_manager=task_managers)
    def register(self, task_manager: TaskManagerId) -> None:
        mine = [slot_id(task_manager, index) for index in range(2)]
        for each in mine:
            self.held.setdefault(each, None)
        self.feed(registered(task_manager, *(self.held[each] for each in mine)))

    @rule(allocation=allocations)
    def request(self, allocation: AllocationId) -> None:
        if allocation not in self.held.values():
            self.wanted.add(allocation)
            self.feed(requested(allocation))

    @rule(allocation=allocations)
    def cancel(self, allocation: AllocationId) -> None:
        self.wanted.discard(allocation)
        self.feed(CancelSlotRequest(allocation_id=allocation))

    @rule()
    def deliver(self) -> None:
        if not self.inbox:
            return
        given = self.inbox.pop(0)
        holder = self.held[given.slot_id]
        task_manager, index = given.task_manager, int(given.slot_id.rpartition("/")[2])
        if holder is None and given.allocation_id not in self.held.values():
            self.held[given.slot_id] = given.allocation_id
            self.feed(confirmed(task_manager, index, given.allocation_id))
        else:
            self.feed(allocation_refused(task_manager, index, given.allocation_id, by=holder))

    @rule(task_manager=task_managers, index=st.integers(0, 1))
    def free(self, task_manager: TaskManagerId, index: int) -> None:
        allocation = self.held.get(slot_id(task_manager, index))
        if allocation is not None:
            self.held[slot_id(task_manager, index)] = None
            self.feed(freed(task_manager, index, allocation))

    @invariant()
    def holds(self) -> None:
        self.slots.check()

    def teardown(self) -> None:
        while self.inbox:
            self.deliver()
        believed = {each for each, state in self.slots.slot_states.items() if state is SlotState.ALLOCATED}
        assert believed == {each for each, holder in self.held.items() if holder is not None}
        self.slots.check()


TestSlotManagerLives = pytest.mark.slow(SlotManagerLives.TestCase)
