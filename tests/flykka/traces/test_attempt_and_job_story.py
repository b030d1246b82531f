"""The stories of an attempt and of a job: events in order, with routine events condensed into one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.errors import TraceSelectionError
from flykka.messages.attempt.answers import ChainClosed, ChainOpened, EngineFailed, StageResult
from flykka.messages.attempt.commands import CloseChain, OpenChain
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.control.job import (
    CheckpointAborted,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobRestored,
    JobStatus,
    JobStatusChanged,
    TaskManagerLost,
)
from flykka.messages.control.job_control import JobEnded
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from tests.flykka.traces.recording import BEGIN_MS, JOB, TASK_MANAGER, Recording, attempt, job_master, task_ref

BOOM = SerializedThrowable(type_name="OSError", message="disk full")
CLIENT = Ref("/user/client", 1)
LISTENER = Ref("/user/listener", 1)


def bridge(subtask: int) -> Ref:
    return Ref(f"{task_ref(subtask).path}/bridge", 1)


def record_attempt(recording: Recording, subtask: int, *, ends: ExecutionState = ExecutionState.FINISHED) -> None:
    """Record the messages to and from an attempt: a restore, three stages, a checkpoint, the end."""
    trigger = TriggerCheckpoint(job_id=JOB, attempt=attempt(subtask), checkpoint_id=5, timestamp_ms=BEGIN_MS)
    complete = NotifyCheckpointComplete(job_id=JOB, attempt=attempt(subtask), checkpoint_id=5, timestamp_ms=BEGIN_MS)
    recording.turn(task_ref(subtask), trigger, sender=TASK_MANAGER)
    recording.turn(bridge(subtask), OpenChain(restore=None, restored_checkpoint_id=4), sender=task_ref(subtask))
    recording.turn(task_ref(subtask), ChainOpened(), sender=bridge(subtask))
    for stage in range(3):
        recording.turn(task_ref(subtask), StageResult(stage=stage, rows_in=10, rows_out=2), sender=bridge(subtask))
    recording.turn(task_ref(subtask), complete, sender=TASK_MANAGER)
    if ends is ExecutionState.FAILED:
        recording.turn(task_ref(subtask), EngineFailed(cause=BOOM), sender=bridge(subtask))
    recording.turn(bridge(subtask), CloseChain(cancel=False), sender=task_ref(subtask))
    recording.turn(task_ref(subtask), ChainClosed(), sender=bridge(subtask))
    failure = BOOM if ends is ExecutionState.FAILED else None
    state = TaskExecutionState(attempt=attempt(subtask), state=ends, failure=failure)
    recording.turn(job_master(), UpdateTaskExecutionState(state=state), sender=task_ref(subtask))


def test_an_attempt_story_runs_from_restore_to_end_with_routine_condensed(recording: Recording) -> None:
    record_attempt(recording, 0)
    record_attempt(recording, 1)

    story = recording.closed().story(attempt=attempt(1))

    assert story.outcome == "FINISHED"
    assert [line.text for line in story.lines()] == [
        "checkpoint 5: triggered",
        "bridge: opens its chain, restored from checkpoint 4",
        "Task: has opened its chain",
        "work until +0.500: 3 x finishes a stage (10 rows in, 2 out; 10 rows in, 2 out; 10 rows in, 2 out)",
        "checkpoint 5: complete",
        "bridge: closes its chain",
        "Task: has no running work left",
        "JobMaster: is notified that it is FINISHED",
    ]


def test_the_story_of_a_failing_attempt_states_location_and_cause(recording: Recording) -> None:
    record_attempt(recording, 0, ends=ExecutionState.FAILED)

    story = recording.closed().story(attempt="window-0")

    assert story.outcome == "FAILED, OSError: disk full"
    assert [line.text for line in story.lines() if any(step.failed for step in line.steps)] == [
        "Task: a stage has failed, OSError: disk full",
        "JobMaster: is notified that it is FAILED, OSError: disk full",
    ]
    assert "\n!    +0.700        8  Task: a stage has failed" in story.text()


def test_an_attempt_lost_with_its_task_manager_was_killed(recording: Recording) -> None:
    trigger = TriggerCheckpoint(job_id=JOB, attempt=attempt(0), checkpoint_id=5, timestamp_ms=BEGIN_MS)
    recording.turn(task_ref(0), trigger, sender=TASK_MANAGER)
    recording.killed(task_ref(0))

    story = recording.closed().story(attempt=attempt(0))

    assert story.outcome == "KILLED with its TaskManager"
    assert story.lines()[-1].text == "Task: is killed"


def test_an_attempt_is_identified_by_any_unique_part_of_its_id(recording: Recording) -> None:
    record_attempt(recording, 0)
    record_attempt(recording, 1)
    trace = recording.closed()

    with pytest.raises(
        TraceSelectionError, match=f"'window' matches 2 attempts; choose one: {attempt(0)}, {attempt(1)}"
    ):
        trace.story(attempt="window")
    with pytest.raises(TraceSelectionError, match=f"there is no attempt 'map'; there are: {attempt(0)}, {attempt(1)}"):
        trace.story(attempt="map")


def record_notifications(recording: Recording, *said: Message) -> None:
    effects = [("send", listener, each) for each in said for listener in (CLIENT, LISTENER)]
    recording.turn(
        job_master(),
        UpdateTaskExecutionState(state=TaskExecutionState(attempt=attempt(0), state=ExecutionState.RUNNING)),
        *effects,
    )


def status(value: JobStatus, cause: SerializedThrowable | None = None) -> JobStatusChanged:
    return JobStatusChanged(job_id=JOB, status=value, timestamp_ms=BEGIN_MS, cause=cause)


def task_state(subtask: int, state: ExecutionState, why: SerializedThrowable | None = None) -> ExecutionStateChanged:
    return ExecutionStateChanged(
        job_id=JOB,
        attempt=attempt(subtask),
        task_name=f"window ({subtask + 1}/2)",
        state=state,
        timestamp_ms=BEGIN_MS,
        failure=why,
    )


def checkpoint_completed(number: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB, checkpoint_id=number, duration_ms=20, size_bytes=1, incremental_bytes=1, path="x",
        timestamp_ms=BEGIN_MS,
    )  # fmt: skip


def record_job(recording: Recording) -> None:
    lost = TaskManagerLost(
        job_id=JOB, task_manager=TaskManagerId("task-manager-1"), reason="it is silent", timestamp_ms=0
    )
    given_up = CheckpointAborted(
        job_id=JOB, checkpoint_id=3, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION, timestamp_ms=BEGIN_MS
    )
    record_notifications(recording, status(JobStatus.RUNNING))
    record_notifications(recording, task_state(0, ExecutionState.RUNNING), task_state(1, ExecutionState.RUNNING))
    record_notifications(recording, checkpoint_completed(1))
    record_notifications(recording, checkpoint_completed(2))
    recording.killed(TASK_MANAGER)
    record_notifications(
        recording, lost, task_state(1, ExecutionState.FAILED, BOOM), status(JobStatus.RESTARTING, BOOM), given_up
    )
    record_notifications(recording, JobRestored(job_id=JOB, checkpoint_id=2, timestamp_ms=BEGIN_MS))
    record_notifications(recording, status(JobStatus.FINISHED))
    recording.turn(Ref("/user/job-manager", 1), JobEnded(job_id=JOB, status=JobStatus.FINISHED), sender=job_master())


def test_a_job_story_lists_each_event_once(recording: Recording) -> None:
    record_job(recording)

    story = recording.closed().story(job="0123")

    assert (story.subject, story.outcome) == (f"job {JOB}", "FINISHED")
    assert [("!" if any(step.failed for step in line.steps) else " ") + line.text for line in story.lines()] == [
        " JobMaster: the job is RUNNING",
        " tasks until +0.100: 2 x RUNNING (window (1/2); window (2/2))",
        " checkpoints until +0.300: 2 x completed (1 in 20 ms; 2 in 20 ms)",
        "!task-manager-1: is killed",
        "!JobMaster: has lost task-manager-1, it is silent",
        "!JobMaster: window (2/2) is FAILED, OSError: disk full",
        "!JobMaster: the job is RESTARTING, OSError: disk full",
        " JobMaster: checkpoint 3 is aborted, JOB_FAILOVER_REGION",
        " JobMaster: starts from checkpoint 2",
        " JobMaster: the job is FINISHED",
        " JobManager: is notified that it has ended, FINISHED",
    ]


def test_the_only_job_of_a_trace_needs_no_name(recording: Recording) -> None:
    record_job(recording)
    trace = recording.closed()

    assert trace.story() == trace.story(job=JOB)


def test_one_of_several_jobs_must_be_selected(recording: Recording) -> None:
    record_job(recording)
    another = JobId("fedcba9876543210fedcba9876543210")
    record_notifications(recording, replace(status(JobStatus.RUNNING), job_id=another))
    trace = recording.closed()

    with pytest.raises(TraceSelectionError, match=f"it has 2 jobs; choose one: {JOB}, {another}"):
        trace.story()


def test_a_missing_job_is_reported_with_the_existing_ones(recording: Recording) -> None:
    record_job(recording)
    trace = recording.closed()

    with pytest.raises(TraceSelectionError, match=f"there is no job 'ffff'; there are: {JOB}"):
        trace.story(job="ffff")


def test_a_trace_without_jobs_is_reported(recording: Recording) -> None:
    recording.turn(CLIENT, ChainOpened())
    trace = recording.closed()

    for job in (None, "0123"):
        with pytest.raises(TraceSelectionError, match="the trace contains no jobs"):
            trace.story(job=job)
    with pytest.raises(TraceSelectionError, match="the trace contains no attempts"):
        trace.story(attempt="x")
    with pytest.raises(TraceSelectionError, match="contains no checkpoints"):
        trace.story(checkpoint=1)
