"""The TaskManager as an actor: it registers, offers its slots, runs Tasks, and reports lost Tasks."""

from __future__ import annotations

import pytest

from flykka.actors.resource_manager_connection import RETRY_MS
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.control.registration import (
    DisconnectJobMaster,
    Heartbeat,
    HeartbeatRequest,
    RefuseRegistration,
    RegisterTaskManager,
    SlotReport,
    SlotStatus,
)
from flykka.messages.control.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    FreeSlot,
    OfferSlots,
    SlotAvailable,
    SlotOffer,
)
from flykka.messages.tasks.task import (
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import (
    AllocationId,
    LeaderSessionId,
    slot_id,
)
from flykka.messages.wire.message import Message
from flykka.runtime.events import DeadLetter
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.peer import Probe
from tests.actors.task_manager_cluster import (
    HERE,
    INTERVAL_MS,
    JOB,
    RESOURCE_MANAGER_SESSION,
    TIMEOUT_MS,
    TaskManagerCluster,
)

# The ResourceManager


def test_a_task_manager_registers_with_a_report_of_its_slots(cluster: TaskManagerCluster) -> None:
    registration = cluster.acknowledge()

    free = tuple(SlotStatus(slot_id=slot_id(HERE, index)) for index in range(2))
    assert registration == RegisterTaskManager(
        task_manager_id=HERE, task_manager=cluster.task_manager, slot_report=SlotReport(slots=free)
    )


def test_a_task_manager_registers_repeatedly_until_it_is_acknowledged(cluster: TaskManagerCluster) -> None:
    cluster.system.advance(2 * RETRY_MS + 10)
    before = cluster.resource_manager.received(RegisterTaskManager)
    cluster.system.advance(RETRY_MS)
    cluster.acknowledge()

    cluster.let_the_resource_manager_ask_for(2 * RETRY_MS)

    assert len(before) == 3
    assert cluster.resource_manager.received(RegisterTaskManager) == []


def test_a_heartbeat_contains_the_current_slot_report(cluster: TaskManagerCluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a", index=1)

    request = HeartbeatRequest(origin=cluster.resource_manager.ref)
    cluster.resource_manager.send(cluster.task_manager, request, RESOURCE_MANAGER_SESSION)

    heartbeat = cluster.resource_manager.expect(Heartbeat)
    held = SlotStatus(slot_id=slot_id(HERE, 1), allocation_id=AllocationId("a"), job_id=JOB)
    assert heartbeat == Heartbeat(
        task_manager_id=HERE, slot_report=SlotReport(slots=(SlotStatus(slot_id=slot_id(HERE, 0)), held))
    )


def test_a_task_manager_registers_again_if_the_resource_manager_times_out(cluster: TaskManagerCluster) -> None:
    cluster.acknowledge()

    cluster.system.advance(TIMEOUT_MS)

    assert len(cluster.resource_manager.received(RegisterTaskManager)) == 1


def test_a_task_manager_ends_if_the_resource_manager_refuses_it(cluster: TaskManagerCluster) -> None:
    cluster.resource_manager.send(cluster.task_manager, RefuseRegistration(reason="given up and replaced"))

    assert not cluster.is_alive(HERE)


def test_slots_are_allocated_only_under_the_resource_managers_session(cluster: TaskManagerCluster) -> None:
    dropped: list[DeadLetter] = []
    cluster.system.event_stream.subscribe(dropped.append, DeadLetter)

    cluster.allocate("a")

    assert cluster.job_master.received(RegisterTaskManager) == []
    assert [letter.recipient for letter in dropped] == [cluster.task_manager]


# Slots


def test_an_allocated_slot_is_confirmed_and_offered_to_its_job_master(cluster: TaskManagerCluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    before_it_is_known = cluster.job_master.received(OfferSlots)
    cluster.welcome()

    confirmation = cluster.resource_manager.expect(AllocateSlotConfirmed)
    offer = cluster.job_master.expect(OfferSlots)
    assert confirmation == AllocateSlotConfirmed(slot_id=slot_id(HERE, 0), job_id=JOB, allocation_id=AllocationId("a"))
    assert before_it_is_known == []
    assert offer == OfferSlots(
        task_manager_id=HERE,
        offers=(SlotOffer(allocation_id=AllocationId("a"), slot_id=slot_id(HERE, 0)),),
        offer=1,
    )


def test_a_second_slot_is_offered_without_another_registration(connected: TaskManagerCluster) -> None:
    connected.allocate("b", index=1)

    assert connected.job_master.received(RegisterTaskManager) == []
    assert connected.job_master.expect(OfferSlots).offers[0].allocation_id == "b"


def test_a_repeated_allocation_has_no_effect(connected: TaskManagerCluster) -> None:
    connected.allocate("a")

    assert connected.resource_manager.expect(AllocateSlotConfirmed).allocation_id == "a"
    assert connected.job_master.received(OfferSlots) == []


def test_an_occupied_slot_is_refused(connected: TaskManagerCluster) -> None:
    connected.allocate("b")

    refusal = connected.resource_manager.expect(AllocateSlotRefused)
    assert refusal == AllocateSlotRefused(
        slot_id=slot_id(HERE, 0), allocation_id=AllocationId("b"), occupied_by=AllocationId("a")
    )


def test_a_freed_slot_is_reported_to_the_resource_manager(connected: TaskManagerCluster) -> None:
    connected.send(FreeSlot(allocation_id=AllocationId("a")))

    announced = connected.resource_manager.expect(SlotAvailable)
    assert announced == SlotAvailable(slot_id=slot_id(HERE, 0), allocation_id=AllocationId("a"))


def test_a_slot_that_is_not_accepted_is_reported_as_free(cluster: TaskManagerCluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    cluster.welcome()

    cluster.send(AcceptSlots(job_id=JOB, accepted=(), offer=1))

    assert cluster.resource_manager.expect(SlotAvailable).allocation_id == "a"


# The JobMaster


@pytest.mark.parametrize("leave", ["killed", "silent", "goodbye", "refuses"])
def test_tasks_end_and_slots_are_free_when_the_job_master_is_lost(connected: TaskManagerCluster, leave: str) -> None:
    connected.submit("x")

    match leave:
        case "killed":
            connected.system.kill(connected.job_master.ref)
        case "silent":
            connected.let_the_resource_manager_ask_for(TIMEOUT_MS)
        case "goodbye":
            connected.send(DisconnectJobMaster(job_id=JOB))
        case "refuses":
            connected.send(RefuseRegistration(reason="the job is over"))

    assert connected.resource_manager.expect(SlotAvailable).allocation_id == "a"
    assert connected.tasks() == []


def test_the_session_of_a_job_master_that_left_is_stale(connected: TaskManagerCluster) -> None:
    connected.send(DisconnectJobMaster(job_id=JOB))

    connected.submit("x")

    assert connected.job_master.received(UpdateTaskExecutionState) == []


def test_a_job_master_that_sends_heartbeat_requests_is_not_lost(connected: TaskManagerCluster) -> None:
    for _ in range(3 * TIMEOUT_MS // INTERVAL_MS):
        connected.system.advance(INTERVAL_MS)
        connected.send(HeartbeatRequest(origin=connected.job_master.ref, allocations=(AllocationId("a"),)))

    assert len(connected.job_master.received(Heartbeat)) == 3 * TIMEOUT_MS // INTERVAL_MS
    assert connected.resource_manager.received(SlotAvailable) == []


def test_a_new_leader_of_the_job_replaces_the_old_one(connected: TaskManagerCluster) -> None:
    connected.submit("x")
    session = LeaderSessionId("a later one")
    successor = Probe(connected.system, "successor", session)

    request = AllocateSlot(
        slot_id=slot_id(HERE, 1),
        job_id=JOB,
        allocation_id=AllocationId("b"),
        job_master=successor.ref,
        job_leader_session_id=session,
    )
    connected.resource_manager.send(connected.task_manager, request, RESOURCE_MANAGER_SESSION)

    assert successor.expect(RegisterTaskManager).task_manager_id == HERE
    assert connected.resource_manager.expect(SlotAvailable).allocation_id == "a"
    assert connected.tasks() == []


# Failure of the TaskManager


class Stumbling(TaskManager):
    def handle_message(self, message: Message) -> None:
        if isinstance(message, HeartbeatRequest):
            raise ZeroDivisionError
        super().handle_message(message)


def test_a_failed_task_manager_ends_so_that_it_can_be_replaced(system: SeededSystem) -> None:
    cluster = TaskManagerCluster(system, Stumbling)
    cluster.acknowledge()

    request = HeartbeatRequest(origin=cluster.resource_manager.ref)
    cluster.resource_manager.send(cluster.task_manager, request, RESOURCE_MANAGER_SESSION)

    assert not cluster.is_alive(HERE)
