"""A checkpoint completes with all acknowledgements, its id is new, and the job restores the latest checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointOptions,
    CompletedCheckpoint,
    NotifyCheckpointAborted,
    OperatorCoordinatorsSnapshotted,
    SnapshotOperatorCoordinators,
    SnapshotType,
    TaskCheckpointMessages,
    TaskStateEntry,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointIds,
    CheckpointsRecovered,
    CheckpointTimedOut,
    CoordinatedTask,
    CoordinatedTasks,
    CoordinatedTaskStateChanged,
    MetadataRead,
    MetadataWritten,
    PeriodicTriggerDue,
    RequestRestoreState,
    RestoreState,
    StopCheckpointing,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId, LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.checkpoints import CheckpointMonitor
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.records import Record, Turn
from tests.flykka.monitors.turns import (
    COORDINATOR,
    JOB,
    JOB_MASTER,
    TASK_MANAGER,
    attempt,
    notify_complete,
    turn,
    violations_of,
)

MAP = JobVertexId("map")


def tasks(*subtasks: int, number: int = 0) -> Turn:
    """Return the turn in which the coordinator receives these running attempts."""
    running = tuple(
        CoordinatedTask(
            attempt=attempt(subtask, number),
            vertex_id=MAP,
            subtask=subtask,
            parallelism=2,
            max_parallelism=2,
            task_manager=TASK_MANAGER,
            state=ExecutionState.RUNNING,
            is_source=True,
        )
        for subtask in subtasks
    )
    message = CoordinatedTasks(job_id=JOB, tasks=running, leader_session_id=LeaderSessionId("session"))
    return turn(COORDINATOR, message)


def begin_turn(checkpoint_id: int) -> Turn:
    return turn(
        COORDINATOR,
        PeriodicTriggerDue(),
        (JOB_MASTER, SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=checkpoint_id)),
    )


def trigger_turn(checkpoint_id: int, options: CheckpointOptions | None = None) -> Turn:
    message = TriggerCheckpoint(
        job_id=JOB,
        attempt=attempt(),
        checkpoint_id=checkpoint_id,
        timestamp_ms=0,
        options=options or CheckpointOptions(),
    )
    snapshotted = OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=checkpoint_id, states=())
    return turn(COORDINATOR, snapshotted, (TASK_MANAGER, message))


def acknowledge(checkpoint_id: int, subtask: int, number: int = 0) -> Turn:
    message = AcknowledgeCheckpoint(job_id=JOB, attempt=attempt(subtask, number), checkpoint_id=checkpoint_id)
    return turn(COORDINATOR, message)


def completion_turn(checkpoint_id: int, cause: Message | None = None, to: Ref = JOB_MASTER) -> Turn:
    completed = CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint_id,
        duration_ms=1,
        size_bytes=0,
        incremental_bytes=0,
        path="",
        timestamp_ms=0,
    )
    cause = cause or MetadataWritten(checkpoint_id=checkpoint_id, path="")
    notification = TaskCheckpointMessages(messages=(notify_complete(checkpoint_id),))
    return turn(COORDINATOR, cause, (to, completed), (TASK_MANAGER, notification))


def abort(checkpoint_id: int, *, notified: Sequence[int] = (0,)) -> Turn:
    reason = CheckpointDeclineReason.EXPIRED
    aborted = CheckpointAborted(job_id=JOB, checkpoint_id=checkpoint_id, reason=reason, timestamp_ms=0)
    notifications = tuple(
        NotifyCheckpointAborted(
            job_id=JOB,
            attempt=attempt(subtask),
            checkpoint_id=checkpoint_id,
            latest_completed_id=None,
            timestamp_ms=0,
        )
        for subtask in notified
    )
    together = TaskCheckpointMessages(messages=notifications)
    return turn(
        COORDINATOR, CheckpointTimedOut(checkpoint_id=checkpoint_id), (TASK_MANAGER, together), (JOB_MASTER, aborted)
    )


def checkpoint_of_subtasks(checkpoint_id: int, *subtasks: int) -> CompletedCheckpoint:
    states = tuple(
        TaskStateEntry(vertex_id=MAP, subtask=subtask, parallelism=2, max_parallelism=2) for subtask in subtasks
    )
    return CompletedCheckpoint(
        job_id=JOB, checkpoint_id=checkpoint_id, timestamp_ms=0, duration_ms=0, task_states=states
    )


def restore(restored: CompletedCheckpoint | None) -> Turn:
    return turn(
        COORDINATOR, RequestRestoreState(job_id=JOB), (JOB_MASTER, RestoreState(job_id=JOB, checkpoint=restored))
    )


def whole_life(checkpoint_id: int) -> list[Record]:
    return [
        begin_turn(checkpoint_id),
        trigger_turn(checkpoint_id),
        acknowledge(checkpoint_id, 0),
        acknowledge(checkpoint_id, 1),
        completion_turn(checkpoint_id),
    ]


def test_a_checkpoint_with_all_acknowledgements_may_complete() -> None:
    assert violations_of(CheckpointMonitor(), tasks(0, 1), *whole_life(1), *whole_life(2)) == []


def test_a_checkpoint_must_not_complete_without_an_acknowledgement() -> None:
    violations = violations_of(
        CheckpointMonitor(), tasks(0, 1), begin_turn(1), trigger_turn(1), acknowledge(1, 0), completion_turn(1)
    )

    assert violations == ["checkpoint 1 completes without the acknowledgement of job_map_1_0"]


def test_a_duplicate_acknowledgement_must_not_count_for_another_task() -> None:
    run = [tasks(0, 1), begin_turn(1), trigger_turn(1), acknowledge(1, 0), acknowledge(1, 0), completion_turn(1)]

    assert "checkpoint 1 completes without the acknowledgement of job_map_1_0" in violations_of(
        CheckpointMonitor(), *run
    )


def test_the_acknowledgement_of_an_ended_attempt_must_not_count() -> None:
    run = [
        tasks(0, 1, number=1),
        begin_turn(1),
        trigger_turn(1),
        acknowledge(1, 0, 1),
        acknowledge(1, 1, 0),
        completion_turn(1),
    ]

    assert "checkpoint 1 completes without the acknowledgement of job_map_1_1" in violations_of(
        CheckpointMonitor(), *run
    )


def test_a_finished_task_need_not_acknowledge() -> None:
    finished = CoordinatedTaskStateChanged(job_id=JOB, attempt=attempt(1), state=ExecutionState.FINISHED)
    run = [
        tasks(0, 1),
        turn(COORDINATOR, finished),
        begin_turn(1),
        trigger_turn(1),
        acknowledge(1, 0),
        completion_turn(1),
    ]

    assert violations_of(CheckpointMonitor(), *run) == []


def test_a_checkpoint_must_not_complete_before_its_metadata_is_written() -> None:
    early = completion_turn(1, AcknowledgeCheckpoint(job_id=JOB, attempt=attempt(1), checkpoint_id=1))
    run = [tasks(0), begin_turn(1), trigger_turn(1), acknowledge(1, 0), early]

    assert violations_of(CheckpointMonitor(), *run) == ["checkpoint 1 completes before its metadata is written"]


def test_a_checkpoint_must_end_exactly_once() -> None:
    violations = violations_of(
        CheckpointMonitor(), tasks(0), begin_turn(1), trigger_turn(1), acknowledge(1, 0), completion_turn(1), abort(1)
    )

    assert violations == ["checkpoint 1 is aborted although it has already ended"]


def test_an_aborted_checkpoint_must_not_complete() -> None:
    violations = violations_of(
        CheckpointMonitor(), tasks(0), begin_turn(1), trigger_turn(1), acknowledge(1, 0), abort(1), completion_turn(1)
    )

    assert violations == ["checkpoint 1 completes although it never began or has already ended"]


def test_tasks_of_an_aborted_checkpoint_must_be_notified() -> None:
    begun = [tasks(0, 1), begin_turn(1), trigger_turn(1)]

    assert violations_of(CheckpointMonitor(), *begun, abort(1, notified=[0, 1])) == []
    assert violations_of(CheckpointMonitor(), *begun, abort(1)) == [
        "checkpoint 1 is aborted, but job_map_1_0 is not notified"
    ]


def test_an_abort_before_any_trigger_needs_no_notification() -> None:
    assert violations_of(CheckpointMonitor(), tasks(0, 1), begin_turn(1), abort(1, notified=())) == []


def test_completion_must_not_be_announced_for_an_incomplete_checkpoint() -> None:
    early = turn(COORDINATOR, PeriodicTriggerDue(), (TASK_MANAGER, notify_complete(1)))
    violations = violations_of(CheckpointMonitor(), tasks(0), begin_turn(1), trigger_turn(1), acknowledge(1, 0), early)

    assert violations == ["job_map_0_0 is notified that checkpoint 1 is complete, but it is not"]


def test_checkpoint_ids_must_increase() -> None:
    violations = violations_of(CheckpointMonitor(), tasks(0), begin_turn(2), abort(2), begin_turn(1))

    assert violations == ["checkpoint 1 begins after checkpoint 2: ids must increase"]


def test_a_job_must_restore_the_latest_checkpoint() -> None:
    lives = [tasks(0, 1), *whole_life(1), *whole_life(2)]

    assert violations_of(CheckpointMonitor(), *lives, restore(checkpoint_of_subtasks(2, 0, 1))) == []
    violations = violations_of(CheckpointMonitor(), *lives, restore(checkpoint_of_subtasks(1, 0, 1)))
    assert violations == ["the job restarts from checkpoint 1; the latest one is 2"]
    violations = violations_of(CheckpointMonitor(), *lives, restore(None))
    assert violations == ["the job starts from the beginning, although checkpoint 2 is complete"]
    violations = violations_of(CheckpointMonitor(), *lives, restore(checkpoint_of_subtasks(2, 0)))
    assert violations == ["checkpoint 2 has lost the state of map (1)"]


def test_a_job_does_not_restore_a_user_savepoint() -> None:
    savepoint = CheckpointOptions(snapshot_type=SnapshotType.SAVEPOINT)
    run = [tasks(0), begin_turn(1), trigger_turn(1, savepoint), acknowledge(1, 0), completion_turn(1), restore(None)]

    assert violations_of(CheckpointMonitor(), *run) == []


def test_a_job_restores_a_full_checkpoint_like_any_other() -> None:
    full = CheckpointOptions(snapshot_type=SnapshotType.FULL_CHECKPOINT)
    run = [
        tasks(0),
        begin_turn(1),
        trigger_turn(1, full),
        acknowledge(1, 0),
        completion_turn(1),
        restore(checkpoint_of_subtasks(1, 0)),
    ]

    assert violations_of(CheckpointMonitor(), *run) == []


def test_a_job_may_start_only_from_an_adopted_checkpoint() -> None:
    adopted = turn(COORDINATOR, MetadataRead(version=1, checkpoint=checkpoint_of_subtasks(7, 0)))

    assert (
        violations_of(CheckpointMonitor(), adopted, restore(checkpoint_of_subtasks(7, 0)), tasks(0), begin_turn(8))
        == []
    )
    violations = violations_of(CheckpointMonitor(), restore(checkpoint_of_subtasks(7, 0)))
    assert violations == ["the job restarts from checkpoint 7, which has not completed"]


def test_a_partial_run_is_not_checked_against_earlier_events() -> None:
    run = [
        acknowledge(1, 0),
        completion_turn(1),
        abort(2),
        restore(checkpoint_of_subtasks(1, 0, 1)),
        begin_turn(3),
        trigger_turn(3),
        completion_turn(3),
    ]

    assert violations_of(CheckpointMonitor(is_whole=False), *run) == []


def test_an_undecoded_message_may_be_the_missing_acknowledgement() -> None:
    unreadable = turn(COORDINATOR, Undecoded(data=b"", reason="too large"))

    assert (
        violations_of(CheckpointMonitor(), tasks(0), begin_turn(1), trigger_turn(1), unreadable, completion_turn(1))
        == []
    )


def test_pending_checkpoints_end_with_their_coordinator() -> None:
    monitor = CheckpointMonitor()
    violations_of(monitor, tasks(0), begin_turn(5), turn(JOB_MASTER, DeathWatchNotification(ref=COORDINATOR)))

    assert violations_of(monitor, tasks(0), begin_turn(1)) == []


def recover(*completed: CompletedCheckpoint) -> Turn:
    return turn(COORDINATOR, CheckpointsRecovered(ids=CheckpointIds(first=9, count=9), completed=completed))


def test_the_next_coordinator_restores_checkpoints_of_the_previous_one() -> None:
    gone = turn(JOB_MASTER, DeathWatchNotification(ref=COORDINATOR))

    recovered = [
        tasks(0, 1),
        *whole_life(1),
        gone,
        recover(checkpoint_of_subtasks(1, 0, 1)),
        restore(checkpoint_of_subtasks(1, 0, 1)),
    ]

    assert violations_of(CheckpointMonitor(), *recovered) == []


def test_a_completed_checkpoint_survives_its_coordinator() -> None:
    gone = turn(JOB_MASTER, DeathWatchNotification(ref=COORDINATOR))

    lost = [tasks(0, 1), *whole_life(1), gone, recover()]

    assert violations_of(CheckpointMonitor(), *lost) == [
        "no checkpoint is recovered, although checkpoint 1 was complete"
    ]


def test_another_job_of_the_same_name_has_its_own_checkpoints() -> None:
    ended = turn(COORDINATOR, StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    assert violations_of(CheckpointMonitor(), tasks(0, 1), *whole_life(1), ended, recover()) == []
