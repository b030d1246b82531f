"""The ResourceManager as an actor: it starts, monitors and replaces TaskManagers, and forwards slot requests of
JobMasters.
"""

from __future__ import annotations

import pytest

from flykka.actors.machines.slots.task_manager_tracker import START_RETRY_MS
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    Heartbeat,
    HeartbeatRequest,
    JobMasterRegistrationSuccess,
    RefuseRegistration,
    RegisterJobMaster,
    RegisterTaskManager,
)
from flykka.messages.control.slots import (
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    CancelSlotRequest,
    RequestSlot,
    SlotAvailable,
    SlotRequestFailed,
)
from flykka.messages.wire.ids import AllocationId, JobId, LeaderSessionId, TaskManagerId, slot_id
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.events import DeadLetter
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import INTERVAL_MS, TIMEOUT_MS, ClusterBuilder
from tests.actors.machines.slots.slot_manager_events import slot_report
from tests.actors.peer import Probe

JOB = JobId("job-1")
JOB_SESSION = LeaderSessionId("job-master-session")


class Idler(Actor):
    def handle_message(self, message: Message) -> None:
        pass


class Broken(Actor):
    def pre_start(self) -> None:
        raise OSError("no disk")


def resource_manager(system: SeededSystem, task_managers: int = 0, kind: type[Actor] = Idler) -> ActorRef:
    made = ClusterBuilder(system)
    return made.start_resource_manager(lambda _id, _resource_manager: Props(kind), task_managers=task_managers)


class Guest:
    """A TaskManager controlled by the test."""

    def __init__(self, system: SeededSystem, leader: ActorRef, *holders: str | None, name: str = "guest") -> None:
        self.id = TaskManagerId(name)
        self.leader = leader
        self.peer = Probe(system, name)
        self.register(*holders)
        self.session = self.peer.expect(AcknowledgeRegistration).leader_session_id

    def register(self, *holders: str | None) -> None:
        registration = RegisterTaskManager(
            task_manager_id=self.id, task_manager=self.peer.ref, slot_report=slot_report(self.id, *holders)
        )
        self.peer.send(self.leader, registration)

    def send(self, message: Message) -> None:
        self.peer.send(self.leader, message, self.session)


class Leader:
    """A JobMaster controlled by the test."""

    def __init__(self, system: SeededSystem, resource_manager: ActorRef) -> None:
        self.resource_manager = resource_manager
        self.peer = Probe(system, "job-master", JOB_SESSION)
        registration = RegisterJobMaster(job_id=JOB, leader_session_id=JOB_SESSION, job_master=self.peer.ref)
        self.peer.send(resource_manager, registration)
        self.session = self.peer.expect(JobMasterRegistrationSuccess).leader_session_id

    def send(self, message: Message) -> None:
        self.peer.send(self.resource_manager, message, self.session)

    def request(self, allocation: str) -> None:
        request = RequestSlot(job_id=JOB, allocation_id=AllocationId(allocation), job_master=self.peer.ref)
        self.send(request)


def living_task_managers(system: SeededSystem) -> list[str]:
    return [path for path in system.cells.living_paths() if path.startswith("/user/task-manager-")]


def test_the_resource_manager_starts_the_configured_task_managers(system: SeededSystem) -> None:
    resource_manager(system, task_managers=2)

    assert living_task_managers(system) == ["/user/task-manager-1", "/user/task-manager-2"]


def test_a_killed_task_manager_is_replaced_under_a_new_name(system: SeededSystem) -> None:
    leader = resource_manager(system, task_managers=2)
    second = system.find("/user/task-manager-2")
    assert second is not None
    leader.tell(RegisterTaskManager(task_manager_id=TaskManagerId("task-manager-2"), task_manager=second))
    system.run_until_idle()

    system.kill(second)
    system.run_until_idle()

    assert living_task_managers(system) == ["/user/task-manager-1", "/user/task-manager-3"]


def test_a_task_manager_that_cannot_start_is_retried_after_a_delay(system: SeededSystem) -> None:
    started: list[str] = []

    def props(task_manager: TaskManagerId, _resource_manager: object) -> Props:
        started.append(task_manager)
        return Props(Broken if len(started) == 1 else Idler)

    ClusterBuilder(system).start_resource_manager(props, task_managers=1)
    system.run_until_idle()
    at_once = list(started)
    system.advance(START_RETRY_MS)

    assert at_once == ["task-manager-1"]
    assert living_task_managers(system) == ["/user/task-manager-2"]


def test_a_silent_task_manager_is_stopped_and_replaced(system: SeededSystem) -> None:
    leader = resource_manager(system, task_managers=1)
    first = system.find("/user/task-manager-1")
    assert first is not None
    leader.tell(RegisterTaskManager(task_manager_id=TaskManagerId("task-manager-1"), task_manager=first))

    system.advance(TIMEOUT_MS + INTERVAL_MS)

    assert living_task_managers(system) == ["/user/task-manager-2"]


def test_a_task_manager_that_sends_heartbeats_is_not_replaced(system: SeededSystem) -> None:
    guest = Guest(system, resource_manager(system), None)

    for _ in range(20):
        system.advance(INTERVAL_MS)
        assert guest.peer.received(HeartbeatRequest) != []
        guest.send(Heartbeat(task_manager_id=guest.id, slot_report=slot_report(guest.id, None)))

    assert "/user/guest" in system.cells.living_paths()


