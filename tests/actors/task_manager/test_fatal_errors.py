"""A task that does not end when it is cancelled makes its TaskManager fail."""

from __future__ import annotations

from flykka.messages.attempt.answers import ChainClosed, ChainOpened
from flykka.messages.attempt.commands import CancelWork, InterruptWork, OpenChain
from flykka.messages.control.registration import DisconnectTaskManager
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.task import CancelTask, ExecutionState, FatalErrorOccurred, TaskDeploymentDescriptor
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.data_plane import NoData
from tests.actors.task_manager_cluster import HERE, TaskManagerCluster, connect

SOON = TaskCancellationSettings(interval_ms=4, timeout_ms=10)


class Stubborn(Actor):
    """An actor that closes after this number of requests, or never."""

    def __init__(self, messages: list[Message], closes_at_request: int | None) -> None:
        self._messages = messages
        self._closes_at_request = closes_at_request

    def handle_message(self, message: Message) -> None:
        match message:
            case OpenChain():
                self.context.parent.tell(ChainOpened())
            case CancelWork() | InterruptWork():
                self._messages.append(message)
                if self._messages.count(CancelWork()) == self._closes_at_request:
                    self.context.parent.tell(ChainClosed())


class StubbornData(NoData):
    def __init__(self, closes_at_request: int | None) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self._closes_at_request = closes_at_request

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Stubborn, self.messages, self._closes_at_request)


def cancelled(system: SeededSystem, data: StubbornData) -> TaskManagerCluster:
    cluster = TaskManagerCluster(system, data_plane=data, task_cancellation=SOON)
    connect(cluster)
    cluster.submit("x")
    cluster.send(CancelTask(attempt=ExecutionAttemptId("x")))
    return cluster


def test_a_bridge_that_closes_at_the_second_request_causes_no_failure(system: SeededSystem) -> None:
    data = StubbornData(closes_at_request=2)

    cluster = cancelled(system, data)
    system.advance(20)

    assert data.messages == [CancelWork(), CancelWork(), InterruptWork()]
    assert cluster.states() == [("x", ExecutionState.RUNNING), ("x", ExecutionState.CANCELED)]
    assert cluster.is_alive(HERE)


def test_a_task_that_never_ends_fails_its_task_manager(system: SeededSystem) -> None:
    data = StubbornData(closes_at_request=None)
    published: list[Message] = []
    system.event_stream.subscribe(published.append, FatalErrorOccurred)

    cluster = cancelled(system, data)
    system.advance(9)
    alive_before = cluster.is_alive(HERE)
    system.advance(1)

    assert alive_before
    assert not cluster.is_alive(HERE)
    assert data.messages == [CancelWork(), *[CancelWork(), InterruptWork()] * 2]
    assert [type(error) for error in published] == [FatalErrorOccurred]
    assert cluster.states() == [("x", ExecutionState.RUNNING)]


def test_a_failing_task_manager_reports_the_reason_to_all_its_peers(system: SeededSystem) -> None:
    cluster = cancelled(system, StubbornData(closes_at_request=None))

    system.advance(10)

    heard = [each.expect(DisconnectTaskManager) for each in (cluster.resource_manager, cluster.job_master)]
    assert heard[0] == heard[1]
    assert heard[0].task_manager_id == HERE
    assert heard[0].cause.type_name == "TaskCancellationTimeoutError"


def test_job_settings_override_those_of_the_task_manager(system: SeededSystem) -> None:
    cluster = TaskManagerCluster(
        system, data_plane=StubbornData(None), task_cancellation=TaskCancellationSettings(timeout_ms=0)
    )
    connect(cluster)

    cluster.submit("x", cancellation=SOON)
    cluster.send(CancelTask(attempt=ExecutionAttemptId("x")))
    system.advance(10)

    assert not cluster.is_alive(HERE)
