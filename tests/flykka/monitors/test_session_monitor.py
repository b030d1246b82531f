"""Messages under a session whose end the receiver knows are ignored."""

from __future__ import annotations

import pytest

from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    DisconnectTaskManager,
    Heartbeat,
    HeartbeatDue,
    JobMasterRegistrationSuccess,
    RegisterTaskManager,
)
from flykka.messages.control.slots import AllocateSlot, SlotRequestFailed
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, LeaderSessionId, SlotId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.sessions import SessionMonitor
from flykka.runtime.signals import Terminated
from flykka.runtime.trace.records import Turn
from tests.flykka.monitors.turns import JOB, JOB_MASTER, TASK_MANAGER, turn, violations_of

RESOURCE_MANAGER = Ref("/user/resource-manager", 1)
HERE = TaskManagerId("task-manager-1")
LEADER, REGISTRATION = LeaderSessionId("leader"), LeaderSessionId("registration")
ACKNOWLEDGED = AcknowledgeRegistration(
    leader_session_id=LEADER,
    heartbeat_interval_ms=1,
    heartbeat_timeout_ms=2,
    job_id=JOB,
    registration_session=REGISTRATION,
)
REGISTERED = turn(
    JOB_MASTER,
    RegisterTaskManager(task_manager_id=HERE, task_manager=TASK_MANAGER),
    (TASK_MANAGER, ACKNOWLEDGED),
)
SILENT = SerializedThrowable(type_name="HeartbeatTimeoutError", message="it was silent")
OVER = ["is handled under registration, which has ended"]


def heartbeat(session: LeaderSessionId = REGISTRATION, *, to: Ref = JOB_MASTER) -> Turn:
    return turn(to, LeaderSessionMessage(leader_session_id=session, message=Heartbeat(task_manager_id=HERE)))


def test_messages_of_a_valid_session_are_handled() -> None:
    assert violations_of(SessionMonitor(), REGISTERED, heartbeat()) == []


@pytest.mark.parametrize(
    "end",
    [
        turn(JOB_MASTER, Terminated(ref=TASK_MANAGER)),
        turn(JOB_MASTER, Terminated(ref=RESOURCE_MANAGER), (TASK_MANAGER, DisconnectJobMaster(job_id=JOB))),
    ],
    ids=["ended", "disconnected"],
)
def test_messages_of_an_ended_session_are_not_handled(end: Turn) -> None:
    assert violations_of(SessionMonitor(), REGISTERED, end, heartbeat()) == OVER


def test_a_new_registration_has_a_new_valid_session() -> None:
    again = LeaderSessionId("again")
    fresh = AcknowledgeRegistration(
        leader_session_id=LEADER, heartbeat_interval_ms=1, heartbeat_timeout_ms=2, registration_session=again
    )
    registered_again = turn(
        JOB_MASTER,
        RegisterTaskManager(task_manager_id=HERE, task_manager=TASK_MANAGER),
        (TASK_MANAGER, DisconnectJobMaster(job_id=JOB)),
        (TASK_MANAGER, fresh),
    )

    said: tuple[Turn, ...] = (REGISTERED, registered_again, heartbeat(again), heartbeat())

    assert violations_of(SessionMonitor(), *said) == OVER


def test_a_silent_job_master_stays_leader_for_reregistered_task_managers() -> None:
    slot = SlotId("task-manager-1/0")
    allocate = AllocateSlot(
        slot_id=slot,
        job_id=JOB,
        allocation_id=AllocationId("a"),
        job_master=JOB_MASTER,
        job_leader_session_id=LEADER,
    )
    allocated = turn(RESOURCE_MANAGER, Terminated(ref=RESOURCE_MANAGER), (TASK_MANAGER, allocate))
    farewell = (JOB_MASTER, DisconnectTaskManager(task_manager_id=HERE, cause=SILENT, will_return=True))
    back = (JOB_MASTER, RegisterTaskManager(task_manager_id=HERE, task_manager=TASK_MANAGER))
    late = turn(TASK_MANAGER, LeaderSessionMessage(leader_session_id=LEADER, message=DisconnectJobMaster(job_id=JOB)))

    left = turn(TASK_MANAGER, HeartbeatDue(), farewell)
    came_back = turn(TASK_MANAGER, HeartbeatDue(), farewell, back)

    assert violations_of(SessionMonitor(), allocated, left, late) == ["is handled under leader, which has ended"]
    assert violations_of(SessionMonitor(), allocated, came_back, late) == []


def test_a_session_ended_at_one_actor_stays_valid_at_others() -> None:
    gone = turn(JOB_MASTER, Terminated(ref=TASK_MANAGER))

    assert violations_of(SessionMonitor(), REGISTERED, gone, heartbeat(to=RESOURCE_MANAGER)) == []


def test_an_ended_resource_manager_is_ignored_by_a_job_master() -> None:
    success: Message = JobMasterRegistrationSuccess(leader_session_id=REGISTRATION)
    registered = turn(RESOURCE_MANAGER, Terminated(ref=TASK_MANAGER), (JOB_MASTER, success))
    late = SlotRequestFailed(allocation_id=AllocationId("a"), reason="it is late")
    handled = turn(JOB_MASTER, LeaderSessionMessage(leader_session_id=REGISTRATION, message=late))

    assert violations_of(SessionMonitor(), registered, handled) == []
    assert (
        violations_of(SessionMonitor(), registered, turn(JOB_MASTER, Terminated(ref=RESOURCE_MANAGER)), handled) == OVER
    )
