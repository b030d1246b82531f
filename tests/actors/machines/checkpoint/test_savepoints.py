"""A savepoint belongs to the client that requested it: that client is notified, and only it deletes the savepoint."""

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
    world: Coordination, request_id: str = "wish", folder: str = FOLDER
) -> list[events.CoordinatorEffect]:
    return world.handle(events.TriggerRequested(properties=for_savepoint(folder), request_id=request_id))


def acknowledge_all(world: Coordination, checkpoint_id: int, **state: Any) -> None:
    world.acknowledge("source", checkpoint_id)
    world.acknowledge("sink", checkpoint_id, snapshot(**state) if state else None)


def failures(world: Coordination) -> list[tuple[str, CheckpointDeclineReason]]:
    return [(told.request_id, told.reason) for told in world.effects(SavepointFailed)]


def test_a_savepoint_is_taken_in_its_folder_and_reported_when_durable() -> None:
    world = two_tasks()
    trigger_savepoint(world)

    acknowledge_all(world, 1)

    [write] = world.effects(events.WriteMetadata)
    assert (write.target_location, write.checkpoint.snapshot_type) == (FOLDER, SnapshotType.SAVEPOINT)
    assert world.effects(SavepointCompleted) == [
        SavepointCompleted(job_id=JOB, request_id="wish", checkpoint_id=1, path="chk-1")
    ]


def test_it_waits_for_no_limit_and_no_pause_and_goes_before_what_waits() -> None:
    world = two_tasks(max_concurrent=1, min_pause_ms=60_000, interval_ms=100)
    world.handle(StartCheckpointScheduler(job_id=JOB))
    world.advance(130_000)

    trigger_savepoint(world)

    assert list(world.machine.pending) == [1, 2]
    assert world.machine.pending[2].properties.is_savepoint


def test_the_job_commits_nothing_with_it_and_goes_back_to_no_savepoint() -> None:
    world = two_tasks()
    complete_checkpoint(world, 1)
    committed = len(world.effects(NotifyCheckpointComplete))

    trigger_savepoint(world)
    acknowledge_all(world, 2)

    assert len(world.effects(NotifyCheckpointComplete)) == committed
    assert world.completed() == [1]


def test_its_state_is_never_deleted_by_the_job() -> None:
    world = two_tasks()
    trigger_savepoint(world)
    acknowledge_all(world, 1, exclusive=[f"{FOLDER}/state"])

    complete_checkpoint(world, 2)
    complete_checkpoint(world, 3)
    world.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.CANCELED))

    assert world.disposed() == ["chk-2"]


@pytest.mark.parametrize("how", ["declined", "expired", "job fails over", "metadata"])
def test_an_aborted_savepoint_leaves_no_files_and_the_job_continues(how: str) -> None:
    world = two_tasks(tolerable_failures=1)
    trigger_savepoint(world)
    world.acknowledge("sink", 1, snapshot(exclusive=[f"{FOLDER}/state"]))

    match how:
        case "declined":
            world.decline("source", 1)
        case "expired":
            world.handle(CheckpointTimedOut(checkpoint_id=1))
        case "job fails over":
            world.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
        case _:
            world.storage_fails = True
            world.acknowledge("source", 1)

    assert [request for request, _ in failures(world)] == ["wish"]
    assert world.disposed() == [FOLDER, f"{FOLDER}/state"]
    assert world.effects(CheckpointFailuresExceeded) == []


def test_the_folder_of_an_aborted_checkpoint_is_deleted_after_its_write() -> None:
    world = two_tasks(storage_answers=False)
    trigger_savepoint(world)
    acknowledge_all(world, 1)
    world.handle(CheckpointTimedOut(checkpoint_id=1))
    while_written = world.disposed()

    cause = SerializedThrowable(type_name="OSError", message="disk full")
    world.handle(MetadataWriteFailed(checkpoint_id=1, cause=cause))

    assert (while_written, world.disposed()) == ([], [FOLDER])


def test_late_state_of_a_task_is_discarded() -> None:
    world = two_tasks()
    trigger_savepoint(world)
    world.decline("source", 1)

    world.acknowledge("sink", 1, snapshot(exclusive=[f"{FOLDER}/late"]))

    assert world.disposed() == [FOLDER, f"{FOLDER}/late"]


def test_a_task_overtaken_by_a_newer_barrier_aborts_the_older_checkpoint() -> None:
    world = two_tasks()
    trigger_savepoint(world)
    world.trigger()

    world.decline("sink", 1, CheckpointDeclineReason.SUBSUMED)

    assert failures(world) == [("wish", CheckpointDeclineReason.SUBSUMED)]
    assert world.effects(CheckpointFailuresExceeded) == []


