"""The task's records of its checkpoints: phases, acknowledgements, and output that is not committed yet."""

from __future__ import annotations

import pytest

from flykka.actors.machines.attempt.checkpoints import (
    CHECKPOINT_MOVES,
    Checkpoint,
    CheckpointBook,
    CheckpointPhase,
    OvertakenBatches,
    SnapshotDecision,
    checkpoint_may_move,
)
from flykka.messages.attempt.answers import CommitPrepared, SnapshotWritten
from flykka.messages.attempt.commands import StagedOutput
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointMetrics
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    OperatorListState,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, OperatorId

READER = OperatorSubtaskState(operator_id=OperatorId("source"), operator_state=(OperatorListState(name="splits"),))
CHANNELS = OperatorSubtaskState(
    operator_id=OperatorId("head"),
    input_channels=(InputChannelStateHandle(gate=0, in_flight=InFlightRows(path="/p", rows=3, size_bytes=30)),),
)
SINK = OperatorSubtaskState(
    operator_id=OperatorId("sink"), exclusive=(ExclusiveStateHandle(path="/pending", size_bytes=10),)
)
P = CheckpointPhase


def book() -> CheckpointBook:
    return CheckpointBook(JobId("job"), ExecutionAttemptId("attempt"))


def begin_checkpoint(
    kept: CheckpointBook, checkpoint_id: int, *, is_unaligned: bool = False, **fields: object
) -> Checkpoint:
    checkpoint = Checkpoint(checkpoint_id=checkpoint_id, is_unaligned=is_unaligned)
    checkpoint.overtaken = OvertakenBatches() if is_unaligned else None
    for name, value in fields.items():
        setattr(checkpoint, name, value)
    assert kept.begin(checkpoint) is SnapshotDecision.TAKEN
    return checkpoint


def write(kept: CheckpointBook, checkpoint: Checkpoint) -> list[AcknowledgeCheckpoint]:
    checkpoint.written = SnapshotWritten(checkpoint_id=checkpoint.checkpoint_id, operators=(SINK,), incremental_bytes=4)
    checkpoint.awaits_commit, checkpoint.sync_ms, checkpoint.async_ms = True, 2, 3
    checkpoint.move(P.WRITTEN)
    return kept.acknowledge(checkpoint)


def prepare(kept: CheckpointBook, checkpoint: Checkpoint, rows_staged: int = 0) -> None:
    kept.on_barrier_sent(checkpoint)
    kept.on_prepared(checkpoint, CommitPrepared(checkpoint_id=checkpoint.checkpoint_id, rows_staged=rows_staged))


def write_channels(kept: CheckpointBook, checkpoint: Checkpoint) -> list[AcknowledgeCheckpoint]:
    assert checkpoint.overtaken is not None
    checkpoint.overtaken.written, checkpoint.overtaken.size_bytes = CHANNELS, 30
    return kept.acknowledge(checkpoint)


def staged(rows: int, *names: str) -> tuple[StagedOutput, ...]:
    return (StagedOutput(operator_id=OperatorId("sink"), names=names, rows=rows),)


def test_every_phase_has_transitions_and_ended_phases_are_final() -> None:
    assert set(CHECKPOINT_MOVES) == set(P)
    assert not CHECKPOINT_MOVES[P.COMMITTED] + CHECKPOINT_MOVES[P.ABORTED]
    assert checkpoint_may_move(P.NOTED, P.WRITTEN)
    assert not checkpoint_may_move(P.BARRIER, P.PREPARED)


def test_a_transition_missing_from_the_table_is_refused() -> None:
    checkpoint = begin_checkpoint(book(), 1)

    with pytest.raises(AssertionError, match="checkpoint 1: BARRIER -> WRITTEN"):
        checkpoint.move(P.WRITTEN)