def test_a_task_manager_given_up_is_refused(system: SeededSystem) -> None:
    leader = resource_manager(system)
    guest = Guest(system, leader, None)
    successor = Probe(system, "other")
    system.kill(guest.peer.ref)
    system.run_until_idle()

    late = RegisterTaskManager(task_manager_id=guest.id, task_manager=successor.ref, slot_report=slot_report(guest.id))
    successor.send(leader, late)

    assert successor.expect(RefuseRegistration).reason == "guest was given up and replaced"


def test_a_repeated_registration_has_no_effect(system: SeededSystem) -> None:
    guest = Guest(system, resource_manager(system), None)

    guest.register(None)

    assert guest.peer.expect(AcknowledgeRegistration).leader_session_id == guest.session


def test_a_slot_request_contains_all_that_is_needed_to_offer_the_slot(system: SeededSystem) -> None:
    leader = resource_manager(system)
    guest, job_master = Guest(system, leader, None), Leader(system, leader)

    job_master.request("a")

    assert guest.peer.expect(AllocateSlot) == AllocateSlot(
        slot_id=slot_id(guest.id, 0),
        job_id=JOB,
        allocation_id=AllocationId("a"),
        job_master=job_master.peer.ref,
        job_leader_session_id=JOB_SESSION,
    )


def test_a_request_waits_until_a_slot_is_free_again(system: SeededSystem) -> None:
    leader = resource_manager(system)
    guest, job_master = Guest(system, leader, "held"), Leader(system, leader)
    job_master.request("a")
    before = guest.peer.received(AllocateSlot)

    guest.send(SlotAvailable(slot_id=slot_id(guest.id, 0), allocation_id=AllocationId("held")))

    assert before == []
    assert guest.peer.expect(AllocateSlot).allocation_id == "a"


def test_a_refused_slot_is_requested_from_another_task_manager(system: SeededSystem) -> None:
    leader = resource_manager(system)
    one, other = Guest(system, leader, None, name="one"), Guest(system, leader, None, name="other")
    Leader(system, leader).request("a")
    refused = one.peer.expect(AllocateSlot)

    one.send(AllocateSlotRefused(slot_id=refused.slot_id, allocation_id=AllocationId("a")))

    assert other.peer.expect(AllocateSlot).allocation_id == "a"


def test_a_cancelled_request_is_not_served(system: SeededSystem) -> None:
    leader = resource_manager(system)
    job_master = Leader(system, leader)
    job_master.request("a")
    job_master.send(CancelSlotRequest(allocation_id=AllocationId("a")))

    guest = Guest(system, leader, None)

    assert guest.peer.received(AllocateSlot) == []


def test_an_unregistered_job_master_gets_no_slot(system: SeededSystem) -> None:
    leader = resource_manager(system)
    stranger = Probe(system, "stranger")

    stranger.send(leader, RequestSlot(job_id=JOB, allocation_id=AllocationId("a"), job_master=stranger.ref))

    assert stranger.expect(SlotRequestFailed).reason == "the JobMaster of job-1 is not registered"


def test_the_allocations_of_a_lost_task_manager_are_reported_to_its_jobs(system: SeededSystem) -> None:
    leader = resource_manager(system)
    guest, job_master = Guest(system, leader, None), Leader(system, leader)
    job_master.request("a")
    confirmation = AllocateSlotConfirmed(slot_id=slot_id(guest.id, 0), job_id=JOB, allocation_id=AllocationId("a"))
    guest.send(confirmation)

    system.kill(guest.peer.ref)

    failed = job_master.peer.expect(SlotRequestFailed)
    assert failed == SlotRequestFailed(allocation_id=AllocationId("a"), reason="guest has ended")


@pytest.mark.parametrize("leave", ["killed", "says goodbye"])
def test_the_requests_of_a_disconnected_job_master_are_removed(system: SeededSystem, leave: str) -> None:
    leader = resource_manager(system)
    job_master = Leader(system, leader)
    job_master.request("a")
    if leave == "killed":
        system.kill(job_master.peer.ref)
    else:
        job_master.send(DisconnectJobMaster(job_id=JOB))

    guest = Guest(system, leader, None)

    assert guest.peer.received(AllocateSlot) == []


def test_messages_under_a_stale_session_become_dead_letters(system: SeededSystem) -> None:
    dropped: list[DeadLetter] = []
    system.event_stream.subscribe(dropped.append, DeadLetter)
    leader = resource_manager(system)
    guest, job_master = Guest(system, leader, None), Leader(system, leader)

    request = RequestSlot(job_id=JOB, allocation_id=AllocationId("a"), job_master=job_master.peer.ref)
    job_master.peer.send(leader, request, LeaderSessionId("a former one"))

    assert guest.peer.received(AllocateSlot) == []
    assert [letter.reason.startswith("stale leader session a former one") for letter in dropped] == [True]


def test_a_failed_resource_manager_ends_instead_of_continuing_without_state(system: SeededSystem) -> None:
    started: list[str] = []

    def props(task_manager: TaskManagerId, _resource_manager: object) -> Props:
        if started:
            raise MemoryError
        started.append(task_manager)
        return Props(Idler)

    leader = ClusterBuilder(system).start_resource_manager(props, task_managers=1)
    system.run_until_idle()
    first = system.find("/user/task-manager-1")
    assert first is not None
    leader.tell(RegisterTaskManager(task_manager_id=TaskManagerId("task-manager-1"), task_manager=first))
    system.run_until_idle()

    system.kill(first)
    system.run_until_idle()

    assert system.cells.living_paths() == ["/", "/user"]
