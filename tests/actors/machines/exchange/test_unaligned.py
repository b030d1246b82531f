"""Unaligned barriers, and aligned barriers that have timed out: the data that they overtake, and the resulting channel
state.
"""

from __future__ import annotations

import pytest

from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierAnnouncement,
    BarrierEvent,
    BlockChannel,
    PrioritizeBarrier,
    StartPersisting,
    StopPersisting,
    UnblockAllChannels,
)
from flykka.actors.machines.exchange.effects import PersistInFlight
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointDeclineReason, CheckpointOptions
from flykka.messages.tasks.exchange import (
    AlignmentTimeoutDue,
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
)
from tests.actors.machines.exchange.builders import batch_ref, requested_gate, response

TIMEOUT_MS = 100


def unaligned(checkpoint_id: int, timeout_ms: int | None = None) -> CheckpointBarrier:
    options = CheckpointOptions(alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=timeout_ms)
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0, options=options)


def timing_out(checkpoint_id: int) -> CheckpointBarrier:
    options = CheckpointOptions(aligned_timeout_ms=TIMEOUT_MS)
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0, options=options)


def announced(checkpoint_id: int) -> BarrierAnnouncement:
    return BarrierAnnouncement(barrier=timing_out(checkpoint_id))


def aligner_actions(
    aligner: BarrierAligner, *elements: tuple[int, BarrierEvent], now_ms: int = 0
) -> list[list[BarrierAction]]:
    actions = []
    for channel, event in elements:
        actions.append(aligner.handle(channel, event, now_ms))
        aligner.check()
    return actions


# The handler


def test_the_first_unaligned_barrier_triggers_and_the_last_completes_persisting() -> None:
    actions = aligner_actions(BarrierAligner(3), (1, unaligned(1)), (0, unaligned(1)), (2, EndOfPartition()))

    assert actions == [
        [StartPersisting(checkpoint_id=1), unaligned(1)],
        [],
        [StopPersisting(checkpoint_id=1, is_complete=True)],
    ]


def test_an_aborted_unaligned_checkpoint_stops_persisting() -> None:
    aligner = BarrierAligner(2)

    actions = aligner_actions(
        aligner, (0, unaligned(1)), (1, CancelCheckpointMarker(checkpoint_id=1)), (1, unaligned(1))
    )

    assert actions[1:] == [
        [
            AbortCheckpointOnBarrier(checkpoint_id=1, reason=CheckpointDeclineReason.CANCELLATION_BARRIER),
            StopPersisting(checkpoint_id=1, is_complete=False),
        ],
        [],
    ]


def test_an_aligned_checkpoint_continues_unaligned_after_its_timeout() -> None:
    aligner = BarrierAligner(3)
    begun = aligner_actions(aligner, (0, announced(1)), (1, announced(1)), (0, timing_out(1)))

    actions = aligner.time_out(1)
    aligner.check()
    later = aligner_actions(aligner, (2, announced(1)), (1, unaligned(1)), (2, unaligned(1)))

    assert begun == [
        [StartTimer(key="alignment", delay_ms=TIMEOUT_MS + 1, message=AlignmentTimeoutDue(checkpoint_id=1))],
        [],
        [BlockChannel(channel=0)],
    ]
    assert actions == [
        PrioritizeBarrier(channel=1, checkpoint_id=1),
        StartPersisting(checkpoint_id=1),
        unaligned(1, TIMEOUT_MS),
        UnblockAllChannels(),
    ]
    assert later == [
        [PrioritizeBarrier(channel=2, checkpoint_id=1)],
        [],
        [StopPersisting(checkpoint_id=1, is_complete=True)],
    ]


def test_the_first_barrier_triggers_if_only_announcements_arrived_before_the_timeout() -> None:
    aligner = BarrierAligner(2)
    aligner_actions(aligner, (0, announced(1)))

    timed_out = aligner.time_out(1)
    actions = aligner_actions(aligner, (0, unaligned(1)))

    assert timed_out == [PrioritizeBarrier(channel=0, checkpoint_id=1)]
    assert actions == [[StartPersisting(checkpoint_id=1), unaligned(1, TIMEOUT_MS)]]


