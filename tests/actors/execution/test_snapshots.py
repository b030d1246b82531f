"""The snapshots of one attempt."""

from flykka.actors.execution.snapshots import Begin, Snapshots
from flykka.messages.checkpoint import AcknowledgeCheckpoint, CheckpointMetrics
from flykka.messages.ids import ExecutionAttemptId, JobId, OperatorId
from flykka.messages.stage import StateSnapshotted
from flykka.messages.state import OperatorListState, OperatorSubtaskState, TaskStateSnapshot

READER = OperatorSubtaskState(operator_id=OperatorId("source"), operator_state=(OperatorListState(name="splits"),))
SINK = OperatorSubtaskState(operator_id=OperatorId("sink"), operator_state=(OperatorListState(name="pending"),))


def snapshots() -> Snapshots:
    return Snapshots(JobId("job"), ExecutionAttemptId("attempt"))


def durable(checkpoint_id: int) -> StateSnapshotted:
    return StateSnapshotted(
        checkpoint_id=checkpoint_id,
        state=TaskStateSnapshot(operators=(SINK,)),
        size_bytes=10,
        incremental_bytes=4,
        sync_ms=2,
        async_ms=3,
    )


def test_a_durable_snapshot_is_acknowledged_with_the_readers_state_first() -> None:
    taken = snapshots()

    begun = taken.begin(1, 7, READER)

    assert begun is Begin.TAKEN
    assert taken.durable(durable(1)) == AcknowledgeCheckpoint(
        job_id=JobId("job"),
        attempt=ExecutionAttemptId("attempt"),
        checkpoint_id=1,
        state=TaskStateSnapshot(operators=(READER, SINK)),
        metrics=CheckpointMetrics(alignment_ms=7, sync_ms=2, async_ms=3, size_bytes=10, incremental_bytes=4),
    )


def test_a_checkpoint_aborted_before_its_barrier_is_skipped() -> None:
    taken = snapshots()

    passed = taken.abort(2)

    assert not passed
    assert taken.begin(2, 0, None) is Begin.SKIPPED


def test_state_that_is_durable_too_late_is_told_all_the_same_to_who_deletes_it() -> None:
    taken = snapshots()
    taken.begin(1, 5, READER)

    passed = taken.abort(1)

    assert passed
    assert taken.durable(durable(1)).state == TaskStateSnapshot(operators=(SINK,))


def test_a_barrier_that_is_not_newer_is_stale() -> None:
    taken = snapshots()
    taken.begin(3, 0, None)

    assert taken.begin(3, 0, None) is Begin.STALE
    assert taken.begin(2, 0, None) is Begin.STALE


def test_a_failed_snapshot_is_given_up_once() -> None:
    taken = snapshots()
    taken.begin(1, 0, None)

    assert taken.give_up(1)
    assert not taken.give_up(1)
