"""The snapshots of one attempt."""

import pytest

from flykka.actors.machines.task.snapshots import Alignment, Begin, Snapshots
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointMetrics
from flykka.messages.state.handles import (
    InFlightRows,
    InputChannelStateHandle,
    OperatorListState,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from flykka.messages.tasks.stage import ChannelStateWritten, StateSnapshotted
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, OperatorId

READER = OperatorSubtaskState(operator_id=OperatorId("source"), operator_state=(OperatorListState(name="splits"),))
CHANNELS = OperatorSubtaskState(
    operator_id=OperatorId("head"),
    input_channels=(InputChannelStateHandle(gate=0, in_flight=InFlightRows(path="/p", rows=3, size_bytes=30)),),
)
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


def written(checkpoint_id: int) -> ChannelStateWritten:
    return ChannelStateWritten(checkpoint_id=checkpoint_id, state=CHANNELS, size_bytes=30)


def test_a_durable_snapshot_is_acknowledged_with_the_readers_state_first() -> None:
    taken = snapshots()

    begun = taken.begin_snapshot(1, Alignment(duration_ms=7, processed_bytes=8), READER, start_delay_ms=9)

    assert begun is Begin.TAKEN
    assert taken.durable(durable(1)) == [
        AcknowledgeCheckpoint(
            job_id=JobId("job"),
            attempt=ExecutionAttemptId("attempt"),
            checkpoint_id=1,
            state=TaskStateSnapshot(operators=(READER, SINK)),
            metrics=CheckpointMetrics(
                alignment_ms=7,
                sync_ms=2,
                async_ms=3,
                size_bytes=10,
                incremental_bytes=4,
                bytes_processed_during_alignment=8,
                start_delay_ms=9,
            ),
        )
    ]


@pytest.mark.parametrize("parts", [[durable(1), written(1)], [written(1), durable(1)]])
def test_an_unaligned_snapshot_is_acknowledged_with_both_its_parts(
    parts: list[StateSnapshotted | ChannelStateWritten],
) -> None:
    taken = snapshots()
    taken.begin_snapshot(1, Alignment(), None, is_unaligned=True)

    early = taken.durable(parts[0])
    taken.aligned(1, Alignment(duration_ms=9, processed_bytes=5))
    [acknowledged] = taken.durable(parts[1])

    assert early == []
    assert acknowledged.state == TaskStateSnapshot(operators=(SINK, CHANNELS))
    assert acknowledged.metrics == CheckpointMetrics(
        alignment_ms=9,
        sync_ms=2,
        async_ms=3,
        size_bytes=40,
        incremental_bytes=34,
        bytes_processed_during_alignment=5,
        bytes_persisted_during_alignment=30,
        is_unaligned=True,
    )


def test_a_checkpoint_aborted_before_its_barrier_is_skipped() -> None:
    taken = snapshots()

    taken.abort(2)

    assert not taken.has_begun(2)
    assert taken.begin_snapshot(2, Alignment(), None) is Begin.SKIPPED


def test_state_that_is_durable_too_late_is_told_all_the_same_to_who_deletes_it() -> None:
    taken = snapshots()
    taken.begin_snapshot(1, Alignment(), READER)

    assert taken.abort(1) == []
    assert taken.has_begun(1)
    assert [late.state for late in taken.durable(durable(1))] == [TaskStateSnapshot(operators=(SINK,))]


def test_the_part_of_an_aborted_snapshot_that_is_durable_is_told_to_who_deletes_it() -> None:
    taken = snapshots()
    taken.begin_snapshot(1, Alignment(), None, is_unaligned=True)
    taken.durable(durable(1))

    late = taken.abort(1) + taken.durable(written(1))

    assert [part.state for part in late] == [
        TaskStateSnapshot(operators=(SINK,)),
        TaskStateSnapshot(operators=(CHANNELS,)),
    ]


def test_a_barrier_that_is_not_newer_is_stale() -> None:
    taken = snapshots()
    taken.begin_snapshot(3, Alignment(), None)

    assert taken.begin_snapshot(3, Alignment(), None) is Begin.STALE
    assert taken.begin_snapshot(2, Alignment(), None) is Begin.STALE


def test_a_failed_snapshot_is_given_up_once() -> None:
    taken = snapshots()
    taken.begin_snapshot(1, Alignment(), None)

    assert taken.give_up(1) == []
    assert taken.give_up(1) is None