def test_a_barrier_later_than_the_alignment_timeout_sets_no_timer() -> None:
    aligner = BarrierAligner(2)

    [actions] = aligner_actions(aligner, (0, timing_out(1)), now_ms=TIMEOUT_MS + 1)

    assert actions == [
        StartTimer(key="alignment", delay_ms=0, message=AlignmentTimeoutDue(checkpoint_id=1)),
        BlockChannel(channel=0),
        StartPersisting(checkpoint_id=1),
        unaligned(1, TIMEOUT_MS),
        UnblockAllChannels(),
    ]
    assert aligner.alignment_start_ms == TIMEOUT_MS + 1


def test_the_timer_of_an_ended_checkpoint_has_no_effect() -> None:
    aligner = BarrierAligner(2)
    aligner_actions(aligner, (0, timing_out(1)), (1, timing_out(1)), (0, timing_out(2)))

    assert aligner.time_out(1) == []
    assert aligner.pending_checkpoints == (2,)


# The gate


def give(gate: InputGate, *buffers: Buffer, first: int = 0, channel: int = 0) -> list[str]:
    persisted: list[str] = []
    for number, buffer in enumerate(buffers, first):
        effects = gate.on_buffer(response(buffer, number, channel))
        persisted += [effect.batch.batch_id for effect in effects if isinstance(effect, PersistInFlight)]
        gate.check()
    return persisted


def persisted_batches(gate: InputGate, checkpoint_id: int) -> list[str]:
    effects = gate.start_persisting(checkpoint_id)
    gate.check()
    return [effect.batch.batch_id for effect in effects if isinstance(effect, PersistInFlight)]


def read_all(gate: InputGate) -> list[object]:
    elements: list[object] = []
    while (element := gate.poll()) is not None:
        elements.append(element[1])
        gate.check()
    return elements


def test_an_unaligned_barrier_is_read_before_data_even_of_a_blocked_channel() -> None:
    gate = requested_gate(channels=2, exclusive=4)
    give(gate, batch_ref("a"))
    give(gate, batch_ref("b"), unaligned(1), batch_ref("c"), channel=1)
    gate.block(1)

    first = gate.poll()
    gate.check()
    gate.unblock_all()

    assert first == (1, unaligned(1))
    assert read_all(gate) == [batch_ref("a"), batch_ref("b"), batch_ref("c")]


def test_only_buffers_before_the_barrier_are_in_flight() -> None:
    gate = requested_gate(channels=2, exclusive=4)
    give(gate, batch_ref("a"), unaligned(1), batch_ref("b"))
    give(gate, batch_ref("c"), channel=1)

    queued = persisted_batches(gate, 1)
    arriving = give(gate, batch_ref("d"), unaligned(1), batch_ref("e"), first=1, channel=1)

    assert queued == ["a", "c"]
    assert arriving == ["d"]


def test_a_stopped_checkpoint_has_no_in_flight_data() -> None:
    gate = requested_gate(channels=1, exclusive=4)
    persisted_batches(gate, 1)

    gate.stop_persisting()

    assert give(gate, batch_ref("a")) == []


def test_an_announced_barrier_overtakes_when_it_is_prioritized() -> None:
    gate = requested_gate(channels=1, exclusive=4)
    give(gate, batch_ref("a"), timing_out(1), batch_ref("b"))
    announcement = gate.poll()

    gate.prioritize(0, 1)
    gate.check()

    assert announcement == (0, announced(1))
    assert read_all(gate) == [unaligned(1, TIMEOUT_MS), batch_ref("a"), batch_ref("b")]


@pytest.mark.parametrize("is_prioritized", [False, True])
def test_a_barrier_that_was_already_read_is_not_read_again(is_prioritized: bool) -> None:
    gate = requested_gate(channels=1, exclusive=4)
    give(gate, timing_out(1))

    assert read_all(gate) == [announced(1), timing_out(1)]
    if is_prioritized:
        gate.prioritize(0, 1)
    assert gate.poll() is None


def test_the_barrier_of_an_ended_checkpoint_keeps_its_position() -> None:
    gate = requested_gate(channels=1, exclusive=4)
    give(gate, batch_ref("a"), timing_out(1), batch_ref("b"), timing_out(2))
    for _ in range(2):
        gate.poll()

    gate.prioritize(0, 2)
    gate.check()

    assert read_all(gate) == [unaligned(2, TIMEOUT_MS), batch_ref("a"), timing_out(1), batch_ref("b")]
