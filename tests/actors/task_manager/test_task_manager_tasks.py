"""The Tasks of a TaskManager: each attempt runs once, receives its messages, and its unexpected end is reported."""

from __future__ import annotations

import pytest

from flykka.messages.attempt.answers import ChainClosed
from flykka.messages.checkpointing.checkpoint import (
    AbstractCheckpointMessage,
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    DeclineCheckpoint,
    TaskCheckpointMessages,
    TriggerCheckpoint,
)
from flykka.messages.control.slots import (
    FreeSlot,
    SlotAvailable,
)
from flykka.messages.tasks.exchange import ErrorResponse, PartitionRequest
from flykka.messages.tasks.source import AddSplits, FileSplit, RequestSplits
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    CancelTask,
    ExecutionState,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import (
    AllocationId,
    ExecutionAttemptId,
    LeaderSessionId,
    SplitId,
    partition_id,
)
from flykka.runtime.events import UnhandledMessage
from flykka.runtime.leader_session import Gateway
from tests.actors.machines.scheduling.descriptors import SOURCE, descriptor
from tests.actors.task_manager_cluster import (
    HERE,
    JM_SESSION,
    JOB,
    TaskManagerCluster,
)


def test_a_submitted_attempt_runs_in_a_task_with_a_readable_name(connected: TaskManagerCluster) -> None:
    connected.submit("x")

    assert connected.tasks() == ["source-flights-0.0-1"]
    assert connected.states() == [("x", ExecutionState.RUNNING)]


def test_a_deployment_is_acknowledged(connected: TaskManagerCluster) -> None:
    connected.submit("x")

    assert connected.job_master.expect(AcknowledgeDeployments).attempts == ("x",)


def test_concurrent_deployments_are_acknowledged_together(connected: TaskManagerCluster) -> None:
    ref = connected.job_master.ref
    for name in ("x", "y", "z"):
        submit = SubmitTask(descriptor=descriptor(name), job_master=ref)
        Gateway(connected.task_manager, JM_SESSION).tell(submit)
    connected.system.run_until_idle()

    answers = connected.job_master.received(AcknowledgeDeployments)
    assert sorted(attempt for answer in answers for attempt in answer.attempts) == ["x", "y", "z"]
    assert len(answers) < 3


def test_a_failed_deployment_is_not_acknowledged(connected: TaskManagerCluster) -> None:
    connected.submit("x", "unknown")

    assert connected.job_master.received(AcknowledgeDeployments) == []


