"""Subsumed checkpoints are deleted a few at a time. No new checkpoint starts while too many deletions are pending."""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.completed_store import CheckpointsCleaner
from flykka.actors.machines.checkpoint.events import Dispose
from flykka.messages.control.checkpoint_coordination import CheckpointingStopped, Disposed, StopCheckpointing
from flykka.messages.control.job import JobStatus
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, complete_checkpoint, shared, two_tasks


def dispose_checkpoint(number: int) -> Dispose:
    return Dispose(retained=(number,), checkpoints=(f"chk-{number}",))


def dispose_state(name: str) -> Dispose:
    return Dispose(state=(shared(name),))


def slow(**changed: int) -> Coordination:
    """Return a coordinator whose checkpoints are written at once, and deleted when the test says so."""
    return two_tasks(storage_answers=False, **changed)


def completes(harness: Coordination, checkpoint_id: int) -> None:
    complete_checkpoint(harness, checkpoint_id, exclusive=[f"state {checkpoint_id}"])
    harness.written(checkpoint_id)


def deleting(harness: Coordination) -> list[tuple[int, ...]]:
    return [disposal.retained for disposal in harness.effects(events.Dispose)]


def test_the_number_of_concurrent_deletions_is_limited_and_the_oldest_goes_first() -> None:
    cleaner = CheckpointsCleaner(2)

    begun = [each for number in (1, 2, 3, 4) for each in cleaner.add(dispose_checkpoint(number))]
    next_one = list(cleaner.ended())

    assert begun == [dispose_checkpoint(1), dispose_checkpoint(2)]
    assert next_one == [dispose_checkpoint(3)]
    assert len(cleaner) == 3


def test_state_of_many_late_tasks_is_deleted_at_once_before_waiting_checkpoints() -> None:
    cleaner = CheckpointsCleaner(1)
    for disposal in (
        dispose_checkpoint(1),
        dispose_state("a"),
        dispose_state("b"),
        dispose_checkpoint(2),
        dispose_state("c"),
    ):
        list(cleaner.add(disposal))

    begun = [each for _ in range(3) for each in cleaner.ended()]

    assert begun == [Dispose(state=(shared("a"), shared("b"))), dispose_checkpoint(2), dispose_state("c")]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one deletion"):
        CheckpointsCleaner(0)


def test_subsumed_checkpoints_wait_for_their_deletion_while_others_complete() -> None:
    harness = slow(max_concurrent_deletions=1)

    for checkpoint_id in (1, 2, 3, 4):
        completes(harness, checkpoint_id)
    begun = deleting(harness)
    harness.handle(Disposed())

    assert begun == [(1,)]
    assert deleting(harness) == [(1,), (2,)]
    assert harness.completed() == [4]


def test_no_checkpoint_starts_while_too_many_deletions_are_pending() -> None:
    harness = slow(max_concurrent=1, max_concurrent_deletions=1)
    for checkpoint_id in (1, 2, 3):
        completes(harness, checkpoint_id)

    harness.trigger()
    held = list(harness.machine.pending)
    harness.handle(Disposed())

    assert held == []
    assert list(harness.machine.pending) == [4]


def test_an_ending_job_waits_for_all_deletions_before_deleting_its_folder() -> None:
    harness = slow(max_concurrent_deletions=1)
    for checkpoint_id in (1, 2, 3):
        completes(harness, checkpoint_id)

    harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))
    harness.handle(Disposed())
    early = harness.effects(events.DeleteJob)
    harness.handle(Disposed())
    [last] = harness.effects(events.DeleteJob)
    harness.handle(Disposed())

    assert early == []
    assert last == events.DeleteJob()
    assert len(harness.effects(CheckpointingStopped)) == 1