def test_a_durable_snapshot_is_acknowledged_with_the_readers_state_first() -> None:
    kept = book()
    checkpoint = begin_checkpoint(kept, 1, alignment_ms=7, processed_bytes=8, states=(READER,), start_delay_ms=9)
    prepare(kept, checkpoint)

    assert write(kept, checkpoint) == [
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


@pytest.mark.parametrize("parts", [[write, write_channels], [write_channels, write]])
def test_an_unaligned_snapshot_is_acknowledged_with_both_its_parts(parts: list[object]) -> None:
    kept = book()
    checkpoint = begin_checkpoint(kept, 1, is_unaligned=True)
    prepare(kept, checkpoint)
    first, second = parts

    early = first(kept, checkpoint)  # type: ignore[operator]
    checkpoint.on_aligned(now=9, processed_bytes=5)
    [acknowledged] = second(kept, checkpoint)  # type: ignore[operator]

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
    kept = book()

    kept.abort(2)

    assert kept.begin(Checkpoint(checkpoint_id=2)) is SnapshotDecision.SKIPPED


def test_state_that_becomes_durable_after_an_abort_is_acknowledged_for_its_deletion() -> None:
    kept = book()
    checkpoint = begin_checkpoint(kept, 1, states=(READER,))
    prepare(kept, checkpoint)

    assert kept.abort(1) == []
    assert [late.state for late in write(kept, checkpoint)] == [TaskStateSnapshot(operators=(SINK,))]


def test_the_durable_part_of_an_aborted_snapshot_is_acknowledged_for_its_deletion() -> None:
    kept = book()
    checkpoint = begin_checkpoint(kept, 1, is_unaligned=True)
    prepare(kept, checkpoint)
    write(kept, checkpoint)

    late = kept.abort(1) + write_channels(kept, checkpoint)

    assert [part.state for part in late] == [
        TaskStateSnapshot(operators=(SINK,)),
        TaskStateSnapshot(operators=(CHANNELS,)),
    ]


def test_a_barrier_of_an_older_checkpoint_is_stale() -> None:
    kept = book()
    begin_checkpoint(kept, 3)

    assert kept.begin(Checkpoint(checkpoint_id=3)) is SnapshotDecision.STALE
    assert kept.begin(Checkpoint(checkpoint_id=2)) is SnapshotDecision.STALE


def test_a_checkpoint_is_pending_until_it_is_acknowledged_or_aborted() -> None:
    kept = book()
    first, _ = begin_checkpoint(kept, 1), begin_checkpoint(kept, 2)
    both = kept.under_way
    prepare(kept, first)
    write(kept, first)

    kept.abort(2)

    assert (both, kept.under_way, kept.get(2)) == ((1, 2), (), None)


# Output


def test_a_commit_publishes_the_output_staged_before_its_barrier() -> None:
    kept = book()
    kept.stage(staged(30, "a"))
    checkpoint = begin_checkpoint(kept, 1)
    prepare(kept, checkpoint)
    kept.stage(staged(12, "b"))
    write(kept, checkpoint)

    assert kept.commit(1) == 30
    assert kept.has_output


def test_the_output_of_an_aborted_checkpoint_is_published_with_the_next() -> None:
    kept = book()
    for checkpoint_id, rows in ((1, 30), (2, 12)):
        kept.stage(staged(rows, "a"))
        checkpoint = begin_checkpoint(kept, checkpoint_id)
        prepare(kept, checkpoint)
        if checkpoint_id == 1:
            kept.abort(1)
        else:
            write(kept, checkpoint)

    assert kept.commit(2) == 42
    assert not kept.has_output


def test_rows_fired_by_a_barrier_belong_to_its_checkpoint() -> None:
    kept = book()
    kept.stage(staged(1, "a"))
    checkpoint = begin_checkpoint(kept, 1)
    kept.on_barrier_sent(checkpoint)
    kept.stage(staged(20, "b"))
    kept.on_prepared(checkpoint, CommitPrepared(checkpoint_id=1, rows_staged=300))
    write(kept, checkpoint)

    assert kept.commit(1) == 301


def test_immediately_visible_rows_do_not_wait_for_a_commit() -> None:
    kept = book()
    kept.stage(staged(7))
    checkpoint = begin_checkpoint(kept, 1)
    prepare(kept, checkpoint)
    write(kept, checkpoint)

    assert kept.commit(1) == 0


def test_a_second_commit_publishes_nothing() -> None:
    kept = book()
    kept.stage(staged(30, "a"))
    checkpoint = begin_checkpoint(kept, 1)
    prepare(kept, checkpoint)
    write(kept, checkpoint)

    assert (kept.take_completed(1), kept.take_completed(1)) == (True, False)
    assert (kept.commit(1), kept.commit(1)) == (30, 0)


def test_records_of_ended_checkpoints_are_removed() -> None:
    kept = book()
    for checkpoint_id in range(1, 6):
        checkpoint = begin_checkpoint(kept, checkpoint_id)
        prepare(kept, checkpoint)
        kept.abort(checkpoint_id)
        kept.abort(checkpoint_id + 100)
    last = begin_checkpoint(kept, 110)
    prepare(kept, last)
    write(kept, last)

    kept.commit(110)

    assert list(kept) == []
