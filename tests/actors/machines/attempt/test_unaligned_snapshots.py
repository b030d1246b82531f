"""A Task in an unaligned checkpoint: the data that the task holds, forwards, acknowledges and drops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flykka.actors.machines.attempt.events import BridgeLost, StartTask, TaskEvent
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    ChannelStateWritten,
    CommitPrepared,
    EngineFailed,
    WorkFailed,
)
from flykka.messages.attempt.commands import (
    ChannelStatePart,
    HoldBatches,
    ProcessBatch,
    ReleaseBatches,
    SnapshotState,
    WriteChannelState,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    AlignmentType,
    CheckpointDeclineReason,
    CheckpointOptions,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from flykka.messages.tasks.exchange import (
    AddCredit,
    AlignmentTimeoutDue,
    CancelCheckpointMarker,
    CheckpointBarrier,
    PartitionRequest,
)
from flykka.messages.tasks.task import CancelTask, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, OperatorId
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    CONSUMER,
    JOB,
    OUT,
    WINDOWS,
    Harness,
    aborted,
    batch,
    descriptor,
    down,
    durable,
    finished,
    recovering,
    splits,
    to_bridge,
    to_job_master,
)

UNALIGNED = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
IN_FLIGHT = InputChannelStateHandle(gate=0, in_flight=InFlightRows(path="/in", rows=2, size_bytes=5))
FOLDER = ExclusiveStateHandle(path="/in", size_bytes=5)
CHANNELS = OperatorSubtaskState(operator_id=OperatorId("source"), exclusive=(FOLDER,), input_channels=(IN_FLIGHT,))
FULL = SerializedThrowable(type_name="OSError", message="the disk is full")


def barrier(checkpoint_id: int, **options: Any) -> CheckpointBarrier:
    wanted = CheckpointOptions(**{"alignment": AlignmentType.UNALIGNED, **options})
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=1000, options=wanted)


def hold(checkpoint_id: int, *names: str) -> HoldBatches:
    holder = f"{ATTEMPT} checkpoint {checkpoint_id}"
    return HoldBatches(checkpoint_id=checkpoint_id, batch_ids=tuple(BatchId(name) for name in names), holder=holder)


def write(checkpoint_id: int, inputs: str = "", outputs: str | None = None) -> WriteChannelState:
    """Return the command to write these in-flight batches. Inputs have names of one letter, outputs have any name."""
    path = f"/checkpoints/{JOB}/in-flight/{ATTEMPT}-{checkpoint_id}"
    entering = ChannelStatePart(path=f"{path}-in-0", batches=tuple(map(batch, inputs)), gate=0)
    leaving = ChannelStatePart(path=f"{path}-out-0-0", batches=(batch(outputs or ""),), output=0)
    parts = (*((entering,) if inputs else ()), *((leaving,) if outputs else ()))
    return WriteChannelState(checkpoint_id=checkpoint_id, parts=parts)


def channel_state_written(checkpoint_id: int, parts: int = 1) -> ChannelStateWritten:
    return ChannelStateWritten(checkpoint_id=checkpoint_id, folders=(FOLDER,) * parts)


def operator(channels: int = 2, outputs: int = 0) -> Harness:
    """Return an intermediate task whose inputs have delivered `a` to `d`: two batches are being processed, and two
    wait.
    """
    task = Harness(descriptor(OperatorKind.STATELESS, channels=channels, outputs=outputs))
    task.feed(StartTask(), WINDOWS)
    task.arrive(0, batch("a"), batch("b"))
    task.arrive(1, batch("c"), batch("d"))
    return task


def test_a_barrier_overtakes_waiting_batches_which_are_held() -> None:
    task = operator()

    effects = task.arrive(0, barrier(1))
    snapshot = task.feed(finished(0), finished(1))

    assert to_bridge(effects) == [hold(1, "c", "d")]
    assert SnapshotState(stage=2, checkpoint_id=1, options=UNALIGNED, watermark_ms=None) in to_bridge(snapshot)


def test_data_before_the_last_barrier_is_collected_and_written_at_once() -> None:
    task = operator()
    task.arrive(0, barrier(1))
    task.feed(finished(0), finished(1), finished(2), durable(1))

    late = task.arrive(1, batch("e"))
    complete = task.arrive(1, barrier(1))

    assert hold(1, "e") in to_bridge(late)
    assert to_bridge(complete) == [write(1, "cde")]


def test_the_snapshot_is_acknowledged_when_its_in_flight_data_is_durable() -> None:
    task = operator()
    task.arrive(0, barrier(1))
    task.now += 30
    task.arrive(1, barrier(1))
    task.feed(finished(0), finished(1), finished(2))

    early = task.feed(durable(1))
    effects = task.feed(channel_state_written(1))

    assert to_job_master(early) == []
    [acknowledged] = to_job_master(effects)
    assert isinstance(acknowledged, AcknowledgeCheckpoint)
    assert acknowledged.state == TaskStateSnapshot(operators=(CHANNELS,))
    assert acknowledged.metrics.is_unaligned
    assert acknowledged.metrics.alignment_ms == 30
    assert acknowledged.metrics.bytes_persisted_during_alignment == 5


def test_the_barrier_of_a_source_with_a_slow_consumer_overtakes_waiting_batches() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=0, consumer=CONSUMER)
    task.feed(StartTask(), ChainOpened(), request, splits("a"), finished(0, "rows"))

    triggered = TriggerCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, timestamp_ms=1000, options=UNALIGNED)
    task.feed(triggered)
    effects = task.feed(finished(1))
    credited = task.feed(AddCredit(partition_id=OUT, subpartition=0, credit=1))

    assert down(effects) == [barrier(1)]
    assert to_bridge(effects) == [hold(1, "rows"), write(1, outputs="rows")]
    assert down(credited) == [batch("rows")]


@pytest.mark.parametrize("strategy", [ShipStrategy.FORWARD, ShipStrategy.BROADCAST, ShipStrategy.RESCALE])
def test_a_barrier_on_a_pointwise_edge_does_not_overtake(strategy: ShipStrategy) -> None:
    deployed = descriptor(OperatorKind.SOURCE, outputs=1)
    [partition] = deployed.outputs
    task = Harness(replace(deployed, outputs=(replace(partition, ship_strategy=strategy),)))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=0, consumer=CONSUMER)
    task.feed(StartTask(), ChainOpened(), request, splits("a"), finished(0, "rows"))
    triggered = TriggerCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, timestamp_ms=1000, options=UNALIGNED)

    task.feed(triggered)
    sent = task.feed(finished(1))
    credited = task.feed(AddCredit(partition_id=OUT, subpartition=0, credit=1))

    assert down(sent) == []
    assert down(credited) == [batch("rows"), barrier(1, alignment=AlignmentType.FORCED_ALIGNED)]


def test_a_barrier_forced_to_align_is_unaligned_downstream() -> None:
    task = operator(outputs=1)
    task.feed(PartitionRequest(partition_id=OUT, subpartition=0, credit=0, consumer=CONSUMER))
    task.feed(finished(0, "x"), finished(1), finished(2), finished(3))
    forced = barrier(1, alignment=AlignmentType.FORCED_ALIGNED)

    task.arrive(0, forced)
    task.arrive(1, forced)
    effects = task.feed(finished(4), durable(1))

    assert down(effects) == [barrier(1)]
    assert write(1, outputs="x") in to_bridge(effects)


def test_an_alignment_that_takes_too_long_becomes_unaligned() -> None:
    task = operator()
    aligned = barrier(1, alignment=AlignmentType.ALIGNED, aligned_timeout_ms=200)

    announced = task.arrive(0, aligned)
    task.now += 201
    timed_out = task.feed(AlignmentTimeoutDue(checkpoint_id=1))

    assert StartTimer(key="alignment", delay_ms=201, message=AlignmentTimeoutDue(checkpoint_id=1)) in announced
    assert not any(isinstance(message, SnapshotState) for message in to_bridge(announced))
    assert to_bridge(timed_out) == [hold(1, "c", "d")]
    assert any(isinstance(each, SnapshotState) for each in to_bridge(task.feed(finished(0), finished(1))))


def test_an_announced_barrier_admits_no_data_if_there_is_no_room() -> None:
    task = operator()

    effects = task.arrive(0, barrier(1, alignment=AlignmentType.ALIGNED, aligned_timeout_ms=200))

    assert to_bridge(effects) == []


def test_recovered_in_flight_data_is_processed_first() -> None:
    task = Harness(recovering(descriptor(OperatorKind.STATELESS, channels=1, outputs=1), inputs=1, outputs=1))
    task.feed(StartTask())

    effects = task.feed(ChainOpened(recovered=(batch("old"), batch("made")))) + task.arrive(0, batch("new"))
    sent = task.feed(PartitionRequest(partition_id=OUT, subpartition=0, credit=2, consumer=CONSUMER))

    assert [message.batch for message in to_bridge(effects) if isinstance(message, ProcessBatch)] == [
        batch("old"),
        batch("new"),
    ]
    assert down(sent) == [batch("made")]


def test_recovered_but_unread_data_is_still_in_flight() -> None:
    task = Harness(recovering(descriptor(OperatorKind.STATELESS, channels=1), inputs=3))
    task.feed(StartTask(), ChainOpened(recovered=tuple(map(batch, "abc"))))

    effects = task.arrive(0, barrier(1))

    assert to_bridge(effects) == [hold(1, "c")]


def test_an_aborted_checkpoint_frees_its_data_and_reports_its_durable_part() -> None:
    task = operator()
    task.arrive(0, barrier(1))
    task.feed(finished(0), finished(1), finished(2), durable(1))

    given_up = task.feed(aborted(1))
    late = task.arrive(1, batch("e"), barrier(1))

    assert to_bridge(given_up) == [ReleaseBatches(holder=f"{ATTEMPT} checkpoint 1")]
    assert [type(message) for message in to_job_master(given_up)] == [AcknowledgeCheckpoint]
    assert not any(isinstance(message, HoldBatches | WriteChannelState) for message in to_bridge(late))


@pytest.mark.parametrize("end", [CancelTask(attempt=ATTEMPT), EngineFailed(cause=FULL)], ids=["cancelled", "failed"])
def test_a_partial_snapshot_is_reported_for_deletion_after_the_attempt_ends(end: TaskEvent) -> None:
    task = operator()
    task.arrive(0, barrier(1))
    task.feed(finished(0), finished(1), finished(2), durable(1))

    ending = task.feed(end)
    # The checkpoint is aborted together with the attempt, which is no longer notified of the abort.
    ended = task.feed(ChainClosed())

    assert to_job_master(ending) == []
    messages = to_job_master(ended)
    assert [type(message) for message in messages] == [UpdateTaskExecutionState, AcknowledgeCheckpoint]


def test_an_attempt_whose_bridge_is_lost_reports_its_partial_snapshot() -> None:
    task = operator()
    task.arrive(0, barrier(1))
    task.feed(finished(0), finished(1), finished(2), durable(1))

    messages = to_job_master(task.feed(BridgeLost(cause=FULL)))

    assert [type(message) for message in messages] == [UpdateTaskExecutionState, AcknowledgeCheckpoint]


def test_a_cancelled_checkpoint_is_declined_once_and_cancelled_downstream() -> None:
    task = operator(outputs=1)
    task.feed(PartitionRequest(partition_id=OUT, subpartition=0, credit=0, consumer=CONSUMER))
    task.arrive(0, barrier(1))

    effects = task.feed(finished(0), finished(1)) + task.arrive(1, CancelCheckpointMarker(checkpoint_id=1))
    behind = task.feed(finished(2), finished(3), finished(4), CommitPrepared(checkpoint_id=1))

    reason = CheckpointDeclineReason.CANCELLATION_BARRIER
    declined = DeclineCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, reason=reason)
    assert to_job_master(effects + behind) == [declined]
    assert CancelCheckpointMarker(checkpoint_id=1) in down(behind)


def test_unwritable_channel_state_declines_the_checkpoint_and_the_task_continues() -> None:
    task = operator()
    task.arrive(0, barrier(1))
    task.arrive(1, barrier(1))
    task.feed(finished(0), finished(1), finished(2), durable(1))

    task.take(WriteChannelState)
    effects = task.feed(WorkFailed(command=write(1, "cd"), cause=FULL, ends_attempt=False))

    reason = CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION
    declined = DeclineCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, reason=reason, cause=FULL)
    # The decline comes first, so that the durable part is not mistaken for the complete snapshot.
    assert to_job_master(effects)[0] == declined
    assert [type(message) for message in to_job_master(effects)[1:]] == [AcknowledgeCheckpoint]
    assert task.machine.state.is_running


def test_a_barrier_already_timed_out_when_sent_overtakes_queued_output() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=0, consumer=CONSUMER)
    task.feed(StartTask(), WINDOWS, request, splits("a"), finished(0, "rows"))
    options = CheckpointOptions(aligned_timeout_ms=200)
    task.feed(TriggerCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, timestamp_ms=1000, options=options))

    task.now += 201
    effects = task.feed(finished(1))
    early, late = task.feed(durable(1)), task.feed(channel_state_written(1))

    assert down(effects) == [barrier(1, aligned_timeout_ms=200)]
    assert write(1, outputs="rows") in to_bridge(early)
    assert to_job_master(early) == []
    assert [type(message) for message in to_job_master(late)] == [AcknowledgeCheckpoint]


def source_with_waiting_barrier() -> Harness:
    """Return a source whose aligned barrier waits after a batch for which no reader has room."""
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=0, consumer=CONSUMER)
    task.feed(StartTask(), WINDOWS, request, splits("a", "b"), finished(0, "rows"), finished(1))
    options = CheckpointOptions(aligned_timeout_ms=200)
    task.feed(TriggerCheckpoint(job_id=JOB, attempt=ATTEMPT, checkpoint_id=1, timestamp_ms=1000, options=options))
    return task


def test_a_barrier_in_an_output_overtakes_after_the_alignment_timeout() -> None:
    task = source_with_waiting_barrier()
    sent = task.feed(finished(2), durable(1))
    task.now += 201

    effects = task.feed(AlignmentTimeoutDue(checkpoint_id=1))
    acknowledged = task.feed(channel_state_written(1))

    assert StartTimer(key="alignment", delay_ms=201, message=AlignmentTimeoutDue(checkpoint_id=1)) in sent
    assert down(sent) == []
    assert to_job_master(sent) == []
    assert down(effects) == [barrier(1, aligned_timeout_ms=200)]
    assert to_bridge(effects) == [hold(1, "rows"), write(1, outputs="rows")]
    [acknowledgement] = to_job_master(acknowledged)
    assert isinstance(acknowledgement, AcknowledgeCheckpoint)
    assert acknowledgement.metrics.is_unaligned


def test_a_barrier_sent_before_the_alignment_timeout_overtakes_no_data() -> None:
    task = source_with_waiting_barrier()
    task.feed(finished(2), durable(1))

    left = task.feed(AddCredit(partition_id=OUT, subpartition=0, credit=1))
    task.now += 201
    late = task.feed(AlignmentTimeoutDue(checkpoint_id=1))
    [acknowledgement] = to_job_master(task.feed(channel_state_written(1, parts=0)))

    assert down(left) == [batch("rows"), barrier(1, alignment=AlignmentType.ALIGNED, aligned_timeout_ms=200)]
    assert to_bridge(left) == [write(1)]
    assert down(late) == []
    assert isinstance(acknowledgement, AcknowledgeCheckpoint)
    assert not acknowledgement.metrics.is_unaligned
    assert acknowledgement.metrics.bytes_persisted_during_alignment == 0


def test_the_barrier_of_an_aborted_checkpoint_does_not_overtake() -> None:
    task = source_with_waiting_barrier()
    task.feed(finished(2))
    task.feed(aborted(1))
    left = task.feed(AddCredit(partition_id=OUT, subpartition=0, credit=1))

    assert to_bridge(left) == []


def test_a_mini_batch_that_waits_is_persisted_by_an_unaligned_barrier() -> None:
    deployed = descriptor(OperatorKind.INCREMENTAL, channels=2, outputs=1)
    task = Harness(replace(deployed, coalesces_batches=True, mini_batch_latency_ms=500))
    task.feed(StartTask(), WINDOWS)
    task.arrive(0, batch("a"))

    overtaken = to_bridge(task.arrive(1, barrier(1)))

    assert hold(1, "a") in overtaken
    assert not any(isinstance(each, ProcessBatch) for each in overtaken)
