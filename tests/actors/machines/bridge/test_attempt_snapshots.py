"""The machine of an attempt: what belongs to a checkpoint, what is written, held, committed and given up."""

from __future__ import annotations

import pytest

from flykka.actors.machines.bridge.effects import (
    AdvanceTo,
    Commit,
    DiscardSnapshot,
    NoteState,
    PrepareCommit,
    Process,
    ReleaseHeldBy,
    Work,
    WriteInFlight,
    WriteSnapshot,
)
from flykka.actors.machines.bridge.snapshots import nothing_written
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.graph.job_graph import FiringMode
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState
from flykka.messages.tasks.bridge import (
    ChainOpened,
    CommitPrepared,
    InFlightWritten,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    WorkDone,
)
from flykka.messages.tasks.stage import (
    AbortCheckpoint,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitCheckpoint,
    HoldInFlight,
    InputInFlight,
    SnapshotFailed,
    StageFailed,
    StageFinished,
    StateSnapshotted,
    WriteChannelState,
)
from flykka.messages.wire.ids import BatchId
from tests.actors.machines.bridge.attempt_machine import (
    BOOM,
    BOTH,
    SINK,
    SINKS,
    STATELESS,
    WINDOWS,
    Harness,
    batch,
    begun,
    run,
    snapshot,
    staged,
    told,
)
from tests.actors.machines.task.task_machine import ATTEMPT

# Snapshots


def test_what_fires_with_a_checkpoint_goes_down_before_the_barrier() -> None:
    attempt = Harness(WINDOWS, outputs=1, firing_mode=FiringMode.ON_CHECKPOINT)

    fires = begun(attempt.feed(snapshot(0, checkpoint_id=1)))
    notes = begun(attempt.answer(AdvanceTo, RowsMoved(rows_out=3)))
    finished = attempt.answer(NoteState)

    assert fires == [AdvanceTo(stage=0, watermark_ms=500)]
    assert notes == [NoteState(stage=0, checkpoint_id=1, watermark_ms=None, everything=False)]
    assert told(finished) == [StageFinished(stage=0, rows_out=3)]


def test_where_nothing_leaves_the_chain_what_fires_is_computed_in_the_background() -> None:
    attempt = Harness(WINDOWS, firing_mode=FiringMode.ON_CHECKPOINT)

    attempt.feed(snapshot(0, checkpoint_id=1))

    assert attempt.work == [NoteState(stage=0, checkpoint_id=1, watermark_ms=500, everything=False)]


def test_a_checkpoint_has_what_was_staged_before_its_barrier_and_nothing_behind() -> None:
    attempt = Harness(SINKS)
    attempt.feed(run(0), snapshot(1, checkpoint_id=1), run(2))
    before, behind = attempt.at_work[0], None
    attempt.feed(WorkDone(work=before.key, answer=RowsMoved(staged=staged("a"))))
    behind = next(begin for begin in attempt.at_work if begin.work == Process(command=run(2)))
    attempt.feed(WorkDone(work=behind.key, answer=RowsMoved(staged=staged("b"))))

    first = attempt.answer(PrepareCommit, CommitPrepared())
    attempt.feed(snapshot(3, checkpoint_id=2))
    attempt.answer(WriteSnapshot, SnapshotWritten())

    assert begun(first) == [WriteSnapshot(checkpoint_id=1, savepoint=None, sinks=())]
    assert attempt.work[-1] == PrepareCommit(checkpoint_id=2, staged=staged("b"))


def test_a_snapshot_is_told_when_it_is_durable() -> None:
    attempt = Harness(SINKS)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=1))
    attempt.now += 30
    attempt.answer(PrepareCommit, CommitPrepared(rows_out=7))

    durable = attempt.answer(WriteSnapshot, SnapshotWritten(incremental_bytes=5))

    (message,) = told(durable)
    assert isinstance(message, StateSnapshotted)
    assert (message.checkpoint_id, message.rows_out, message.incremental_bytes, message.async_ms) == (1, 7, 5, 30)


@pytest.mark.parametrize(("chain", "then"), [(BOTH, [DiscardSnapshot(checkpoint_id=1)]), (SINKS, [])])
def test_an_aborted_snapshot_is_prepared_and_not_written(chain: ChainOpened, then: list[Work]) -> None:
    attempt = Harness(chain)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=1))
    if chain.has_state:
        attempt.answer(NoteState)

    attempt.feed(AbortCheckpoint(checkpoint_id=1))
    prepared = attempt.answer(PrepareCommit, CommitPrepared())

    assert begun(prepared) == then


def test_a_snapshot_that_cannot_be_written_is_declined_and_the_next_one_is_taken() -> None:
    attempt = Harness(SINKS)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=1), snapshot(2, checkpoint_id=2))
    attempt.answer(PrepareCommit, CommitPrepared())

    declined = attempt.refuse(WriteSnapshot, ends_attempt=False)

    assert told(declined) == [SnapshotFailed(checkpoint_id=1, cause=BOOM)]
    assert attempt.work == [PrepareCommit(checkpoint_id=2, staged=())]


