"""A TaskManager is notified of a new leader. The JobMasters that it has served may belong to the former leader."""

from __future__ import annotations

from flykka.messages.control.high_availability import JobManagerLeaderAddress
from flykka.messages.control.registration import DisconnectTaskManager
from flykka.messages.control.slots import SlotAvailable
from flykka.messages.wire.ids import LeaderSessionId
from tests.actors.task_manager_cluster import HERE, TaskManagerCluster


def lead(cluster: TaskManagerCluster, session: str) -> None:
    address = JobManagerLeaderAddress(address="/user/job-manager", leader_session_id=LeaderSessionId(session))
    cluster.task_manager.tell(address)
    cluster.system.run_until_idle()


def test_a_new_leader_ends_the_tasks_of_the_former_leader(connected: TaskManagerCluster) -> None:
    connected.submit("x")
    assert len(connected.tasks()) == 1

    lead(connected, "second")

    assert connected.tasks() == []
    disconnect = connected.job_master.expect(DisconnectTaskManager)
    assert (disconnect.task_manager_id, disconnect.cause.type_name) == (HERE, "LeaderLostError")
    connected.resource_manager.expect(SlotAvailable)


def test_messages_of_a_former_leader_are_ignored(connected: TaskManagerCluster) -> None:
    lead(connected, "second")

    connected.submit("x")

    assert connected.tasks() == []


def test_a_repeated_announcement_of_the_leader_is_ignored(connected: TaskManagerCluster) -> None:
    lead(connected, "second")
    connected.allocate("b", 1)
    connected.welcome()
    connected.submit("y", "b")
    running = connected.tasks()

    lead(connected, "second")

    assert len(running) == 1
    assert connected.tasks() == running