def test_a_task_may_arrive_before_its_slot_offer_is_acknowledged(cluster: TaskManagerCluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    cluster.welcome()

    cluster.submit("x", "a")

    assert cluster.states() == [("x", ExecutionState.RUNNING)]


def test_an_attempt_without_a_slot_is_reported_as_failed(connected: TaskManagerCluster) -> None:
    connected.submit("x", "unknown")

    update = connected.job_master.expect(UpdateTaskExecutionState).state
    assert (update.attempt, update.state) == ("x", ExecutionState.FAILED)
    assert update.failure is not None
    assert update.failure.message == "job-1 holds no slot by unknown"


def test_messages_under_a_former_job_master_session_are_dropped(connected: TaskManagerCluster) -> None:
    submit = SubmitTask(descriptor=descriptor("x"), job_master=connected.job_master.ref)

    connected.send(submit, LeaderSessionId("a former one"))

    assert connected.tasks() == []


def test_messages_for_a_task_reach_it(connected: TaskManagerCluster) -> None:
    connected.submit("x")
    asked = connected.job_master.received(RequestSplits)
    split = FileSplit(split_id=SplitId("s"), path="/in/s", start_row=0, rows=1)

    connected.send(AddSplits(attempt=ExecutionAttemptId("x"), operator_id=SOURCE, splits=(split,)))

    assert len(asked) == 1
    assert len(connected.job_master.received(RequestSplits)) == 1


def test_a_task_whose_slot_is_released_fails_and_is_not_cancelled(connected: TaskManagerCluster) -> None:
    connected.submit("x")

    connected.send(FreeSlot(allocation_id=AllocationId("a")))

    assert connected.states() == [("x", ExecutionState.RUNNING), ("x", ExecutionState.FAILED)]


def test_a_cancelled_task_ends_and_keeps_its_slot(connected: TaskManagerCluster) -> None:
    connected.submit("x")
    connected.send(CancelTask(attempt=ExecutionAttemptId("x")))

    assert connected.states() == [("x", ExecutionState.RUNNING), ("x", ExecutionState.CANCELED)]
    assert connected.tasks() == []
    assert connected.resource_manager.received(SlotAvailable) == []


@pytest.mark.parametrize("death", ["killed", "failed"])
def test_a_task_that_ends_unexpectedly_is_reported_as_failed(connected: TaskManagerCluster, death: str) -> None:
    connected.submit("x")
    task = connected.find(f"{HERE}/{connected.tasks()[0]}")

    if death == "killed":
        connected.system.kill(task)
    else:
        task.tell(ChainClosed())  # the chain was not closed on request

    assert connected.states() == [("x", ExecutionState.RUNNING), ("x", ExecutionState.FAILED)]


def test_freeing_a_slot_ends_its_tasks_first(connected: TaskManagerCluster) -> None:
    connected.submit("x")
    connected.submit("y")

    connected.send(FreeSlot(allocation_id=AllocationId("a")))

    assert connected.tasks() == []
    assert connected.resource_manager.expect(SlotAvailable).allocation_id == "a"


def test_a_trigger_for_an_unknown_attempt_is_declined(connected: TaskManagerCluster) -> None:
    connected.send(TriggerCheckpoint(job_id=JOB, attempt=ExecutionAttemptId("x"), checkpoint_id=7, timestamp_ms=0))

    assert connected.job_master.expect(DeclineCheckpoint) == DeclineCheckpoint(
        job_id=JOB,
        attempt=ExecutionAttemptId("x"),
        checkpoint_id=7,
        reason=CheckpointDeclineReason.TASK_CHECKPOINT_FAILURE,
    )


def test_each_task_gets_its_own_message_from_a_group(connected: TaskManagerCluster) -> None:
    triggers = [
        TriggerCheckpoint(job_id=JOB, attempt=ExecutionAttemptId(name), checkpoint_id=7, timestamp_ms=0)
        for name in ("x", "y")
    ]

    together = TaskCheckpointMessages(messages=tuple(triggers))
    connected.send(together)

    assert isinstance(together, AbstractCheckpointMessage)
    assert [declined.attempt for declined in connected.job_master.received(DeclineCheckpoint)] == ["x", "y"]


def test_an_unhandled_checkpoint_message_is_logged(
    connected: TaskManagerCluster, caplog: pytest.LogCaptureFixture
) -> None:
    connected.send(AcknowledgeCheckpoint(job_id=JOB, attempt=ExecutionAttemptId("x"), checkpoint_id=7))

    (record,) = [each for each in caplog.records if "AcknowledgeCheckpoint" in each.getMessage()]
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{connected.task_manager.path}#1 has no handler for AcknowledgeCheckpoint")


def test_other_messages_for_an_unknown_attempt_are_reported_as_unhandled(connected: TaskManagerCluster) -> None:
    unhandled: list[UnhandledMessage] = []
    connected.system.event_stream.subscribe(unhandled.append, UnhandledMessage)

    connected.send(CancelTask(attempt=ExecutionAttemptId("x")))

    assert [event.message for event in unhandled] == [CancelTask(attempt=ExecutionAttemptId("x"))]


def test_a_request_for_an_unknown_partition_is_answered_with_not_found(connected: TaskManagerCluster) -> None:
    wanted = partition_id(ExecutionAttemptId("x"), 0)

    connected.job_master.send(
        connected.task_manager,
        PartitionRequest(partition_id=wanted, subpartition=1, credit=2, consumer=connected.job_master.ref),
    )

    answer = connected.job_master.expect(ErrorResponse)
    assert (answer.partition_id, answer.subpartition, answer.partition_not_found) == (wanted, 1, True)
