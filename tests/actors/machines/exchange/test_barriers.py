"""A task handles barriers, cancellation markers and ends of channels. Flink's own cases are in tests/conformance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    MAX_CHECKPOINTS_TO_TRACK,
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierEvent,
    BarrierTracker,
    BlockChannel,
    CheckpointBarrierHandler,
    EndOfPartitionMode,
    UnblockAllChannels,
)
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.tasks.exchange import CancelCheckpointMarker, CheckpointBarrier, EndOfPartition

HANDLERS = [BarrierAligner, BarrierTracker]
END = EndOfPartition()


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=1000 + checkpoint_id)


def marker(checkpoint_id: int) -> CancelCheckpointMarker:
    return CancelCheckpointMarker(checkpoint_id=checkpoint_id)


def abort(checkpoint_id: int, reason: CheckpointDeclineReason) -> AbortCheckpointOnBarrier:
    return AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason)


def handler_actions(
    handler: CheckpointBarrierHandler, *elements: tuple[int, BarrierEvent]
) -> list[list[BarrierAction]]:
    actions = []
    for now_ms, (channel, event) in enumerate(elements):
        actions.append(handler.handle(channel, event, now_ms))
        handler.check()
    return actions


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_single_channel_needs_no_alignment(handler: type[BarrierAligner | BarrierTracker]) -> None:
    counting = handler(1)

    assert handler_actions(counting, (0, barrier(1)), (0, barrier(2))) == [[barrier(1)], [barrier(2)]]
    assert counting.alignment_start_ms == 1


def test_channels_are_blocked_until_the_last_barrier_arrives() -> None:
    aligner = BarrierAligner(3)

    actions = handler_actions(aligner, (2, barrier(1)), (0, barrier(1)), (1, barrier(1)))

    assert actions == [
        [BlockChannel(channel=2)],
        [BlockChannel(channel=0)],
        [barrier(1), UnblockAllChannels()],
    ]
    assert aligner.alignment_start_ms == 0


def test_at_least_once_barriers_block_no_channel() -> None:
    assert handler_actions(BarrierTracker(2), (0, barrier(1)), (1, barrier(1))) == [[], [barrier(1)]]


def test_a_newer_barrier_subsumes_the_alignment() -> None:
    aligner = BarrierAligner(2)

    actions = handler_actions(aligner, (0, barrier(1)), (1, barrier(2)), (0, barrier(2)))

    assert actions[1:] == [
        [abort(1, CheckpointDeclineReason.SUBSUMED), UnblockAllChannels(), BlockChannel(channel=1)],
        [barrier(2), UnblockAllChannels()],
    ]
    assert aligner.alignment_start_ms == 1


def test_a_barrier_of_an_older_checkpoint_is_ignored() -> None:
    aligner = BarrierAligner(2)

    actions = handler_actions(aligner, (0, barrier(5)), (1, barrier(4)), (1, barrier(5)), (1, barrier(3)))

    assert actions[1] == actions[3] == []
    assert actions[2] == [barrier(5), UnblockAllChannels()]


def test_a_cancel_marker_ends_the_alignment_permanently() -> None:
    aligner = BarrierAligner(2)

    actions = handler_actions(aligner, (0, barrier(1)), (1, marker(1)), (0, barrier(1)), (1, marker(1)))

    assert actions[1:] == [[abort(1, CheckpointDeclineReason.CANCELLATION_BARRIER), UnblockAllChannels()], [], []]


def test_a_cancel_marker_of_a_newer_checkpoint_aborts_only_that_checkpoint() -> None:
    aligner = BarrierAligner(2)

    actions = handler_actions(aligner, (0, barrier(1)), (1, marker(2)))

    assert actions[1] == [abort(2, CheckpointDeclineReason.CANCELLATION_BARRIER), UnblockAllChannels()]
    assert aligner.latest_checkpoint_id == 2


def test_the_end_of_a_channel_counts_as_its_barrier() -> None:
    aligner = BarrierAligner(3)

    actions = handler_actions(aligner, (0, barrier(1)), (1, END), (2, END))

    assert actions[1:] == [[], [barrier(1), UnblockAllChannels()]]


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_channel_that_ends_after_its_barrier_counts_once(handler: type[BarrierAligner | BarrierTracker]) -> None:
    counting = handler(3)

    actions = handler_actions(counting, (0, barrier(1)), (1, barrier(1)), (1, END), (2, barrier(1)))

    assert actions[2] == []
    assert barrier(1) in actions[3]
    assert counting.pending_checkpoints == ()


def test_the_end_of_a_channel_can_be_configured_to_abort() -> None:
    aligner = BarrierAligner(2, EndOfPartitionMode.ABORTS)

    actions = handler_actions(aligner, (0, barrier(1)), (1, END), (0, barrier(2)))

    assert actions[1:] == [
        [abort(1, CheckpointDeclineReason.INPUT_END_OF_STREAM), UnblockAllChannels()],
        [barrier(2)],
    ]


def test_a_tracker_that_aborts_at_channel_ends_resets_its_count() -> None:
    tracker = BarrierTracker(2, EndOfPartitionMode.ABORTS)

    actions = handler_actions(tracker, (0, barrier(1)), (0, barrier(2)), (1, END))

    reason = CheckpointDeclineReason.INPUT_END_OF_STREAM
    assert actions[2] == [abort(1, reason), abort(2, reason)]
    assert tracker.pending_checkpoints == ()


def test_a_tracker_remembers_a_limited_number_of_checkpoints() -> None:
    tracker = BarrierTracker(2)
    handler_actions(tracker, *((0, barrier(number)) for number in range(MAX_CHECKPOINTS_TO_TRACK + 1)))

    forgotten, kept = handler_actions(tracker, (1, barrier(0)), (1, barrier(1)))

    assert forgotten == []
    assert kept == [barrier(1)]
    assert tracker.alignment_start_ms == 1


def test_reading_a_blocked_channel_raises_an_assertion_error() -> None:
    aligner = BarrierAligner(2)
    handler_actions(aligner, (0, barrier(1)))

    with pytest.raises(AssertionError, match="was read although it is blocked"):
        aligner.handle(0, barrier(1), 1)


def test_an_ended_channel_cannot_be_read() -> None:
    aligner = BarrierAligner(2)
    handler_actions(aligner, (0, END))

    with pytest.raises(AssertionError, match="has ended"):
        aligner.handle(0, barrier(1), 1)


CHANNELS = 3

STREAMS = st.lists(
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=8).map(
        lambda elements: [
            marker(number) if cancelled else barrier(number) for number, cancelled in sorted(dict(elements).items())
        ]
    ),
    min_size=CHANNELS,
    max_size=CHANNELS,
)
"""For each channel: barriers and cancellation markers with increasing ids, some of them missing, and the end of the
channel.
"""


@given(streams=STREAMS, data=st.data())
def test_a_snapshot_is_taken_when_every_open_channel_has_delivered_its_barrier(
    streams: list[list[BarrierEvent]], data: st.DataObject
) -> None:
    aligner = BarrierAligner(CHANNELS)
    left = [[*stream, END] for stream in streams]
    last_read: list[BarrierEvent | None] = [None] * CHANNELS
    blocked: set[int] = set()
    decided: list[int] = []

    while readable := [channel for channel in range(CHANNELS) if left[channel] and channel not in blocked]:
        channel = data.draw(st.sampled_from(readable))
        last_read[channel] = left[channel].pop(0)
        actions = aligner.handle(channel, last_read[channel] or END, 0)
        aligner.check()
        for action in actions:
            match action:
                case CheckpointBarrier(checkpoint_id=checkpoint_id):
                    decided.append(checkpoint_id)
                    assert all(element in (action, END) for element in last_read)
                case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id):
                    decided.append(checkpoint_id)
                case BlockChannel(channel=number):
                    blocked.add(number)
                case UnblockAllChannels():
                    blocked.clear()
        assert blocked == aligner.blocked_channels

    assert not any(left), "a channel stayed blocked for ever"
    assert decided == sorted(set(decided)), "a checkpoint is triggered or aborted once, in order"


@given(streams=STREAMS, data=st.data())
def test_a_tracker_decides_each_checkpoint_at_most_once(streams: list[list[BarrierEvent]], data: st.DataObject) -> None:
    tracker = BarrierTracker(CHANNELS)
    left = [[*stream, END] for stream in streams]
    decided: list[int] = []

    while readable := [channel for channel in range(CHANNELS) if left[channel]]:
        channel = data.draw(st.sampled_from(readable))
        for action in tracker.handle(channel, left[channel].pop(0), 0):
            match action:
                case (
                    CheckpointBarrier(checkpoint_id=checkpoint_id)
                    | AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id)
                ):
                    decided.append(checkpoint_id)
        tracker.check()

    assert len(decided) == len(set(decided))
