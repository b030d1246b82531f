"""Snapshots of an attempt are prepared, written, declined, discarded and committed in the background, in order."""

from __future__ import annotations

import pytest

from flykka.actors.machines.attempt.events import StartTask
from flykka.messages.attempt.answers import (
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
)
from flykka.messages.attempt.commands import (
    CancelWork,
    CloseChain,
    Command,
    CommitCheckpoint,
    DiscardSnapshot,
    HoldBatches,
    PrepareCommit,
    ReleaseBatches,
    SnapshotState,
    WriteChannelState,
    WriteSnapshot,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    AlignmentType,
    CheckpointDeclineReason,
    CheckpointOptions,
    DeclineCheckpoint,
    SnapshotType,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import FiringMode, OperatorKind
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState
from flykka.messages.tasks.exchange import CheckpointBarrier, PartitionRequest, Watermark
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.message import Message
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    BOOM,
    BOTH,
    CONSUMER,
    JOB,
    OUT,
    SINK,
    SINKS,
    STATELESS,
    Harness,
    aborted,
    barrier,
    batch,
    complete,
    descriptor,
    down,
    durable,
    finished,
    source,
    splits,
    staged,
    to_bridge,
    to_job_master,
    trigger,
    window,
)

PREPARED = CommitPrepared(checkpoint_id=1)
HOLDER = f"{ATTEMPT} checkpoint 1"


def sink(chain: ChainOpened = SINKS) -> Harness:
    task = source(chain)
    task.feed(splits("a"), StageResult(stage=0, staged=staged("a")))
    task.at_work.clear()
    return task


def declined(reason: CheckpointDeclineReason) -> Message:
    return DeclineCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, reason=reason, cause=BOOM)


def test_windows_that_fire_on_checkpoints_get_the_input_watermark() -> None:
    deferred, immediate = window(FiringMode.ON_CHECKPOINT), window(FiringMode.ON_WATERMARK)

    commands = to_bridge(deferred.arrive(0, Watermark(timestamp_ms=500), barrier(1)))
    immediate.arrive(0, Watermark(timestamp_ms=500), barrier(1))
    others = to_bridge(immediate.feed(finished(0)))

    options = CheckpointOptions()
    assert commands == [SnapshotState(stage=0, checkpoint_id=1, options=options, watermark_ms=500)]
    assert others == [SnapshotState(stage=1, checkpoint_id=1, options=options, watermark_ms=None)]


def test_windows_fired_by_a_checkpoint_are_sent_before_the_barrier() -> None:
    task = window(FiringMode.ON_CHECKPOINT, outputs=1)
    task.feed(PartitionRequest(partition_id=OUT, subpartition=0, credit=2, consumer=CONSUMER))
    task.arrive(0, Watermark(timestamp_ms=500), barrier(1))

    assert down(task.feed(finished(0, "fired"))) == [batch("fired"), Watermark(timestamp_ms=500), barrier(1)]


def test_a_checkpoint_contains_exactly_the_output_staged_before_its_barrier() -> None:
    task = source(SINKS)
    task.feed(splits("a"), trigger(1), splits("b"))
    task.feed(StageResult(stage=0, staged=staged("a")), finished(1), StageResult(stage=2, staged=staged("b")))

    first = task.feed(PREPARED)
    task.feed(trigger(2), finished(3))
    second = task.feed(SnapshotWritten(checkpoint_id=1))

    assert to_bridge(first) == [WriteSnapshot(checkpoint_id=1, savepoint=None, sinks=())]
    assert to_bridge(second) == [PrepareCommit(checkpoint_id=2, staged=staged("b"))]


def test_the_state_of_a_savepoint_is_written_to_its_folder() -> None:
    task = sink()
    options = CheckpointOptions(snapshot_type=SnapshotType.SAVEPOINT, target_location="/savepoint")
    task.feed(TriggerCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, timestamp_ms=7, options=options))

    written = to_bridge(task.feed(finished(1), PREPARED))

    assert written[-1] == WriteSnapshot(checkpoint_id=1, savepoint="/savepoint", sinks=())


def test_a_durable_snapshot_is_acknowledged_with_its_duration() -> None:
    task = sink()
    task.feed(trigger(1), finished(1))
    task.now += 30
    prepared = to_job_master(task.feed(PREPARED))

    (acknowledged,) = to_job_master(task.feed(SnapshotWritten(checkpoint_id=1, incremental_bytes=5)))

    assert prepared == []
    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert (acknowledged.metrics.incremental_bytes, acknowledged.metrics.async_ms) == (5, 30)


@pytest.mark.parametrize(("chain", "then"), [(BOTH, [DiscardSnapshot(checkpoint_id=1)]), (SINKS, [])])
def test_an_aborted_snapshot_is_prepared_but_not_written(chain: ChainOpened, then: list[Command]) -> None:
    task = sink(chain)
    task.feed(trigger(1), finished(1))

    task.feed(aborted(1))

    assert to_bridge(task.feed(PREPARED)) == then


def test_a_snapshot_waits_until_the_state_of_an_aborted_one_is_discarded() -> None:
    task = sink(BOTH)
    task.feed(trigger(1), finished(1), aborted(1), PREPARED, trigger(2), finished(2))

    assert to_bridge(task.done(DiscardSnapshot)) == [PrepareCommit(checkpoint_id=2, staged=())]


def test_an_unwritable_snapshot_is_declined_and_the_next_one_is_taken() -> None:
    task = sink()
    task.feed(trigger(1), finished(1), PREPARED, trigger(2), finished(2))

    effects = task.refuse(WriteSnapshot, ends_attempt=False)

    assert to_job_master(effects) == [declined(CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION)]
    assert to_bridge(effects) == [PrepareCommit(checkpoint_id=2, staged=())]
    assert task.machine.state.is_running


