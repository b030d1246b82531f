"""A coordinator's messages to tasks are grouped by TaskManager."""

from __future__ import annotations

from flykka.actors.checkpoint_coordinator.actor import TaskGateways
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete, TaskCheckpointMessages
from flykka.messages.control.checkpoint_coordination import CoordinatedTask
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.peer import Probe

SESSION = LeaderSessionId("session")


def coordinated_task(attempt: str, task_manager: Ref) -> CoordinatedTask:
    return CoordinatedTask(
        attempt=ExecutionAttemptId(attempt),
        vertex_id=JobVertexId("v"),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        task_manager=task_manager,
        state=ExecutionState.RUNNING,
        is_source=False,
    )


def notify_complete(attempt: str) -> NotifyCheckpointComplete:
    return NotifyCheckpointComplete(
        job_id=JobId("job"), attempt=ExecutionAttemptId(attempt), checkpoint_id=1, timestamp_ms=0
    )


def test_each_task_manager_gets_one_message_for_all_its_tasks() -> None:
    with SeededSystem(3) as system:
        one, two = Probe(system, "one", SESSION), Probe(system, "two", SESSION)
        gateways = TaskGateways()
        gateways.replace_tasks(
            (coordinated_task("a", one.ref), coordinated_task("b", two.ref), coordinated_task("c", one.ref)), SESSION
        )

        for attempt in ("c", "b", "a"):
            gateways.add(notify_complete(attempt))
        gateways.send()
        gateways.send()

        assert one.received(Message) == [TaskCheckpointMessages(messages=(notify_complete("c"), notify_complete("a")))]
        assert two.received(Message) == [notify_complete("b")]
