"""The allocated resources never exceed the existing ones, in any order of messages between ResourceManager and
TaskManagers.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.slots.resource_profile import share_of
from flykka.actors.machines.slots.slot_manager import AssignSlot, SlotManager
from flykka.actors.machines.slots.slot_table import SlotTable
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.messages.control.registration import Heartbeat
from flykka.messages.control.slots import AllocateSlot, CancelSlotRequest, FreeSlot
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, LeaderSessionId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from tests.actors.machines.slots.slot_manager_events import FIRST, SECOND, registers, requested

TOTAL = ResourceSpec(cpu_millis=1_000, heap_mib=90)
SLOTS = 2
SIZES = [ResourceSpec(), ResourceSpec(cpu_millis=300), ResourceSpec(cpu_millis=250, heap_mib=20), TOTAL]


class SlotsAreCut(RuleBasedStateMachine):
    """A SlotManager and the tables of two TaskManagers, with a message queue in each direction."""

    task_managers = st.sampled_from([FIRST, SECOND])
    allocations = st.sampled_from([AllocationId(name) for name in "abcdef"])

    @initialize()
    def begin(self) -> None:
        self.manager = SlotManager(WorkerCounts(configured=0))
        self.tables = {each: SlotTable(each, SLOTS, share_of(TOTAL, SLOTS), TOTAL) for each in (FIRST, SECOND)}
        self.to_table: dict[TaskManagerId, deque[AssignSlot]] = {FIRST: deque(), SECOND: deque()}
        self.to_manager: dict[TaskManagerId, deque[Message]] = {FIRST: deque(), SECOND: deque()}
        self.sizes: dict[AllocationId, ResourceSpec] = {}
        for each, table in self.tables.items():
            self.tell(registers(each, table.report()))

    def tell(self, event: object) -> None:
        for effect in self.manager.handle(event, 0):  # type: ignore[arg-type]
            if isinstance(effect, AssignSlot):
                self.to_table[effect.task_manager].append(effect)

    def at_table(self, task_manager: TaskManagerId, event: AllocateSlot | FreeSlot) -> None:
        for effect in self.tables[task_manager].handle(event, 0):
            if isinstance(effect, Tell) and effect.to is Role.RESOURCE_MANAGER:
                self.to_manager[task_manager].append(effect.message)

    @rule(allocation=allocations, size=st.sampled_from(SIZES))
    def request(self, allocation: AllocationId, size: ResourceSpec) -> None:
        if allocation not in self.sizes:
            self.sizes[allocation] = size
            self.tell(requested(allocation, resources=size))

    @rule(allocation=allocations)
    def cancel(self, allocation: AllocationId) -> None:
        self.tell(CancelSlotRequest(allocation_id=allocation))

    @rule(task_manager=task_managers)
    def deliver_to_table(self, task_manager: TaskManagerId) -> None:
        if self.to_table[task_manager]:
            given = self.to_table[task_manager].popleft()
            allocate = AllocateSlot(
                slot_id=given.slot_id,
                job_id=given.job_id,
                allocation_id=given.allocation_id,
                job_master=Ref(path="/user/job-1", incarnation=1),
                job_leader_session_id=LeaderSessionId("session"),
                cut=given.cut,
            )
            self.at_table(task_manager, allocate)

    @rule(task_manager=task_managers)
    def deliver_to_manager(self, task_manager: TaskManagerId) -> None:
        if self.to_manager[task_manager]:
            self.tell(self.to_manager[task_manager].popleft())

    @rule(task_manager=task_managers)
    def report(self, task_manager: TaskManagerId) -> None:
        heartbeat = Heartbeat(task_manager_id=task_manager, slot_report=self.tables[task_manager].report())
        self.to_manager[task_manager].append(heartbeat)

    @rule(allocation=allocations, task_manager=task_managers)
    def free(self, allocation: AllocationId, task_manager: TaskManagerId) -> None:
        self.at_table(task_manager, FreeSlot(allocation_id=allocation))

    @invariant()
    def holds(self) -> None:
        self.manager.check()
        for table in self.tables.values():
            table.check()

    def teardown(self) -> None:
        for each in (FIRST, SECOND):
            turns = 0
            while self.to_table[each] or self.to_manager[each]:
                turns += 1
                assert turns < 100, "they do not come to an end"
                self.deliver_to_table(each)
                self.deliver_to_manager(each)
        for each in (FIRST, SECOND):
            self.report(each)
        turns = 0
        while any(self.to_table.values()) or any(self.to_manager.values()):
            turns += 1
            assert turns < 100, "they do not come to an end"
            for each in (FIRST, SECOND):
                self.deliver_to_table(each)
                self.deliver_to_manager(each)
        for each, table in self.tables.items():
            held = {status.slot_id: status.allocation_id for status in table.report().slots if status.allocation_id}
            believed = self.manager.allocations.items()
            assert {slot: by for slot, by in believed if by and slot.startswith(f"{each}/")} == held
        self.manager.check()


TestSlotsAreCut = pytest.mark.slow(SlotsAreCut.TestCase)