def test_a_savepoint_that_cannot_begin_is_declined_to_its_client() -> None:
    starting = Coordination(planned_task("a", ExecutionState.DEPLOYING))
    over = two_tasks()
    over.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    trigger_savepoint(starting)
    trigger_savepoint(over)

    assert failures(starting) == [("wish", CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert failures(over) == [("wish", CheckpointDeclineReason.COORDINATOR_SHUTDOWN)]


def test_waiting_requests_fail_when_the_job_stops_running() -> None:
    world = two_tasks(operator_coordinators=True)
    trigger_savepoint(world, "first")
    trigger_savepoint(world, "second", "elsewhere")

    world.handle(StopCheckpointScheduler(job_id=JOB))

    suspended = CheckpointDeclineReason.COORDINATOR_SUSPEND
    assert sorted(failures(world)) == [("first", suspended), ("second", suspended)]


def test_a_task_that_cannot_take_part_counts_as_a_failure_and_a_late_one_does_not() -> None:
    declined, expired = two_tasks(tolerable_failures=0), two_tasks(tolerable_failures=0)
    trigger_savepoint(declined)
    trigger_savepoint(expired)

    declined.decline("source", 1)
    expired.handle(CheckpointTimedOut(checkpoint_id=1))

    assert len(declined.effects(CheckpointFailuresExceeded)) == 1
    assert expired.effects(CheckpointFailuresExceeded) == []


# Savepoints that stop a job


def stop_with_savepoint(world: Coordination, *, drain: bool = False) -> list[events.CoordinatorEffect]:
    return world.handle(StopCheckpointRequest(job_id=JOB, target_location=FOLDER, drain=drain, request_id="stop"))


def test_a_job_is_stopped_with_the_savepoint_and_its_tasks_commit() -> None:
    world = two_tasks()

    stop_with_savepoint(world)
    acknowledge_all(world, 1)
    world.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    [trigger] = world.effects(TriggerCheckpoint)
    assert (trigger.options.is_final, trigger.options.target_location) == (True, FOLDER)
    assert {told.attempt for told in world.effects(NotifyCheckpointComplete)} == {"source", "sink"}
    assert world.effects(SavepointCompleted)[0].request_id == "stop"
    assert world.effects(CheckpointingStopped) == [CheckpointingStopped(job_id=JOB, retained=())]
    assert world.disposed() == []


def test_a_job_that_fails_after_a_stop_savepoint_restores_it() -> None:
    world = two_tasks()
    complete_checkpoint(world, 1)
    stop_with_savepoint(world)
    acknowledge_all(world, 2, exclusive=[f"{FOLDER}/state"])

    world.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    world.handle(RequestRestoreState(job_id=JOB, version=7))
    world.handle(events.TasksChanged(tasks=(planned_task("source"), planned_task("sink", is_source=False))))
    complete_checkpoint(world, 3)

    [restore] = world.effects(RestoreState)
    assert restore.checkpoint is not None
    assert restore.checkpoint.checkpoint_id == 2
    assert world.disposed() == ["chk-1"]


FAILS = AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION)
ENDS = StopCheckpointing(job_id=JOB, job_status=JobStatus.CANCELED)


@pytest.mark.parametrize("gone", [FAILS, ENDS], ids=["fails", "ends"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_stopping_client_is_notified_if_the_job_ends_without_a_savepoint(
    gone: events.CoordinatorEvent, begun: bool
) -> None:
    world = two_tasks() if begun else Coordination(planned_task("a", ExecutionState.DEPLOYING))
    stop_with_savepoint(world)

    world.handle(gone)

    assert [request_id for request_id, _ in failures(world)] == ["stop"]
    assert world.effects(SavepointCompleted) == []


def test_a_client_with_the_final_savepoint_gets_no_further_answer() -> None:
    world = two_tasks()
    stop_with_savepoint(world)
    acknowledge_all(world, 1)

    world.handle(FAILS)
    world.handle(ENDS)

    assert failures(world) == []


def test_a_drained_job_that_cannot_end_is_failed_for_its_sources_read_nothing_any_more() -> None:
    world = two_tasks(tolerable_failures=9)
    stop_with_savepoint(world, drain=True)
    world.handle(FinalCheckpointRequest(job_id=JOB))

    world.decline("sink", 1)

    [failed] = world.effects(StopCheckpointFailed)
    assert (failed.request_id, failed.reason) == ("stop", CheckpointDeclineReason.CHECKPOINT_DECLINED)
    [fatal] = world.effects(CheckpointFailuresExceeded)
    assert (
        fatal.cause.message == "the job was drained, and its last checkpoint failed, 1 with CHECKPOINT_DECLINED at sink"
    )


def test_a_drain_that_reached_no_task_does_not_affect_the_job() -> None:
    world = two_tasks(operator_coordinators=True)
    stop_with_savepoint(world, drain=True)

    world.handle(CheckpointTimedOut(checkpoint_id=1))

    assert len(world.effects(StopCheckpointFailed)) == 1
    assert world.effects(CheckpointFailuresExceeded) == []


def test_a_job_that_ends_already_is_not_stopped_with_a_savepoint() -> None:
    world = two_tasks()
    world.handle(FinalCheckpointRequest(job_id=JOB))

    made = stop_with_savepoint(world)
    acknowledge_all(world, 1)

    [refused] = [effect for effect in made if isinstance(effect, StopCheckpointFailed)]
    assert (refused.reason, refused.cause) == (
        CheckpointDeclineReason.INPUT_END_OF_STREAM,
        SerializedThrowable(
            type_name="CheckpointError",
            message="the input is at its end, and the job already ends with checkpoint 1",
        ),
    )
    assert world.completed() == [1]


def test_a_job_whose_end_has_not_begun_ends_with_the_savepoint() -> None:
    world = two_tasks(max_concurrent=1)
    world.trigger()
    world.handle(FinalCheckpointRequest(job_id=JOB))

    stop_with_savepoint(world)
    acknowledge_all(world, 1)

    assert world.machine.pending[2].properties.options.target_location == FOLDER


def test_a_savepoint_keeps_its_state_if_an_answer_is_duplicated() -> None:
    world = two_tasks(max_concurrent=2)
    trigger_savepoint(world)
    for checkpoint_id in range(2, 20):
        complete_checkpoint(world, checkpoint_id)
    acknowledge_all(world, 1, exclusive=["state"])

    acknowledge_all(world, 1, exclusive=["state"])

    assert [told.request_id for told in world.effects(SavepointCompleted)] == ["wish"]
    assert "state" not in world.disposed()
