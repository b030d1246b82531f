"""A job that has lost its ResourceManager continues, and sends its open slot requests to the next one."""

from __future__ import annotations

from flykka.messages.control.job import JobResultFailure, JobStatus
from flykka.messages.control.registration import (
    DisconnectJobMaster,
    DisconnectResourceManager,
    HeartbeatRequest,
    JobMasterHeartbeat,
    JobMasterRegistrationSuccess,
    RegisterJobMaster,
)
from flykka.messages.control.slots import RequestSlot, SlotRequestFailed
from flykka.messages.tasks.task import CancelTask, ExecutionState
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, LeaderSessionId
from flykka.runtime.events import DeadLetter
from tests.actors.job_cluster import RESOURCE_MANAGER_SESSION, JobCluster
from tests.actors.machines.graph.graphs import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS

NEXT_SESSION = LeaderSessionId("next-session")
A_WHILE_MS = 1_000


def start_another(cluster: JobCluster) -> None:
    """Start a ResourceManager at the same path, so that the JobMaster registers at it."""
    cluster.resource_manager = cluster.stand("resource-manager", NEXT_SESSION)
    cluster.system.advance(A_WHILE_MS)
    cluster.send_as_resource_manager(JobMasterRegistrationSuccess(leader_session_id=NEXT_SESSION))


def test_a_job_continues_when_its_resource_manager_ends(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.system.kill(cluster.resource_manager)
    cluster.system.advance(A_WHILE_MS)

    assert cluster.statuses() == [JobStatus.RUNNING]
    assert cluster.received(task_manager, CancelTask) == []


def test_the_next_resource_manager_gets_the_open_slot_requests(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph(parallelism=2))
    cluster.accept_job_master()
    asked = {request.allocation_id for request in cluster.received(cluster.resource_manager, RequestSlot)}

    cluster.system.kill(cluster.resource_manager)
    start_another(cluster)

    assert len(asked) == 2
    assert {request.allocation_id for request in cluster.received(cluster.resource_manager, RequestSlot)} == asked


def test_a_job_submitted_without_a_resource_manager_waits_for_one(cluster: JobCluster) -> None:
    cluster.system.kill(cluster.resource_manager)
    cluster.submit(cluster.graph())
    cluster.system.advance(A_WHILE_MS)

    start_another(cluster)

    assert cluster.received(cluster.client, JobResultFailure) == []
    assert len(cluster.received(cluster.resource_manager, RequestSlot)) == 1


def test_a_cancelled_job_does_not_wait_for_a_resource_manager(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.cancel()
    cluster.system.kill(cluster.resource_manager)
    for cancel in cluster.received(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    assert cluster.statuses() == [JobStatus.RUNNING, JobStatus.CANCELLING, JobStatus.CANCELED]


def test_a_resource_manager_that_sends_heartbeat_requests_gets_replies(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    before = len(cluster.received(cluster.resource_manager, RegisterJobMaster))
    rounds = 2 * HEARTBEAT_TIMEOUT_MS // HEARTBEAT_INTERVAL_MS

    for _ in range(rounds):
        request = HeartbeatRequest(origin=cluster.resource_manager)
        cluster.send_as_resource_manager(request, RESOURCE_MANAGER_SESSION)
        cluster.system.advance(HEARTBEAT_INTERVAL_MS)

    assert len(cluster.received(cluster.resource_manager, JobMasterHeartbeat)) == rounds
    assert len(cluster.received(cluster.resource_manager, RegisterJobMaster)) == before


def test_a_job_master_reregisters_at_a_silent_resource_manager(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    cluster.accept_job_master()
    before = len(cluster.received(cluster.resource_manager, RegisterJobMaster))

    cluster.system.advance(HEARTBEAT_TIMEOUT_MS + HEARTBEAT_INTERVAL_MS)

    assert len(cluster.received(cluster.resource_manager, RegisterJobMaster)) > before


def test_a_job_reregisters_at_a_resource_manager_that_lost_it(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    before = len(cluster.received(cluster.resource_manager, RegisterJobMaster))
    job_id = cluster.registration.job_id

    cluster.send_as_resource_manager(DisconnectResourceManager(job_id=job_id), RESOURCE_MANAGER_SESSION)

    assert len(cluster.received(cluster.resource_manager, RegisterJobMaster)) == before + 1
    assert cluster.statuses() == [JobStatus.RUNNING]


def test_late_messages_of_a_former_resource_manager_are_dead_letters(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    cluster.accept_job_master()
    [request] = cluster.received(cluster.resource_manager, RequestSlot)
    cluster.system.kill(cluster.resource_manager)
    start_another(cluster)
    letters: list[DeadLetter] = []
    cluster.system.event_stream.subscribe(letters.append, DeadLetter)

    late = SlotRequestFailed(allocation_id=AllocationId(request.allocation_id), reason="it is late")
    cluster.send_as_resource_manager(late, RESOURCE_MANAGER_SESSION)

    assert len(letters) == 1
    assert cluster.statuses() == [JobStatus.RUNNING]


def test_an_unrequested_acknowledgement_is_a_dead_letter(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    letters: list[DeadLetter] = []
    cluster.system.event_stream.subscribe(letters.append, DeadLetter)

    cluster.tell_job_master(JobMasterRegistrationSuccess(leader_session_id=NEXT_SESSION))

    assert len(letters) == 1
    assert cluster.received(cluster.resource_manager, RequestSlot) == []


def test_an_ended_job_does_not_look_for_a_resource_manager(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.system.kill(cluster.resource_manager)

    cluster.cancel()
    for cancel in cluster.received(task_manager, CancelTask):
        cluster.report(ExecutionAttemptId(cancel.attempt), ExecutionState.CANCELED)
    cluster.resource_manager = cluster.stand("resource-manager", NEXT_SESSION)
    cluster.system.advance(A_WHILE_MS)

    assert cluster.all_received(cluster.resource_manager) == []
    assert len(cluster.received(task_manager, DisconnectJobMaster)) == 1
