"""A snapshot is a cut through the channels of all inputs: it contains all data before their barriers and no data after
them.
"""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.attempt.answers import ChainOpened, SnapshotWritten
from flykka.messages.attempt.commands import (
    ChannelStatePart,
    ChannelStateRead,
    OpenChain,
    ProcessBatch,
    SnapshotState,
    WriteChannelState,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    AlignmentType,
    CheckpointDeclineReason,
    CheckpointOptions,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
)
from flykka.messages.state.handles import InFlightRows
from flykka.messages.tasks.exchange import CheckpointBarrier, EndOfPartition
from flykka.messages.wire.ids import BatchId, ResultPartitionId
from flykka.monitors.barriers import BarrierMonitor
from flykka.runtime.trace.records import Turn
from tests.flykka.monitors.turns import (
    BRIDGE,
    JOB,
    JOB_MASTER,
    TASK,
    attempt,
    batch_ref,
    partition_request,
    receive_turn,
    turn,
    violations_of,
)

LEFT, RIGHT = ResultPartitionId("left:0"), ResultPartitionId("right:0")
BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
DECLINED = DeclineCheckpoint(
    job_id=JOB, attempt=attempt(), checkpoint_id=1, reason=CheckpointDeclineReason.CHECKPOINT_DECLINED
)
ALIGNED = SnapshotState(stage=1, checkpoint_id=1, options=CheckpointOptions(), watermark_ms=0)
UNALIGNED = replace(ALIGNED, options=CheckpointOptions(alignment=AlignmentType.UNALIGNED))


def opening(*recovered: str) -> Turn:
    in_flight = InFlightRows(path="in-flight", rows=1, size_bytes=1)
    recover = tuple(ChannelStateRead(batch_id=BatchId(name), in_flight=in_flight, gate=0) for name in recovered)
    return turn(TASK, SNAPSHOTTED, (BRIDGE, OpenChain(restore=None, recover=recover)))


def chain_opened_turn(*recovered: str) -> Turn:
    return turn(
        TASK, ChainOpened(recovered=tuple(map(batch_ref, recovered))), partition_request(LEFT), partition_request(RIGHT)
    )


def process_batch(name: str) -> ProcessBatch:
    return ProcessBatch(stage=0, gate=0, batch=batch_ref(name), watermark_ms=0)


def write_channel_state(*names: str) -> WriteChannelState:
    return WriteChannelState(
        checkpoint_id=1, parts=(ChannelStatePart(path="in-flight", gate=0, batches=tuple(map(batch_ref, names))),)
    )


SNAPSHOTTED = SnapshotWritten(checkpoint_id=1)
ACKNOWLEDGED = turn(
    TASK, SNAPSHOTTED, (JOB_MASTER, AcknowledgeCheckpoint(job_id=JOB, attempt=attempt(), checkpoint_id=1, state=None))
)


def barrier_violations(*run: Turn) -> list[str]:
    return violations_of(BarrierMonitor(), *run)


def test_an_aligned_snapshot_waits_for_the_barriers_of_both_inputs() -> None:
    both = [chain_opened_turn(), receive_turn(LEFT, BARRIER), receive_turn(RIGHT, BARRIER, ALIGNED), ACKNOWLEDGED]
    ended = [
        chain_opened_turn(),
        receive_turn(LEFT, EndOfPartition()),
        receive_turn(RIGHT, BARRIER, ALIGNED),
        ACKNOWLEDGED,
    ]

    assert barrier_violations(*both) == barrier_violations(*ended) == []
    assert barrier_violations(chain_opened_turn(), receive_turn(LEFT, BARRIER, ALIGNED)) == [
        "checkpoint 1: the snapshot is taken before its barrier has arrived in subpartition 0 of right:0"
    ]


def test_data_after_a_barrier_must_not_be_read_before_the_snapshot() -> None:
    run = [
        chain_opened_turn(),
        receive_turn(LEFT, BARRIER),
        receive_turn(LEFT, batch_ref("b"), process_batch("b")),
        receive_turn(RIGHT, BARRIER, ALIGNED),
    ]

    assert barrier_violations(*run) == [
        "checkpoint 1: a batch after the barrier in subpartition 0 of left:0 was read before the snapshot"
    ]


def test_an_unaligned_snapshot_contains_in_flight_data_of_both_inputs() -> None:
    def run(*names: str) -> list[str]:
        return barrier_violations(
            chain_opened_turn(),
            receive_turn(LEFT, batch_ref("l")),
            receive_turn(LEFT, BARRIER, UNALIGNED),
            receive_turn(RIGHT, batch_ref("r"), process_batch("l"), process_batch("r")),
            receive_turn(RIGHT, BARRIER, write_channel_state(*names)),
            ACKNOWLEDGED,
        )

    lost = "was in flight, but is neither in the state nor in the channel state"
    assert run("l", "r") == []
    assert run("l") == [f"checkpoint 1: r {lost}"]
    assert run("r") == [f"checkpoint 1: l {lost}"]


def test_data_in_the_state_must_not_also_be_in_flight() -> None:
    run = [
        chain_opened_turn(),
        receive_turn(LEFT, batch_ref("l"), process_batch("l")),
        receive_turn(LEFT, BARRIER, UNALIGNED),
        receive_turn(RIGHT, BARRIER, write_channel_state("l")),
        ACKNOWLEDGED,
    ]

    assert barrier_violations(*run) == [
        "checkpoint 1: l is in the channel state, but was read before the snapshot or arrived after the barrier"
    ]


def test_an_unaligned_checkpoint_needs_the_barriers_of_both_inputs() -> None:
    run = [chain_opened_turn(), receive_turn(LEFT, BARRIER, UNALIGNED), ACKNOWLEDGED]

    assert barrier_violations(*run) == [
        "checkpoint 1: it is acknowledged before its barrier has arrived in subpartition 0 of right:0"
    ]


def test_recovered_data_that_is_still_unread_is_in_flight_again() -> None:
    snapshot = [
        receive_turn(LEFT, BARRIER, UNALIGNED),
        receive_turn(RIGHT, BARRIER, write_channel_state()),
        ACKNOWLEDGED,
    ]

    assert barrier_violations(chain_opened_turn(), *snapshot) == []
    assert barrier_violations(opening("b"), chain_opened_turn("b"), *snapshot) == [
        "checkpoint 1: b was in flight, but is neither in the state nor in the channel state"
    ]


def test_acknowledgements_of_an_aborted_checkpoint_have_no_effect() -> None:
    notified = NotifyCheckpointAborted(
        job_id=JOB, attempt=attempt(), checkpoint_id=1, latest_completed_id=None, timestamp_ms=0
    )

    for given_up in (turn(TASK, notified), turn(TASK, SNAPSHOTTED, (JOB_MASTER, DECLINED))):
        assert (
            barrier_violations(
                opening("b"), chain_opened_turn("b"), receive_turn(LEFT, BARRIER, UNALIGNED), given_up, ACKNOWLEDGED
            )
            == []
        )
