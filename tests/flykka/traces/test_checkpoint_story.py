"""The story of a checkpoint: every step that concerns this checkpoint, and no step of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.errors import TraceSelectionError
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    DeclineCheckpoint,
    NotifyCheckpointComplete,
    SnapshotOperatorCoordinators,
    TaskCheckpointMessages,
)
from flykka.messages.control.job import JobRestored
from flykka.messages.tasks.exchange import BufferResponse, CheckpointBarrier
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, partition_id
from flykka.runtime.signals import Terminated
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.traces.trace import Trace
from tests.flykka.traces.recording import (
    BEGIN_MS,
    JOB,
    TASK_MANAGER,
    Recording,
    attempt,
    coordinator,
    job_master,
    play_into,
    record_checkpoint,
    task_ref,
)

OTHER_JOB = JobId("fedcba9876543210fedcba9876543210")


def test_a_checkpoint_story_has_phases_in_seconds_since_the_trigger(recording: Recording) -> None:
    record_checkpoint(recording, 6)
    record_checkpoint(recording, 7)

    story = recording.closed().story(checkpoint=7)

    assert str(story).splitlines() == [
        f"checkpoint 7 of job {JOB}: COMPLETED in 1.5 s, 2.0 KiB, 1.0 KiB of it new",
        "begins 0.325 s into the recording",
        "",
        "trigger",
        "     +0.000       11  CheckpointCoordinator: begins it after PeriodicTriggerDue",
        "     +0.100       12  JobMaster: stores the positions of the split enumerators",
        "     +0.101       13  window-0.0-0: is triggered",
        "     +0.102       14  window-1.0-1: is triggered",
        "",
        "acknowledgements",
        "     +0.112       15  window-0.0-0: acknowledged, async 1.5 s",
        "     +0.122       16  window-1.0-1: acknowledged, async 1.5 s",
        "",
        "end",
        "     +0.222       17  CheckpointCoordinator: the metadata is written, /checkpoints/chk-7",
        "     +0.223       18  JobMaster: is notified that it is complete",
        "",
        "notifications",
        "     +0.224       19  window-0.0-0: is notified that it is complete",
        "     +0.225       20  window-1.0-1: is notified that it is complete",
    ]


def test_equal_steps_of_many_tasks_are_one_line_with_the_last_task(recording: Recording) -> None:
    record_checkpoint(recording, 1, tasks=64)

    story = recording.closed().story(checkpoint=1)

    acknowledged = [line for line in story.lines() if line.phase == "acknowledgements"]
    assert [line.text for line in acknowledged] == [
        "64 x acknowledged within 630 ms, the last was window-63.0-63, async 1.5 s"
    ]
    assert (acknowledged[0].first.actor, acknowledged[0].last.actor) == ("window-0.0-0", "window-63.0-63")
    assert len([line for line in story.lines(everything=True) if line.phase == "acknowledgements"]) == 64


def test_a_message_in_transit_is_listed_only_with_all_details(recording: Recording) -> None:
    record_checkpoint(recording, 1)
    notify = NotifyCheckpointComplete(job_id=JOB, attempt=attempt(0), checkpoint_id=1, timestamp_ms=BEGIN_MS)
    recording.turn(TASK_MANAGER, notify, sender=coordinator())

    story = recording.closed().story(checkpoint=1)

    assert "task-manager-1" not in story.text()
    assert "task-manager-1: is notified that it is complete" in story.text(everything=True)


def test_an_aborted_checkpoint_states_the_reason(recording: Recording) -> None:
    record_checkpoint(recording, 3, aborted=CheckpointDeclineReason.EXPIRED)

    story = recording.closed().story(checkpoint=3)

    assert story.outcome == "ABORTED, EXPIRED"
    assert story.lines()[-1].text == "JobMaster: is notified that it was aborted, EXPIRED"


def test_a_declining_task_is_named_with_its_failure(recording: Recording) -> None:
    boom = SerializedThrowable(type_name="OSError", message="disk full")
    declined = DeclineCheckpoint(job_id=JOB, attempt=attempt(1), checkpoint_id=3, cause=boom)
    record_checkpoint(recording, 3, aborted=CheckpointDeclineReason.CHECKPOINT_DECLINED)
    recording.turn(coordinator(), declined, sender=job_master())

    (line,) = [line for line in recording.closed().story(checkpoint=3).lines() if line.phase == "acknowledgements"]

    assert line.text == "window-1.0-1: declined, CHECKPOINT_DECLINED, OSError: disk full"
    assert line.first.failed


def test_barriers_and_commits_are_attributed_to_a_checkpoint_without_a_job_id(recording: Recording) -> None:
    record_checkpoint(recording, 2)
    barrier = BufferResponse(
        partition_id=partition_id(attempt(0), 0),
        subpartition=0,
        sequence_number=5,
        buffer=CheckpointBarrier(checkpoint_id=2, timestamp_ms=BEGIN_MS),
        backlog=0,
    )
    recording.turn(task_ref(1), barrier, sender=task_ref(0))
    recording.turn(
        type(task_ref(1))(f"{task_ref(1).path}/bridge", 1), CommitCheckpoint(checkpoint_id=2), sender=task_ref(1)
    )

    texts = [line.text for line in recording.closed().story(checkpoint=2).lines()]

    assert texts[-2:] == ["window-1.0-1: gets a barrier", "window-1.0-1: begins to commit"]


def test_a_dead_letter_is_listed_as_an_undelivered_message(recording: Recording) -> None:
    record_checkpoint(recording, 2)
    notify = NotifyCheckpointComplete(job_id=JOB, attempt=attempt(0), checkpoint_id=2, timestamp_ms=BEGIN_MS)
    recording.dead_letter(task_ref(0), notify, "the recipient was killed")

    line = recording.closed().story(checkpoint=2).lines()[-1]

    assert line.text == (
        "window-0.0-0: does not get it: NotifyCheckpointComplete is a dead letter, the recipient was killed"
    )
    assert line.first.failed


def test_a_checkpoint_without_an_end_in_the_trace_is_marked(recording: Recording) -> None:
    snapshot = SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=1)
    recording.turn(job_master(), snapshot, sender=coordinator())
    trace = recording.closed()
    trace.path.write_bytes(trace.path.read_bytes()[:-3])

    story = Trace.open(trace.path).story(checkpoint=1)

    assert story.outcome == "unfinished at the end of the trace"
    assert "the trace ends at byte" in story.notes[0]


def test_the_job_must_be_named_if_several_have_the_checkpoint(recording: Recording) -> None:
    record_checkpoint(recording, 1)
    record_checkpoint(recording, 1, job=OTHER_JOB)
    trace = recording.closed()

    with pytest.raises(TraceSelectionError, match=f"several jobs have a checkpoint 1; choose one: {JOB}, {OTHER_JOB}"):
        trace.story(checkpoint=1)

    assert trace.story(checkpoint=1, job="fedc").subject == f"checkpoint 1 of job {OTHER_JOB}"


def test_a_missing_checkpoint_is_reported_with_the_existing_ones(recording: Recording) -> None:
    record_checkpoint(recording, 3)
    record_checkpoint(recording, 4)
    trace = recording.closed()

    with pytest.raises(TraceSelectionError, match="there is no checkpoint 9; there are 3 to 4"):
        trace.story(checkpoint=9)
    with pytest.raises(TraceSelectionError, match=f"there is no checkpoint 3 of a job 'nobody'; it belongs to {JOB}"):
        trace.story(checkpoint=3, job="nobody")


def test_turns_dropped_by_a_flight_recorder_are_mentioned(recording: Recording, tmp_path: Path) -> None:
    record_checkpoint(recording, 1)
    kept = FlightRecorder(turns=4)
    kept.open(system="kept", seed=1)
    play_into(kept, recording.closed())
    kept.dump(tmp_path / "ring.trace")

    story = Trace.open(tmp_path / "ring.trace").story(checkpoint=1)

    assert story.notes == ("flight record of actor system 'kept': the first 6 turns were not kept",)
    assert "# flight record" in str(story)


def test_a_story_is_available_as_json(recording: Recording) -> None:
    record_checkpoint(recording, 1, tasks=5)

    story = recording.closed().story(checkpoint=1).to_json()

    assert story["outcome"].startswith("COMPLETED")
    acknowledged = next(step for step in story["steps"] if step["phase"] == "acknowledgements")
    assert (acknowledged["count"], acknowledged["last_ms"] - acknowledged["ms"]) == (5, 40)


def test_a_checkpoint_story_has_exactly_one_subject(recording: Recording) -> None:
    record_checkpoint(recording, 1)
    trace = recording.closed()

    for wrong in ({"checkpoint": 1, "attempt": "x"}, {"attempt": "x", "job": "y"}):
        with pytest.raises(ValueError, match="one checkpoint, one attempt or one job"):
            trace.story(**wrong)


def test_a_restart_from_the_checkpoint_follows_in_the_story(recording: Recording) -> None:
    record_checkpoint(recording, 2)
    restored = JobRestored(job_id=JOB, checkpoint_id=2, timestamp_ms=BEGIN_MS)
    recording.turn(job_master(), Terminated(ref=TASK_MANAGER), ("send", task_ref(9), restored))

    line = recording.closed().story(checkpoint=2).lines()[-1]

    assert (line.phase, line.text) == ("afterwards", "JobMaster: restarts the tasks from it")


def test_tasks_of_an_unknown_job_have_a_story(recording: Recording) -> None:
    recording.turn(task_ref(0), CommitCheckpoint(checkpoint_id=2))

    assert recording.closed().story(checkpoint=2).subject == "checkpoint 2 of job that the trace does not name"


def test_ambiguous_events_of_several_jobs_are_omitted_and_counted(recording: Recording) -> None:
    record_checkpoint(recording, 1, tasks=0)
    record_checkpoint(recording, 1, tasks=0, job=OTHER_JOB)
    recording.turn(task_ref(0), CommitCheckpoint(checkpoint_id=1))

    story = recording.closed().story(checkpoint=1, job=JOB)

    assert story.notes == ("1 steps are left out: the trace does not name their job",)


def test_one_message_to_several_tasks_is_in_transit_to_each(recording: Recording) -> None:
    record_checkpoint(recording, 1)
    notify = NotifyCheckpointComplete(job_id=JOB, attempt=attempt(0), checkpoint_id=1, timestamp_ms=BEGIN_MS)
    recording.turn(TASK_MANAGER, TaskCheckpointMessages(messages=(notify, notify)), sender=coordinator())

    story = recording.closed().story(checkpoint=1)

    assert story.lines(everything=True)[-1].text == "task-manager-1: is notified that it is complete"
