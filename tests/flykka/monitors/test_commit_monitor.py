"""A sink publishes a checkpoint once per attempt: after it has completed, and never if it was aborted."""

from __future__ import annotations

from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.checkpointing.checkpoint import NotifyCheckpointAborted
from flykka.messages.wire.message import Message
from flykka.monitors.commits import CommitMonitor
from flykka.runtime.trace.records import Turn
from tests.flykka.monitors.turns import BRIDGE, JOB, TASK, attempt, notify_complete, turn, violations_of


def notify_aborted(checkpoint_id: int) -> Message:
    return NotifyCheckpointAborted(
        job_id=JOB, attempt=attempt(), checkpoint_id=checkpoint_id, latest_completed_id=None, timestamp_ms=0
    )


def commit(checkpoint_id: int, because: Message | None = None) -> Turn:
    because = because or notify_complete(checkpoint_id)
    return turn(TASK, because, (BRIDGE, CommitCheckpoint(checkpoint_id=checkpoint_id)))


def test_completed_checkpoints_may_be_published() -> None:
    assert violations_of(CommitMonitor(), commit(1), turn(TASK, notify_aborted(2)), commit(3)) == []


def test_a_commit_may_wait_for_other_work() -> None:
    snapshotted = SnapshotWritten(checkpoint_id=2)

    assert violations_of(CommitMonitor(), turn(TASK, notify_complete(1)), commit(1, snapshotted)) == []


def test_output_must_not_be_published_before_completion() -> None:
    snapshotted = SnapshotWritten(checkpoint_id=1)
    violations = violations_of(CommitMonitor(), commit(1, snapshotted), commit(3, notify_complete(2)))

    assert violations == [
        "checkpoint 1 is published before it was reported as complete",
        "checkpoint 3 is published before it was reported as complete",
    ]


def test_an_attempt_must_publish_each_checkpoint_once_and_in_order() -> None:
    violations = violations_of(CommitMonitor(), commit(2), commit(2), commit(1))

    assert violations == [
        "checkpoint 2 is published again by the same attempt",
        "checkpoint 1 is published after checkpoint 2",
    ]


def test_output_of_an_aborted_checkpoint_must_not_be_published() -> None:
    assert violations_of(CommitMonitor(), turn(TASK, notify_aborted(1)), commit(1)) == [
        "checkpoint 1 is published although it was aborted"
    ]
