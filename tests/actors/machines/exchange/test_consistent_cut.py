"""The law of all checkpoints: the batches read before a snapshot plus its in-flight batches are exactly the batches
sent before the barriers, each once. The law holds for every kind of barrier and every order of arrivals, reads and
timeouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierEvent,
    BlockChannel,
    PrioritizeBarrier,
    StartPersisting,
    StopPersisting,
    UnblockAllChannels,
)
from flykka.actors.machines.exchange.effects import GateEffect, PersistInFlight
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import AlignmentTimeoutDue, BatchRef, Buffer, CheckpointBarrier, EndOfPartition
from tests.actors.machines.exchange.builders import batch_ref, requested_gate, response

CHANNELS = 3
KINDS = (
    CheckpointOptions(),
    CheckpointOptions(alignment=AlignmentType.UNALIGNED),
    CheckpointOptions(aligned_timeout_ms=10),
)


@dataclass
class Checkpoint:
    read: set[str] = field(default_factory=set)
    in_flight: list[str] = field(default_factory=list)
    is_complete: bool = False


class Task:
    """A gate and its barrier handler, connected as in a task."""

    def __init__(self, streams: list[list[Buffer]]) -> None:
        self.gate = requested_gate(channels=CHANNELS, exclusive=50)
        self.aligner = BarrierAligner(CHANNELS)
        self.left = [list(enumerate(stream)) for stream in streams]
        self.timers: set[int] = set()
        self.checkpoints: dict[int, Checkpoint] = {}
        self.read: set[str] = set()

    def arrive(self, channel: int) -> None:
        number, buffer = self.left[channel].pop(0)
        self._note(self.gate.on_buffer(response(buffer, number, channel)))
        self.gate.check()

    def poll(self) -> None:
        element = self.gate.poll()
        self.gate.check()
        assert element is not None
        channel, buffer = element
        if isinstance(buffer, BatchRef):
            self.read.add(buffer.batch_id)
        elif isinstance(buffer, BarrierEvent):
            self._perform(self.aligner.handle(channel, buffer, 0))

    def time_out(self, checkpoint_id: int) -> None:
        self.timers.remove(checkpoint_id)
        self._perform(self.aligner.time_out(checkpoint_id))

    def _perform(self, actions: list[BarrierAction]) -> None:
        self.aligner.check()
        is_unaligned = False
        for action in actions:
            match action:
                case StartPersisting(checkpoint_id=checkpoint_id):
                    is_unaligned = True
                    self.checkpoints[checkpoint_id] = Checkpoint(read=set(self.read))
                    self._note(self.gate.start_persisting(checkpoint_id))
                case StopPersisting(checkpoint_id=checkpoint_id, is_complete=is_complete):
                    self.gate.stop_persisting()
                    self.checkpoints[checkpoint_id].is_complete = is_complete
                case CheckpointBarrier(checkpoint_id=checkpoint_id) if not is_unaligned:
                    self.checkpoints[checkpoint_id] = Checkpoint(read=set(self.read), is_complete=True)
                case BlockChannel(channel=channel):
                    self.gate.block(channel)
                case UnblockAllChannels():
                    self.gate.unblock_all()
                case PrioritizeBarrier(channel=channel, checkpoint_id=checkpoint_id):
                    self.gate.prioritize(channel, checkpoint_id)
                case StartTimer(message=AlignmentTimeoutDue(checkpoint_id=checkpoint_id)):
                    self.timers.add(checkpoint_id)
                case CheckpointBarrier() | AbortCheckpointOnBarrier():
                    pass
            self.gate.check()

    def _note(self, effects: Sequence[GateEffect]) -> None:
        for effect in effects:
            if isinstance(effect, PersistInFlight):
                self.checkpoints[effect.checkpoint_id].in_flight.append(effect.batch.batch_id)


@st.composite
def jobs(draw: st.DrawFn) -> list[list[Buffer]]:
    """Draw for each channel its batches, the barriers of some checkpoints in order, and the end of the channel."""
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    streams: list[list[Buffer]] = []
    for channel in range(CHANNELS):
        stream: list[Buffer] = []
        for checkpoint_id, options in enumerate(kinds, 1):
            for _ in range(draw(st.integers(0, 2))):
                stream.append(batch_ref(f"{channel}.{len(stream)}"))
            if draw(st.integers(0, 9)):
                stream.append(CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0, options=options))
        streams.append([*stream, EndOfPartition()])
    return streams


def before_the_barrier(stream: list[Buffer], checkpoint_id: int) -> set[str]:
    names = set()
    for buffer in stream:
        if isinstance(buffer, CheckpointBarrier) and buffer.checkpoint_id == checkpoint_id:
            break
        if isinstance(buffer, BatchRef):
            names.add(str(buffer.batch_id))
    return names


@given(streams=jobs(), data=st.data())
def test_a_checkpoint_has_every_batch_before_its_barriers_once(
    streams: list[list[Buffer]], data: st.DataObject
) -> None:
    task = Task(streams)

    while any(task.left) or task.gate.has_data:
        moves = [("arrive", channel) for channel in range(CHANNELS) if task.left[channel]]
        moves += [("poll", 0)] if task.gate.has_data else []
        moves += [("time out", checkpoint_id) for checkpoint_id in sorted(task.timers)]
        move, number = data.draw(st.sampled_from(moves))
        match move:
            case "arrive":
                task.arrive(number)
            case "poll":
                task.poll()
            case _:
                task.time_out(number)

    for checkpoint_id, checkpoint in task.checkpoints.items():
        if checkpoint.is_complete:
            wanted = set().union(*(before_the_barrier(stream, checkpoint_id) for stream in streams))
            assert sorted([*checkpoint.read, *checkpoint.in_flight]) == sorted(wanted)
