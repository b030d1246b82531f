"""Decisions of a running Task: events in, effects out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.attempt.events import EndAttempt, StartTask
from flykka.actors.machines.attempt.source import SPLITS_AHEAD
from flykka.actors.machines.effects import Tell
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    CheckpointCommitted,
    CommitPrepared,
    EngineFailed,
    SnapshotWritten,
    StageResult,
)
from flykka.messages.attempt.commands import (
    AdvanceWatermark,
    CancelWork,
    CloseChain,
    CommitCheckpoint,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StageOutput,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointOptions,
    DeclineCheckpoint,
)
from flykka.messages.graph.job_graph import FiringMode, OperatorKind
from flykka.messages.state.handles import (
    InFlightRows,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.tasks.exchange import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    AddCredit,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    PartitionRequest,
    Watermark,
)
from flykka.messages.tasks.source import NoMoreSplits, RequestSplits
from flykka.messages.tasks.task import ExecutionState, NotifyEndOfData, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    CONSUMER,
    JOB,
    OUT,
    SINKS,
    SOURCE,
    STATELESS,
    UPSTREAM,
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
    split,
    splits,
    staged,
    to_bridge,
    to_job_master,
    trigger,
    window,
)


def test_a_running_source_requests_splits_ahead() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE))

    effects = task.feed(StartTask(), ChainOpened())

    assert RequestSplits(attempt=ATTEMPT, operator_id=SOURCE, count=SPLITS_AHEAD) in to_job_master(effects)


def test_at_most_two_stages_are_in_flight() -> None:
    task = source()

    started = to_bridge(task.feed(splits("a", "b", "c")))
    next_started = to_bridge(task.feed(finished(0)))

    assert started == [ReadSplits(stage=0, splits=(split("a"),)), ReadSplits(stage=1, splits=(split("b"),))]
    assert next_started == [ReadSplits(stage=2, splits=(split("c"),))]


def test_a_source_sends_a_watermark_after_its_rows() -> None:
    task = source()
    task.feed(splits("a"))

    effects = task.feed(finished(0, "rows", event_time_max=1_000))

    assert down(effects) == [batch("rows"), Watermark(timestamp_ms=899)]


def test_a_barrier_is_sent_after_the_batches_in_progress() -> None:
    task = source()
    task.feed(splits("a"))

    triggered = task.feed(trigger(1))
    rows = task.feed(finished(0, "rows"))
    snapshot = task.feed(finished(1))

    assert to_bridge(triggered) == []
    assert [type(message) for message in to_bridge(rows)] == [SnapshotState]
    assert (down(triggered), down(rows), down(snapshot)) == ([], [batch("rows")], [barrier(1)])


def test_the_readers_state_contains_the_splits_unread_at_the_barrier() -> None:
    task = source()
    task.feed(splits("a", "b", "c"))

    task.feed(trigger(1))
    effects = task.feed(finished(0), finished(1), finished(2), durable(1))

    (acknowledged,) = [message for message in to_job_master(effects) if isinstance(message, AcknowledgeCheckpoint)]
    restored = Harness(replace(descriptor(OperatorKind.SOURCE), restore=acknowledged.state, restored_checkpoint_id=1))
    assert to_bridge(restored.feed(StartTask(), ChainOpened()))[1:] == [ReadSplits(stage=0, splits=(split("c"),))]


def test_a_trigger_before_running_is_declined() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE))
    task.feed(StartTask())

    effects = task.feed(trigger(1))

    reason = CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY
    assert to_job_master(effects) == [DeclineCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, reason=reason)]


def test_an_exhausted_source_ends_event_time_and_data_and_reports_its_end() -> None:
    task = source()

    effects = task.feed(splits("a"), NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE), finished(0, "rows"))

    assert down(effects) == [batch("rows"), Watermark(timestamp_ms=WATERMARK_MAX), EndOfData()]
    assert NotifyEndOfData(attempt=ATTEMPT) in to_job_master(effects)


def test_a_task_finishes_when_the_final_checkpoint_is_committed() -> None:
    task = source()
    task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE), trigger(1, is_final=True), finished(0), durable(1))

    notified = task.feed(complete(1))
    committed = task.feed(CheckpointCommitted(checkpoint_id=1))
    closed = task.feed(ChainClosed())

    assert to_bridge(notified) == [CommitCheckpoint(checkpoint_id=1)]
    assert down(committed) == [EndOfPartition()]
    assert to_bridge(committed) == [CloseChain(cancel=False)]
    (update,) = to_job_master(closed)
    assert isinstance(update, UpdateTaskExecutionState)
    assert update.state.state is ExecutionState.FINISHED
    assert closed[-1] == EndAttempt()


def test_a_checkpoint_without_written_state_is_not_committed() -> None:
    task = source(SINKS)
    task.feed(trigger(1), finished(0), splits("a"), StageResult(stage=1, staged=staged("a")))
    task.feed(trigger(2), finished(2), durable(2))

    assert to_bridge(task.feed(complete(1))) == []
    assert to_bridge(task.feed(complete(2))) == [CommitCheckpoint(checkpoint_id=2)]
    assert to_bridge(task.feed(complete(3))) == []


def test_a_commit_includes_output_pending_since_an_earlier_checkpoint() -> None:
    task = source()
    task.feed(trigger(1), finished(0), durable(1), aborted(1), trigger(2), finished(1), durable(2))

    assert to_bridge(task.feed(complete(2))) == [CommitCheckpoint(checkpoint_id=2)]
    assert to_bridge(task.feed(complete(2), CheckpointCommitted(checkpoint_id=2))) == []


def test_a_task_without_output_finishes_when_the_final_checkpoint_completes() -> None:
    task = source(STATELESS)
    ended = NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE)
    task.feed(ended, trigger(1, is_final=True), finished(0))

    effects = task.feed(complete(1))

    assert down(effects) == [EndOfPartition()]
    assert to_bridge(effects) == [CloseChain(cancel=False)]


def test_the_snapshot_of_a_stateless_chain_is_acknowledged_after_the_barrier() -> None:
    task = source(STATELESS)
    task.feed(trigger(1))

    effects = task.feed(finished(0))

    [barrier] = down(effects)
    [acknowledged] = to_job_master(effects)
    assert isinstance(barrier, CheckpointBarrier)
    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert acknowledged.checkpoint_id == barrier.checkpoint_id == 1


def test_an_ordinary_checkpoint_does_not_end_a_source() -> None:
    task = source()
    task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE), trigger(1), finished(0), durable(1))

    committed = task.feed(CheckpointCommitted(checkpoint_id=1))

    assert to_bridge(committed) == []
    assert task.machine.state.is_running


def test_a_batch_is_processed_with_the_event_time_of_its_arrival() -> None:
    task = window(FiringMode.ON_CHECKPOINT)

    effects = task.arrive(0, batch("a"), Watermark(timestamp_ms=50), batch("b"))

    runs = [message for message in to_bridge(effects) if isinstance(message, ProcessBatch)]
    assert [(run.batch, run.watermark_ms) for run in runs] == [(batch("a"), WATERMARK_MIN), (batch("b"), 50)]


def test_the_credit_of_a_batch_is_returned_when_it_is_processed() -> None:
    task = window(FiringMode.ON_CHECKPOINT)
    task.arrive(0, *(batch(name) for name in "abcd"))

    processed = task.feed(finished(0))

    assert Tell(to=UPSTREAM[0], message=AddCredit(partition_id=UPSTREAM[0], subpartition=0, credit=1)) in processed


def test_windows_in_watermark_mode_fire_with_the_watermark() -> None:
    task = window(FiringMode.ON_WATERMARK)

    effects = task.arrive(0, Watermark(timestamp_ms=50))

    assert to_bridge(effects) == [AdvanceWatermark(stage=0, watermark_ms=50)]


def test_deferred_windows_fire_with_the_barrier() -> None:
    task = window(FiringMode.ON_CHECKPOINT)

    advanced = task.arrive(0, Watermark(timestamp_ms=50))
    snapshot = task.arrive(0, barrier(1))

    assert to_bridge(advanced) == []
    assert to_bridge(snapshot) == [
        SnapshotState(stage=0, checkpoint_id=1, options=CheckpointOptions(), watermark_ms=50)
    ]


def test_a_channel_is_blocked_from_its_barrier_until_the_others_arrive() -> None:
    task = window(FiringMode.ON_CHECKPOINT, channels=2)

    first = task.arrive(0, barrier(1), batch("behind"))
    second = task.arrive(1, batch("before"), barrier(1)) + task.feed(finished(0))

    assert to_bridge(first) == []
    started = to_bridge(second)
    assert isinstance(started[0], ProcessBatch)
    assert started[0].batch == batch("before")
    assert isinstance(started[1], SnapshotState)


def test_a_failed_stage_closes_the_bridge_and_reports_the_cause() -> None:
    task = source()
    cause = SerializedThrowable(type_name="ValueError", message="boom")

    failed = task.feed(EngineFailed(cause=cause))
    closed = task.feed(ChainClosed())

    assert to_bridge(failed) == [CancelWork(), CloseChain(cancel=True)]
    (update,) = to_job_master(closed)
    assert isinstance(update, UpdateTaskExecutionState)
    assert (update.state.state, update.state.failure) == (ExecutionState.FAILED, cause)


@pytest.mark.parametrize(("output", "subpartition"), [(0, 1), (0, -1), (1, 0)])
def test_a_batch_for_a_subpartition_that_does_not_exist_fails_the_attempt(output: int, subpartition: int) -> None:
    misplaced = StageOutput(output=output, batch=replace(batch("rows"), subpartition=subpartition))
    working = source()
    rows = InFlightRows(path="in-flight", rows=1, size_bytes=1)
    left = ResultSubpartitionStateHandle(output=output, subpartition=subpartition, subpartitions=1, in_flight=rows)
    restore = TaskStateSnapshot(operators=(OperatorSubtaskState(operator_id=SOURCE, result_subpartitions=(left,)),))
    opening = Harness(replace(descriptor(OperatorKind.SOURCE, outputs=1), restore=restore))
    working.feed(splits("a"))
    opening.feed(StartTask())

    working.feed(StageResult(stage=0, outputs=(misplaced,)))
    opening.feed(ChainOpened(recovered=(misplaced.batch,)))

    for task in (working, opening):
        (update,) = (
            each for each in to_job_master(task.feed(ChainClosed())) if isinstance(each, UpdateTaskExecutionState)
        )
        assert update.state.failure is not None
        assert update.state.failure.message == (
            f"op (1/1): rows (1 rows) is for subpartition {subpartition} of output {output}, which has {1 - output}"
            " subpartitions: its rows would be lost"
        )


def test_a_slow_consumer_stops_the_source() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1))
    task.feed(StartTask(), ChainOpened(), splits(*"abcdefgh"))

    started = [to_bridge(task.feed(finished(stage, f"rows-{stage}"))) for stage in range(4)]
    resumed = task.feed(PartitionRequest(partition_id=OUT, subpartition=0, credit=3, consumer=CONSUMER))

    assert [len(stages) for stages in started] == [1, 1, 0, 0]
    assert len(down(resumed)) == 3
    assert len(to_bridge(resumed)) == 2


def test_state_that_becomes_durable_while_the_attempt_ends_is_reported() -> None:
    task = source()
    task.feed(trigger(1), finished(0), CommitPrepared(checkpoint_id=1))
    task.feed(EngineFailed(cause=SerializedThrowable(type_name="ValueError", message="boom")))

    effects = task.feed(SnapshotWritten(checkpoint_id=1))

    assert [
        message.checkpoint_id for message in to_job_master(effects) if isinstance(message, AcknowledgeCheckpoint)
    ] == [1]