def test_of_sinks_that_were_given_nothing_a_snapshot_is_nothing_and_is_told_at_the_barrier() -> None:
    attempt = Harness(SINKS)

    finished = attempt.feed(snapshot(0, checkpoint_id=1))

    assert attempt.work == []
    (message,) = told(finished)
    assert isinstance(message, StageFinished)
    assert message.snapshot == nothing_written(1)


def test_what_was_staged_is_in_every_snapshot_until_it_is_committed() -> None:
    attempt = Harness(SINKS)
    attempt.stage_output()
    prepared = CommitPrepared(sinks=(OperatorSubtaskState(operator_id=SINK),))
    attempt.feed(snapshot(1, checkpoint_id=1))
    attempt.answer(PrepareCommit, prepared)
    attempt.answer(WriteSnapshot, SnapshotWritten())

    attempt.feed(AbortCheckpoint(checkpoint_id=1), snapshot(2, checkpoint_id=2))
    again = attempt.answer(PrepareCommit, prepared)
    attempt.answer(WriteSnapshot, SnapshotWritten())
    attempt.feed(CommitCheckpoint(checkpoint_id=1))
    attempt.answer(Commit, OutputCommitted())
    attempt.feed(snapshot(3, checkpoint_id=3))
    after_half = attempt.work
    attempt.answer(PrepareCommit, CommitPrepared())
    attempt.answer(WriteSnapshot, SnapshotWritten())
    attempt.feed(CommitCheckpoint(checkpoint_id=3))
    attempt.answer(Commit, OutputCommitted())
    attempt.feed(snapshot(4, checkpoint_id=4))

    assert begun(again) == [WriteSnapshot(checkpoint_id=2, savepoint=None, sinks=prepared.sinks)]
    assert after_half == [PrepareCommit(checkpoint_id=3, staged=())]
    assert attempt.work == []


def test_an_attempt_whose_state_is_lost_fails_of_its_snapshot() -> None:
    attempt = Harness(SINKS)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=1))
    attempt.answer(PrepareCommit, CommitPrepared())

    failed = attempt.refuse(WriteSnapshot, ends_attempt=True)

    assert told(failed) == [StageFailed(cause=BOOM)]


def test_what_could_not_be_prepared_fails_the_attempt_for_it_has_left_the_state() -> None:
    attempt = Harness(SINKS)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=1))

    failed = attempt.refuse(PrepareCommit, ends_attempt=True)

    assert told(failed) == [StageFailed(cause=BOOM)]


def test_a_commit_waits_for_the_snapshots_before_it() -> None:
    attempt = Harness(SINKS)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=2), CommitCheckpoint(checkpoint_id=1))
    waiting = attempt.work
    attempt.answer(PrepareCommit, CommitPrepared())
    attempt.answer(WriteSnapshot, SnapshotWritten())

    committed = attempt.answer(Commit, OutputCommitted(files=("a",)))

    assert waiting == [PrepareCommit(checkpoint_id=2, staged=staged("a"))]
    assert told(committed) == [CheckpointCommitted(checkpoint_id=1, files=("a",))]


# Batches in flight


def in_flight(checkpoint_id: int) -> WriteChannelState:
    inputs = (InputInFlight(gate=0, batch=batch("a")), InputInFlight(gate=0, batch=batch("b")))
    return WriteChannelState(checkpoint_id=checkpoint_id, inputs=inputs, outputs=())


def test_batches_in_flight_are_held_until_they_are_written() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(HoldInFlight(checkpoint_id=1, batch_ids=(BatchId("a"), BatchId("b"))), in_flight(1))
    held, writing = attempt.work
    folder = ExclusiveStateHandle(path="/checkpoints/part", size_bytes=8)

    written = attempt.answer(WriteInFlight, InFlightWritten(folders=(folder,)))

    (message,) = told(written)
    assert isinstance(writing, WriteInFlight)
    assert [[each.batch_id for each in part.batches] for part in writing.parts] == [["a", "b"]]
    assert written[0] == ReleaseHeldBy(holder=f"{ATTEMPT} checkpoint 1")
    assert isinstance(message, ChannelStateWritten)
    assert [part.in_flight.rows for part in message.state.input_channels] == [2]
    assert getattr(held, "holder", None) == f"{ATTEMPT} checkpoint 1"


def test_a_batch_that_is_gone_before_it_is_held_declines_its_checkpoint() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(HoldInFlight(checkpoint_id=1, batch_ids=(BatchId("a"),)))

    declined = attempt.refuse(type(attempt.work[0]), ends_attempt=False)

    reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
    assert told(declined) == [SnapshotFailed(checkpoint_id=1, cause=BOOM, reason=reason)]


@pytest.mark.parametrize("how", ["aborted", "failed"])
def test_what_is_held_is_let_go_of_when_the_checkpoint_is_given_up(how: str) -> None:
    attempt = Harness(STATELESS)
    attempt.feed(in_flight(1))

    if how == "aborted":
        effects = attempt.feed(AbortCheckpoint(checkpoint_id=1))
    else:
        effects = attempt.refuse(WriteInFlight, ends_attempt=False)

    assert ReleaseHeldBy(holder=f"{ATTEMPT} checkpoint 1") in effects
