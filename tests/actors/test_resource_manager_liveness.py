"""The ResourceManager detects lost and unresponsive JobMasters, and TaskManagers of its predecessor."""

from __future__ import annotations

from flykka.messages.control.registration import (
    DisconnectResourceManager,
    DisconnectTaskManager,
    Heartbeat,
    HeartbeatRequest,
    JobMasterHeartbeat,
    JobMasterRegistrationSuccess,
    RegisterJobMaster,
    ResourceManagerLeaderAddress,
)
from flykka.messages.control.slots import AllocateSlot, AllocateSlotConfirmed, SlotRequestFailed
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, slot_id
from flykka.runtime.events import DeadLetter
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import INTERVAL_MS, TIMEOUT_MS
from tests.actors.peer import Probe
from tests.actors.test_resource_manager import (
    JOB,
    JOB_SESSION,
    Guest,
    Leader,
    living_task_managers,
    resource_manager,
)

CAUSE = SerializedThrowable(type_name="TaskCancellationTimeoutError", message="it cannot be stopped")


def pass_time(system: SeededSystem, ms: int, *answering: Leader) -> None:
    for _ in range(ms // INTERVAL_MS):
        system.advance(INTERVAL_MS)
        for each in answering:
            each.send(JobMasterHeartbeat(job_id=JOB))


def is_alive(system: SeededSystem, ref: ActorRef) -> bool:
    return ref.path in system.cells.living_paths()


# JobMasters


def test_a_job_master_that_replies_to_heartbeats_stays_registered(system: SeededSystem) -> None:
    job_master = Leader(system, resource_manager(system))

    pass_time(system, 3 * TIMEOUT_MS, job_master)

    assert len(job_master.peer.received(HeartbeatRequest)) > 3
    assert job_master.peer.received(DisconnectResourceManager) == []


def test_a_silent_job_master_gets_no_slots_until_it_reregisters(system: SeededSystem) -> None:
    leader = resource_manager(system)
    job_master = Leader(system, leader)
    job_master.request("a")

    pass_time(system, TIMEOUT_MS)
    disconnects = job_master.peer.received(DisconnectResourceManager)
    guest = Guest(system, leader, None)

    assert disconnects == [DisconnectResourceManager(job_id=JOB)]
    assert guest.peer.received(AllocateSlot) == []


def test_a_task_manager_that_registers_repeatedly_without_heartbeats_is_lost(system: SeededSystem) -> None:
    leader = resource_manager(system)
    job_master, guest = Leader(system, leader), Guest(system, leader, None)
    registration = RegisterJobMaster(job_id=JOB, leader_session_id=JOB_SESSION, job_master=job_master.peer.ref)

    for _ in range(TIMEOUT_MS // INTERVAL_MS):
        job_master.peer.send(leader, registration)
        guest.register(None)
        system.advance(INTERVAL_MS)

    assert job_master.peer.received(DisconnectResourceManager) == [DisconnectResourceManager(job_id=JOB)]
    assert not is_alive(system, guest.peer.ref)


def test_a_new_job_master_of_a_job_replaces_the_old_one(system: SeededSystem) -> None:
    leader = resource_manager(system)
    former = Leader(system, leader)
    former.request("a")
    system.kill(former.peer.ref)
    fresh = Probe(system, "job-master", JOB_SESSION)
    fresh.send(leader, RegisterJobMaster(job_id=JOB, leader_session_id=JOB_SESSION, job_master=fresh.ref))

    guest = Guest(system, leader, None)

    assert len(fresh.received(JobMasterRegistrationSuccess)) == 1
    assert guest.peer.received(AllocateSlot) == []


# TaskManagers


def test_a_task_manager_that_never_registers_is_stopped_and_replaced(system: SeededSystem) -> None:
    resource_manager(system, task_managers=1)

    system.advance(TIMEOUT_MS)
    after_timeout = living_task_managers(system)
    system.advance(3_000)

    assert after_timeout == []
    assert living_task_managers(system) == ["/user/task-manager-2"]


def test_a_failing_task_manager_reports_the_reason_to_the_jobs_it_served(system: SeededSystem) -> None:
    leader = resource_manager(system)
    guest, job_master = Guest(system, leader, None), Leader(system, leader)
    job_master.request("a")
    guest.send(AllocateSlotConfirmed(slot_id=slot_id(guest.id, 0), job_id=JOB, allocation_id=AllocationId("a")))

    guest.send(DisconnectTaskManager(task_manager_id=guest.id, cause=CAUSE))

    assert job_master.peer.expect(SlotRequestFailed).reason == CAUSE.message


def test_late_messages_of_an_actor_given_up_are_dead_letters(system: SeededSystem) -> None:
    leader = resource_manager(system)
    guest = Guest(system, leader, None)
    letters: list[DeadLetter] = []
    guest.send(DisconnectTaskManager(task_manager_id=guest.id, cause=CAUSE))
    system.event_stream.subscribe(letters.append, DeadLetter)

    guest.send(Heartbeat(task_manager_id=guest.id))

    assert [letter.recipient for letter in letters] == [leader]


# A second ResourceManager


def test_a_new_resource_manager_announces_itself_to_living_task_managers(system: SeededSystem) -> None:
    survivor = Probe(system, "task-manager-7")

    leader = resource_manager(system, task_managers=2)

    assert survivor.expect(ResourceManagerLeaderAddress).resource_manager == leader
    assert living_task_managers(system) == ["/user/task-manager-7", "/user/task-manager-8"]


def test_a_new_resource_manager_knows_the_allocated_slots(system: SeededSystem) -> None:
    leader = resource_manager(system)
    survivor, job_master = Guest(system, leader, "held", None), Leader(system, leader)

    job_master.request("held")
    job_master.request("wanted")

    assert [given.allocation_id for given in survivor.peer.received(AllocateSlot)] == ["wanted"]
