"""A coordinator resumes from the completed checkpoints of its predecessor, and stops when a successor takes over."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.events import CoordinatorEffect, CoordinatorEvent
from flykka.actors.machines.checkpoint.properties import for_final_checkpoint
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointingStopped,
    CheckpointLeadershipLost,
    CheckpointsNotRecovered,
    Disposed,
    MetadataRead,
    MetadataWritten,
    RequestRestoreState,
    RestoreState,
    RestoreStateFailed,
    StopCheckpointing,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    SINK,
    SOURCE,
    Coordination,
    complete_checkpoint,
    two_tasks,
)

E = TypeVar("E", bound=CoordinatorEffect)

LOST = CheckpointLeadershipLost(cause=SerializedThrowable(type_name="LeadershipLostError", message="another leads"))
UNREADABLE = SerializedThrowable(
    type_name="CheckpointFileNotFoundError", message="chk-1/_metadata: there is no such file"
)


def taken_over(
    *completed: CompletedCheckpoint, adopted: CompletedCheckpoint | None = None, **changed: Any
) -> Coordination:
    harness = Coordination(recovers=False, **changed)
    harness.ids.skip_to(max((checkpoint.checkpoint_id for checkpoint in completed), default=0) + 1)
    harness.recover(*completed, adopted=adopted)
    harness.handle(events.TasksChanged(tasks=(SOURCE, SINK)))
    return harness


def completed_by(harness: Coordination) -> tuple[CompletedCheckpoint, ...]:
    return tuple(harness.machine.completed)


def of(kind: type[E], made: list[CoordinatorEffect]) -> list[E]:
    return [effect for effect in made if isinstance(effect, kind)]


def test_a_restore_request_waits_until_the_store_has_been_read() -> None:
    before = two_tasks()
    complete_checkpoint(before, 1)
    harness = Coordination(recovers=False)

    asked = harness.handle(RequestRestoreState(job_id=JOB, version=0, path="/savepoint"))
    answered = harness.recover(*completed_by(before))

    assert asked == []
    assert answered == [RestoreState(job_id=JOB, version=0, checkpoint=completed_by(before)[0])]


def test_a_job_without_checkpoints_starts_from_the_specified_one() -> None:
    harness = Coordination(recovers=False)
    harness.handle(RequestRestoreState(job_id=JOB, version=3, path="/savepoint", allow_non_restored_state=True))

    made = harness.recover()

    assert made == [events.ReadMetadata(version=3, path="/savepoint", allow_non_restored_state=True)]


def test_older_checkpoints_are_subsumed_and_shared_state_is_reference_counted() -> None:
    before = two_tasks(retained=2)
    complete_checkpoint(before, 1, shared=["x", "y"], exclusive=["s 1"])
    complete_checkpoint(before, 2, shared=["y", "z"], exclusive=["s 2"])
    harness = taken_over(*completed_by(before), retained=2)

    complete_checkpoint(harness, 3, shared=["z"])
    complete_checkpoint(harness, 4, shared=["z"])

    assert harness.completed() == [3, 4]
    assert harness.effects(events.Dispose)[0].retained == (1,)
    assert harness.disposed() == ["chk-1", "s 1", "x", "chk-2", "s 2", "y"]


def test_a_job_that_retains_fewer_checkpoints_deletes_the_oldest() -> None:
    before = two_tasks(retained=3)
    for checkpoint_id in (1, 2, 3):
        complete_checkpoint(before, checkpoint_id)

    harness = taken_over(*completed_by(before), retained=2)

    assert harness.completed() == [2, 3]
    assert harness.disposed() == ["chk-1"]


def test_the_initial_checkpoint_of_a_job_stays_unowned_after_a_takeover() -> None:
    earlier = two_tasks()
    complete_checkpoint(earlier, 1, shared=["theirs"], exclusive=["their own"])
    [adopted] = completed_by(earlier)
    before = two_tasks()
    before.handle(MetadataRead(version=0, checkpoint=adopted))
    before.handle(events.TasksChanged(tasks=(SOURCE, SINK)))
    before.ids.skip_to(2)
    complete_checkpoint(before, 2, shared=["theirs", "ours"])
    harness = taken_over(*completed_by(before), adopted=adopted)

    complete_checkpoint(harness, 3)
    ended = harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    assert harness.disposed() == ["chk-2", "ours"]
    assert of(events.DeleteJob, ended) == [events.DeleteJob(continued=adopted.path)]


def test_a_job_taken_over_without_checkpoints_starts_from_its_initial_state() -> None:
    earlier = two_tasks()
    complete_checkpoint(earlier, 1)
    [adopted] = completed_by(earlier)
    harness = Coordination(recovers=False)
    harness.handle(RequestRestoreState(job_id=JOB, version=0, path=adopted.path))

    assert harness.recover(adopted=adopted) == [RestoreState(job_id=JOB, version=0, checkpoint=adopted)]


def test_unreadable_checkpoints_prevent_the_start_and_are_not_deleted() -> None:
    harness = Coordination(recovers=False)
    harness.handle(RequestRestoreState(job_id=JOB, version=0))

    refused = harness.handle(CheckpointsNotRecovered(cause=UNREADABLE))
    ended = harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED))

    assert refused == [RestoreStateFailed(job_id=JOB, version=0, cause=UNREADABLE)]
    assert of(CheckpointingStopped, ended) == [CheckpointingStopped(job_id=JOB, retained=())]
    assert of(events.Dispose, ended) == of(events.DeleteJob, ended) == []


def test_a_coordinator_without_leadership_completes_reports_and_deletes_nothing() -> None:
    harness = two_tasks(storage_answers=False)
    complete_checkpoint(harness, 1, shared=["x"])
    harness.written(1)
    complete_checkpoint(harness, 2, shared=["y"], exclusive=["s"])
    harness.trigger()

    made = harness.handle(LOST)
    for event in (
        MetadataWritten(checkpoint_id=2, path="chk-2"),
        Disposed(),
        AbortPendingCheckpoints(job_id=JOB, reason=events.CheckpointDeclineReason.JOB_FAILOVER_REGION),
        RequestRestoreState(job_id=JOB, version=1),
        events.TriggerRequested(properties=for_final_checkpoint()),
    ):
        made += harness.handle(event)

    assert {type(effect) for effect in made} <= {Ignore}
    assert harness.machine.pending == {}


@pytest.mark.parametrize("is_lost_first", [True, False])
def test_a_coordinator_that_loses_leadership_ends_and_deletes_nothing(is_lost_first: bool) -> None:
    harness = two_tasks(storage_answers=False)
    complete_checkpoint(harness, 1)
    harness.written(1)
    complete_checkpoint(harness, 2, exclusive=["s"])
    shutdown = StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED)
    happens: list[CoordinatorEvent] = [LOST, shutdown] if is_lost_first else [shutdown, LOST]

    made = [effect for event in happens for effect in harness.handle(event)]

    assert of(CheckpointingStopped, made) == [CheckpointingStopped(job_id=JOB, retained=("chk-1",))]
    assert harness.disposed() == []
    assert of(events.DeleteJob, made) == []
