"""Area 09, channel_queue: the elements of a channel, the order in which they are read, and those in flight."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.exchange.checkpoint_barrier_handler import BarrierAnnouncement
from flykka.actors.machines.exchange.credits import ChannelCredits, FloatingCredits
from flykka.actors.machines.exchange.input_channel import InputChannel, PartitionRequestBackoff
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import BatchRef, Buffer, CheckpointBarrier
from flykka.messages.wire.ids import BatchId
from tests.actors.machines.exchange.builders import gate_descriptor, response
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

CHECKPOINT = 1
OPTIONS = {
    "unaligned_barrier": CheckpointOptions(alignment=AlignmentType.UNALIGNED),
    "aligned_barrier_with_timeout": CheckpointOptions(aligned_timeout_ms=1_000),
    "aligned_barrier": CheckpointOptions(),
}
AROUND_THE_OVERFLOW = range(2**31 - 11, 2**31 + 3)


class Channel:
    """A channel whose sender begins with the sequence number `first`; an element is named by its index."""

    def __init__(self, first: int, elements: int) -> None:
        [descriptor] = gate_descriptor().channels
        credit = ChannelCredits(0, elements, FloatingCredits(0))
        self._channel = InputChannel(0, descriptor, credit, PartitionRequestBackoff(0, 0))
        self._channel.request()
        self._channel.next_sequence_number = first
        self._first = first
        self.read: list[list[Any]] = []

    def do(self, word: str, *details: int) -> None:
        match (word, *details):
            case ("data", int(size)):
                self._receive(BatchRef(batch_id=BatchId(str(size)), rows=1, size_bytes=size))
            case (barrier,) if barrier in OPTIONS:
                options = OPTIONS[barrier]
                self._receive(CheckpointBarrier(checkpoint_id=CHECKPOINT, timestamp_ms=0, options=options))
            case ("read", int(count)):
                for _ in range(count):
                    self.take()
            case unknown:
                raise UnknownWordError(f"step: {unknown}")

    def take(self) -> None:
        queued = (self._channel.priority or self._channel.queue)[0]
        number = queued.sequence_number - self._first
        self._channel.take()
        match queued.buffer:
            case BarrierAnnouncement():
                self.read.append([number, "announcement"])
            case CheckpointBarrier():
                self.read.append([number, "barrier"])
            case _:
                self.read.append([number, "data"])
        self._channel.check()

    def in_flight(self) -> list[int]:
        return [batch.size_bytes for batch in self._channel.in_flight(CHECKPOINT)]

    def _receive(self, buffer: Buffer) -> None:
        failed = self._channel.on_buffer(response(buffer, self._channel.next_sequence_number))
        assert failed is None, failed
        self._channel.check()


def run_channel_queue(case: Case) -> None:
    only_known_words("given", case["given"], {"kind"})
    expect = dict(case["expect"])
    firsts = (
        AROUND_THE_OVERFLOW if expect.pop("for_every_starting_sequence_around_the_integer_overflow", False) else [0]
    )
    for first in firsts:
        channel = Channel(first, len(case["steps"]))
        for step in case["steps"]:
            channel.do(*step)
        in_flight = channel.in_flight()
        for word, wanted in expect.items():
            match word:
                case "in_flight":
                    assert in_flight == wanted
                case "read_order":
                    while len(channel.read) < len(wanted):
                        channel.take()
                    assert [
                        _names_of_elements(read, like) for read, like in zip(channel.read, wanted, strict=True)
                    ] == wanted
                case _:
                    raise UnknownWordError(f"expect: {word}")


def _names_of_elements(read: list[Any], like: Any) -> Any:
    """Return the elements that were read, with their kind if the case specifies it."""
    return read if isinstance(like, list) else read[0]
