"""A savepoint belongs to the client that requested it: only this client is notified and deletes the savepoint."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.properties import for_savepoint
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointComplete,
    SnapshotType,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    CheckpointingStopped,
    CheckpointTimedOut,
    FinalCheckpointRequest,
    MetadataWriteFailed,
    RequestRestoreState,
    RestoreState,
    SavepointCompleted,
    SavepointFailed,
    StartCheckpointScheduler,
    StopCheckpointFailed,
    StopCheckpointing,
    StopCheckpointRequest,
    StopCheckpointScheduler,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    Coordination,
    complete_checkpoint,
    planned_task,
    snapshot,
    two_tasks,
)

FOLDER = "savepoints/savepoint-1"


def trigger_savepoint(
    harness: Coordination, request_id: str = "wish", folder: str = FOLDER
) -> list[events.CoordinatorEffect]:
    return harness.handle(events.TriggerRequested(properties=for_savepoint(folder), request_id=request_id))


def acknowledge_all(harness: Coordination, checkpoint_id: int, **state: Any) -> None:
    harness.acknowledge("source", checkpoint_id)
    harness.acknowledge("sink", checkpoint_id, snapshot(**state) if state else None)


def failures(harness: Coordination) -> list[tuple[str, CheckpointDeclineReason]]:
    return [(message.request_id, message.reason) for message in harness.effects(SavepointFailed)]


def test_a_savepoint_is_written_to_its_folder_and_reported_when_durable() -> None:
    harness = two_tasks()
    trigger_savepoint(harness)

    acknowledge_all(harness, 1)

    [write] = harness.effects(events.WriteMetadata)
    assert (write.target_location, write.checkpoint.snapshot_type) == (FOLDER, SnapshotType.SAVEPOINT)
    assert harness.effects(SavepointCompleted) == [
        SavepointCompleted(job_id=JOB, request_id="wish", checkpoint_id=1, path="chk-1")
    ]


def test_a_savepoint_ignores_limit_and_pause_and_precedes_waiting_requests() -> None:
    harness = two_tasks(max_concurrent=1, min_pause_ms=60_000, interval_ms=100)
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    harness.advance(130_000)

    trigger_savepoint(harness)

    assert list(harness.machine.pending) == [1, 2]
    assert harness.machine.pending[2].properties.is_savepoint


def test_a_savepoint_commits_no_output_and_is_not_restored_from() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1)
    committed = len(harness.effects(NotifyCheckpointComplete))

    trigger_savepoint(harness)
    acknowledge_all(harness, 2)

    assert len(harness.effects(NotifyCheckpointComplete)) == committed
    assert harness.completed() == [1]


def test_the_state_of_a_savepoint_is_never_deleted_by_the_job() -> None:
    harness = two_tasks()
    trigger_savepoint(harness)
    acknowledge_all(harness, 1, exclusive=[f"{FOLDER}/state"])

    complete_checkpoint(harness, 2)
    complete_checkpoint(harness, 3)
    harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.CANCELED))

    assert harness.disposed() == ["chk-2"]


@pytest.mark.parametrize("how", ["declined", "expired", "job fails over", "metadata"])
def test_an_aborted_savepoint_leaves_no_files_and_the_job_continues(how: str) -> None:
    harness = two_tasks(tolerable_failures=1)
    trigger_savepoint(harness)
    harness.acknowledge("sink", 1, snapshot(exclusive=[f"{FOLDER}/state"]))

    match how:
        case "declined":
            harness.decline("source", 1)
        case "expired":
            harness.handle(CheckpointTimedOut(checkpoint_id=1))
        case "job fails over":
            harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
        case _:
            harness.storage_fails = True
            harness.acknowledge("source", 1)

    assert [request for request, _ in failures(harness)] == ["wish"]
    assert harness.disposed() == [FOLDER, f"{FOLDER}/state"]
    assert harness.effects(CheckpointFailuresExceeded) == []


def test_the_folder_of_an_aborted_checkpoint_is_deleted_after_its_write() -> None:
    harness = two_tasks(storage_answers=False)
    trigger_savepoint(harness)
    acknowledge_all(harness, 1)
    harness.handle(CheckpointTimedOut(checkpoint_id=1))
    while_written = harness.disposed()

    cause = SerializedThrowable(type_name="OSError", message="disk full")
    harness.handle(MetadataWriteFailed(checkpoint_id=1, cause=cause))

    assert (while_written, harness.disposed()) == ([], [FOLDER])


def test_late_state_of_a_task_is_discarded() -> None:
    harness = two_tasks()
    trigger_savepoint(harness)
    harness.decline("source", 1)

    harness.acknowledge("sink", 1, snapshot(exclusive=[f"{FOLDER}/late"]))

    assert harness.disposed() == [FOLDER, f"{FOLDER}/late"]


def test_a_newer_barrier_at_a_task_aborts_the_older_checkpoint() -> None:
    harness = two_tasks()
    trigger_savepoint(harness)
    harness.trigger()

    harness.decline("sink", 1, CheckpointDeclineReason.SUBSUMED)

    assert failures(harness) == [("wish", CheckpointDeclineReason.SUBSUMED)]
    assert harness.effects(CheckpointFailuresExceeded) == []


def test_a_savepoint_that_cannot_start_is_declined_to_its_client() -> None:
    starting = Coordination(planned_task("a", ExecutionState.DEPLOYING))
    over = two_tasks()
    over.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    trigger_savepoint(starting)
    trigger_savepoint(over)

    assert failures(starting) == [("wish", CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert failures(over) == [("wish", CheckpointDeclineReason.COORDINATOR_SHUTDOWN)]


def test_waiting_requests_fail_when_the_job_stops_running() -> None:
    harness = two_tasks(operator_coordinators=True)
    trigger_savepoint(harness, "first")
    trigger_savepoint(harness, "second", "elsewhere")

    harness.handle(StopCheckpointScheduler(job_id=JOB))

    suspended = CheckpointDeclineReason.COORDINATOR_SUSPEND
    assert sorted(failures(harness)) == [("first", suspended), ("second", suspended)]


def test_a_declining_task_counts_as_a_failure_unless_it_is_late() -> None:
    declined, expired = two_tasks(tolerable_failures=0), two_tasks(tolerable_failures=0)
    trigger_savepoint(declined)
    trigger_savepoint(expired)

    declined.decline("source", 1)
    expired.handle(CheckpointTimedOut(checkpoint_id=1))

    assert len(declined.effects(CheckpointFailuresExceeded)) == 1
    assert expired.effects(CheckpointFailuresExceeded) == []


# Stop with savepoint


def stop_with_savepoint(harness: Coordination, *, drain: bool = False) -> list[events.CoordinatorEffect]:
    return harness.handle(StopCheckpointRequest(job_id=JOB, target_location=FOLDER, drain=drain, request_id="stop"))


def test_a_job_stops_with_a_savepoint_and_its_tasks_commit() -> None:
    harness = two_tasks()

    stop_with_savepoint(harness)
    acknowledge_all(harness, 1)
    harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    [trigger] = harness.effects(TriggerCheckpoint)
    assert (trigger.options.is_final, trigger.options.target_location) == (True, FOLDER)
    assert {message.attempt for message in harness.effects(NotifyCheckpointComplete)} == {"source", "sink"}
    assert harness.effects(SavepointCompleted)[0].request_id == "stop"
    assert harness.effects(CheckpointingStopped) == [CheckpointingStopped(job_id=JOB, retained=())]
    assert harness.disposed() == []


def test_a_job_that_fails_after_a_stop_savepoint_restores_it() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1)
    stop_with_savepoint(harness)
    acknowledge_all(harness, 2, exclusive=[f"{FOLDER}/state"])

    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    harness.handle(RequestRestoreState(job_id=JOB, version=7))
    harness.handle(events.TasksChanged(tasks=(planned_task("source"), planned_task("sink", is_source=False))))
    complete_checkpoint(harness, 3)

    [restore] = harness.effects(RestoreState)
    assert restore.checkpoint is not None
    assert restore.checkpoint.checkpoint_id == 2
    assert harness.disposed() == ["chk-1"]


FAILS = AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION)
ENDS = StopCheckpointing(job_id=JOB, job_status=JobStatus.CANCELED)


@pytest.mark.parametrize("gone", [FAILS, ENDS], ids=["fails", "ends"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_stop_fails_if_the_job_ends_without_a_savepoint(gone: events.CoordinatorEvent, begun: bool) -> None:
    harness = two_tasks() if begun else Coordination(planned_task("a", ExecutionState.DEPLOYING))
    stop_with_savepoint(harness)

    harness.handle(gone)

    assert [request_id for request_id, _ in failures(harness)] == ["stop"]
    assert harness.effects(SavepointCompleted) == []


def test_a_client_with_the_final_savepoint_gets_no_further_reply() -> None:
    harness = two_tasks()
    stop_with_savepoint(harness)
    acknowledge_all(harness, 1)

    harness.handle(FAILS)
    harness.handle(ENDS)

    assert failures(harness) == []


def test_a_drained_job_that_cannot_end_fails() -> None:
    harness = two_tasks(tolerable_failures=9)
    stop_with_savepoint(harness, drain=True)
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.decline("sink", 1)

    [failed] = harness.effects(StopCheckpointFailed)
    assert (failed.request_id, failed.reason) == ("stop", CheckpointDeclineReason.CHECKPOINT_DECLINED)
    [fatal] = harness.effects(CheckpointFailuresExceeded)
    assert (
        fatal.cause.message == "the job was drained, but its last checkpoint failed, 1 with CHECKPOINT_DECLINED at sink"
    )


def test_a_drain_that_reached_no_task_does_not_affect_the_job() -> None:
    harness = two_tasks(operator_coordinators=True)
    stop_with_savepoint(harness, drain=True)

    harness.handle(CheckpointTimedOut(checkpoint_id=1))

    assert len(harness.effects(StopCheckpointFailed)) == 1
    assert harness.effects(CheckpointFailuresExceeded) == []


def test_stop_with_savepoint_fails_if_the_job_is_already_finishing() -> None:
    harness = two_tasks()
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    made = stop_with_savepoint(harness)
    acknowledge_all(harness, 1)

    [refused] = [effect for effect in made if isinstance(effect, StopCheckpointFailed)]
    assert (refused.reason, refused.cause) == (
        CheckpointDeclineReason.INPUT_END_OF_STREAM,
        SerializedThrowable(
            type_name="CheckpointError",
            message="the input is at its end, and the job already ends with checkpoint 1",
        ),
    )
    assert harness.completed() == [1]


def test_a_stop_savepoint_replaces_a_final_checkpoint_that_has_not_started() -> None:
    harness = two_tasks(max_concurrent=1)
    harness.trigger()
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    stop_with_savepoint(harness)
    acknowledge_all(harness, 1)

    assert harness.machine.pending[2].properties.options.target_location == FOLDER


def test_a_duplicate_reply_does_not_delete_a_savepoints_state() -> None:
    harness = two_tasks(max_concurrent=2)
    trigger_savepoint(harness)
    for checkpoint_id in range(2, 20):
        complete_checkpoint(harness, checkpoint_id)
    acknowledge_all(harness, 1, exclusive=["state"])

    acknowledge_all(harness, 1, exclusive=["state"])

    assert [message.request_id for message in harness.effects(SavepointCompleted)] == ["wish"]
    assert "state" not in harness.disposed()