def test_a_failure_of_an_aborted_checkpoint_is_not_declined() -> None:
    task = sink()
    task.feed(trigger(1), finished(1), PREPARED, aborted(1))

    assert to_job_master(task.refuse(WriteSnapshot, ends_attempt=False)) == []


def test_a_snapshot_of_sinks_without_input_is_acknowledged_with_its_barrier() -> None:
    task = source(SINKS)
    task.feed(trigger(1))

    effects = task.feed(finished(0))

    assert to_bridge(effects) == []
    assert [type(message) for message in to_job_master(effects)] == [AcknowledgeCheckpoint]


def test_staged_output_is_in_every_snapshot_until_it_is_committed() -> None:
    task = sink()
    sinks = (OperatorSubtaskState(operator_id=SINK),)
    task.feed(trigger(1), finished(1), CommitPrepared(checkpoint_id=1, sinks=sinks), aborted(1))
    task.feed(SnapshotWritten(checkpoint_id=1))

    task.feed(trigger(2), finished(2))
    again = to_bridge(task.feed(CommitPrepared(checkpoint_id=2, sinks=sinks)))
    task.feed(SnapshotWritten(checkpoint_id=2))
    before = to_bridge(task.feed(trigger(3), finished(3)))
    task.feed(durable(3), complete(3), CheckpointCommitted(checkpoint_id=3))
    after = to_bridge(task.feed(trigger(4), finished(4)))

    assert again == [WriteSnapshot(checkpoint_id=2, savepoint=None, sinks=sinks)]
    assert before[-1] == PrepareCommit(checkpoint_id=3, staged=())
    assert [type(command) for command in after] == [SnapshotState]


@pytest.mark.parametrize("kind", [PrepareCommit, WriteSnapshot])
def test_an_attempt_whose_state_is_lost_fails(kind: type[Command]) -> None:
    task = sink()
    task.feed(trigger(1), finished(1), *([PREPARED] if kind is WriteSnapshot else []))

    failed = task.refuse(kind, ends_attempt=True)

    assert to_bridge(failed) == [CancelWork(), CloseChain(cancel=True)]


def test_a_commit_waits_for_earlier_snapshots() -> None:
    task = sink()
    task.feed(trigger(1), finished(1), durable(1), splits("b"), StageResult(stage=2, staged=staged("b")))
    task.feed(trigger(2), finished(3))

    waiting = to_bridge(task.feed(complete(1)))
    committing = to_bridge(task.feed(durable(2)))

    assert waiting == []
    assert committing[-1] == CommitCheckpoint(checkpoint_id=1)


# Batches in flight


def overtaken(chain: ChainOpened = STATELESS) -> Harness:
    """Return a task with a barrier that has overtaken two batches."""
    task = Harness(descriptor(OperatorKind.STATELESS, channels=2))
    task.feed(StartTask(), chain)
    task.arrive(0, batch("x"), batch("y"), batch("a"), batch("b"))
    unaligned = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
    for channel in range(2):
        task.arrive(channel, CheckpointBarrier(checkpoint_id=1, timestamp_ms=1000, options=unaligned))
    return task


def test_batches_in_flight_are_held_until_they_are_written() -> None:
    task = overtaken()
    (held,) = [command for command in task.at_work if isinstance(command, HoldBatches)]
    task.feed(finished(0), finished(1), finished(2))
    writing = task.take(WriteChannelState)

    written = task.feed(
        ChannelStateWritten(checkpoint_id=1, folders=(ExclusiveStateHandle(path="/checkpoints/part", size_bytes=8),))
    )

    assert (held.batch_ids, held.holder) == ((BatchId("a"), BatchId("b")), HOLDER)
    assert [[each.batch_id for each in part.batches] for part in writing.parts] == [["a", "b"]]
    assert to_bridge(written) == [ReleaseBatches(holder=HOLDER)]
    (acknowledged,) = to_job_master(written)
    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert acknowledged.state is not None
    assert [part.in_flight.rows for each in acknowledged.state.operators for part in each.input_channels] == [2]


def test_a_batch_freed_before_it_could_be_held_declines_its_checkpoint() -> None:
    task = overtaken()

    effects = task.refuse(HoldBatches, ends_attempt=False)

    assert to_job_master(effects) == [declined(CheckpointDeclineReason.CHECKPOINT_DECLINED)]
    assert to_bridge(effects) == [ReleaseBatches(holder=HOLDER)]


@pytest.mark.parametrize("how", ["aborted", "failed"])
def test_blocked_data_is_released_when_the_checkpoint_is_aborted(how: str) -> None:
    task = overtaken()
    task.feed(finished(0), finished(1), finished(2))

    effects = task.feed(aborted(1)) if how == "aborted" else task.refuse(WriteChannelState, ends_attempt=False)

    assert ReleaseBatches(holder=HOLDER) in to_bridge(effects)
    assert ReleaseBatches(holder=HOLDER) not in to_bridge(task.feed(aborted(1)))


def test_channel_state_is_written_after_the_previous_snapshot() -> None:
    task = overtaken(BOTH)
    began = to_bridge(task.feed(finished(0), finished(1), finished(2)))

    written = to_bridge(task.feed(durable(1)))

    assert any(isinstance(command, PrepareCommit) for command in began)
    assert not any(isinstance(command, WriteChannelState) for command in began)
    assert isinstance(written[-1], WriteChannelState)
