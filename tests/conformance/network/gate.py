"""Area 09, gates and unions of gates: the elements that are read, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from typing import Any

from flykka.actors.machines.exchange.checkpoint_barrier_handler import BarrierAnnouncement
from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR, ChannelFailureKind
from flykka.actors.machines.exchange.input_gate import EndOfDataStatus, InputGate
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import BatchRef, Buffer, CheckpointBarrier, EndOfData, EndOfPartition, Watermark
from tests.actors.machines.exchange.builders import (
    announcement,
    batch_ref,
    error,
    gate_descriptor,
    partition_id,
    response,
)
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

PLENTY = 1000

ERRORS = {
    ChannelFailureKind.PARTITION_NOT_FOUND: "PARTITION_NOT_FOUND",
    ChannelFailureKind.PRODUCER_FAILED: "CANCEL_TASK",
    ChannelFailureKind.PARTITION_CONNECTION: "PARTITION_CONNECTION",
}


def _element(word: str | list[str]) -> Buffer:
    match word:
        case "data":
            return batch_ref()
        case "end_of_data" | ["end_of_data", "drain"]:
            return EndOfData(drain=True)
        case ["end_of_data", "no_drain"]:
            return EndOfData(drain=False)
        case "end":
            return EndOfPartition()
        case "event":
            return Watermark(timestamp_ms=0)
        case "aligned_barrier":
            return CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
        case "unaligned_barrier":
            options = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
            return CheckpointBarrier(checkpoint_id=1, timestamp_ms=0, options=options)
        case _:
            raise UnknownWordError(f"element: {word}")


def _word(buffer: Buffer | BarrierAnnouncement) -> str:
    match buffer:
        case BatchRef():
            return "data"
        case EndOfData():
            return "end_of_data"
        case EndOfPartition():
            return "end"
        case Watermark():
            return "event"
        case CheckpointBarrier(options=CheckpointOptions(alignment=AlignmentType.UNALIGNED)):
            return "unaligned_barrier"
        case CheckpointBarrier():
            return "aligned_barrier"
        case _:
            raise UnknownWordError(f"element: {buffer}")


class Feed:
    """Sends elements to the channels of a gate, numbered as their producers would number them."""

    def __init__(self, reader: InputGate) -> None:
        self._reader = reader
        self._next: dict[int, int] = {}

    def give(self, channel: int, words: Iterable[str | list[str]]) -> None:
        for word in words:
            number = self._next.get(channel, 0)
            self._next[channel] = number + 1
            self._reader.on_buffer(response(_element(word), number, channel))
            self._reader.check()


class Gate:
    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "channels", "notified_in_order"})
        channels = given["channels"]
        self.waiting_reader: str | None = None
        self.gate = InputGate([gate_descriptor(len(channels))], PLENTY, 0, initial_backoff_ms=0)
        self.gate.request_partitions()
        self.read: list[list[Any]] = []
        self._statuses: list[EndOfDataStatus] = []
        self._finished: list[bool] = []
        self._feed = Feed(self.gate)
        for channel in given.get("notified_in_order", range(len(given["channels"]))):
            words = channels[str(channel)]
            # There is only one type of channel in flykka.
            self._feed.give(channel, [] if words in ("local", "remote") else words)

    def poll(self) -> str | None:
        element = self.gate.poll()
        self.gate.check()
        if element is None:
            return None
        channel, buffer = element
        self.read.append([_word(buffer), channel, self.gate.has_data])
        self._statuses.append(self.gate.end_of_data_status)
        self._finished.append(self.gate.is_finished)
        return _word(buffer)

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "channel", "in", "checkpoint", "error", "want"})
        match step:
            case {"do": "read_blocking"}:
                # The waiter is a task with no data to read, which is notified when data arrives.
                assert not self.gate.is_available
                self.waiting_reader = "waits"
            case {"do": "read_all"}:
                while self.poll() is not None:
                    pass
            case {"do": "read", "want": wanted}:
                self.poll()
                assert self.gate.end_of_data_status.name == wanted
            case {"do": "read"}:
                self.poll()
            case {"do": "poll", "want": wanted}:
                assert self.poll() == wanted
            case {"do": "available", "want": wanted}:
                assert self.gate.is_available == wanted
            case {"do": "data" | "end" | "event" | "aligned_barrier" | "unaligned_barrier" as word, "channel": channel}:
                self._feed.give(channel, [word])
                if "want" in step:
                    assert sum(len(each.queue) for each in self.gate.channels) == step["want"]
            case {"do": "notify", "channel": channel}:
                self.gate.on_backlog(announcement(0, channel))
            case {"do": "channel_error", "channel": channel, "error": "PARTITION_NOT_FOUND"}:
                text = f"{partition_id(channel)} is not here"
                self.gate.on_error(error(message=text, channel=channel, not_found=True))
            case {"do": "channel_error", "channel": channel, "error": "CANCEL_TASK"}:
                self.gate.on_error(error(PRODUCER_FAILED_ERROR, "the producer has failed", channel))
            case _:
                raise UnknownWordError(f"step: {step}")

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "read":
                assert self.read == wanted
            case "finished":
                assert self.gate.is_finished == wanted
            case "drained_after_read_index":
                assert self._statuses.index(EndOfDataStatus.DRAINED) == wanted
            case "not_finished_after_read_index":
                assert not self._finished[wanted]
            case "reader_returns":
                assert (self.waiting_reader != "waits") == wanted
            case "error":
                assert error_word(self.gate) == wanted
            case "error_names_partition":
                assert self.gate.failure is not None
                assert (partition_id() in self.gate.failure.cause.message) == wanted
            case "all_wants_hold" | "the_first_availability_future_is_the_one_completed":
                pass  # There is no future, because the message that brings the data notifies the reader.
            case _:
                raise UnknownWordError(f"expect: {word}")


def run_gate(case: Case) -> None:
    gate = Gate(case["given"])
    for step in case["steps"]:
        gate.do(step)
    for word, wanted in case["expect"].items():
        gate.expect(word, wanted)


def error_word(gate: InputGate) -> str | None:
    return None if gate.failure is None else ERRORS[gate.failure.kind]


class Union:
    """The gates of one task, whose channels are numbered consecutively."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "gates", "notified"})
        if given.get("notified") not in (None, "all channels of g1 in order, then all of g2"):
            raise UnknownWordError(f"notified: {given['notified']}")
        self.sizes = [len(channels) for channels in given["gates"].values()]
        descriptors = [
            gate_descriptor(size, number, sum(self.sizes[:number])) for number, size in enumerate(self.sizes)
        ]
        self.names = list(given["gates"])
        self.union = InputGate(descriptors, PLENTY, 0)
        self.union.request_partitions()
        self.read: list[list[Any]] = []
        self._feed = Feed(self.union)
        for number, words in enumerate(words for gate in given["gates"].values() for words in gate.values()):
            self._feed.give(number, words)

    def poll(self) -> str | None:
        element = self.union.poll()
        self.union.check()
        if element is None:
            return None
        self.read.append([_word(element[1]), element[0]])
        return _word(element[1])

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "gate", "channel", "want"})
        match step:
            case {"do": "read_all"}:
                while self.poll() is not None:
                    pass
            case {"do": "poll", "want": wanted}:
                assert self.poll() == wanted
            case {"do": "available", "want": wanted}:
                assert self.union.is_available == wanted
            case {"do": "data" | "end" as word, "gate": gate, "channel": channel}:
                self._feed.give(sum(self.sizes[: self.names.index(gate)]) + channel, [word])
            case _:
                raise UnknownWordError(f"step: {step}")

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "read":
                assert self.read == wanted
            case "finished":
                assert self.union.is_finished == wanted
            case "channel_index":
                assert wanted == "channels of g2 are numbered after those of g1"
                numbered = [number for number, size in enumerate(self.sizes) for _ in range(size)]
                assert [self.union.gate_of(channel) for channel in range(len(self.union.channels))] == numbered
            case _:
                raise UnknownWordError(f"expect: {word}")


def run_union_gate(case: Case) -> None:
    union = Union(case["given"])
    for step in case["steps"]:
        union.do(step)
    for word, wanted in case["expect"].items():
        union.expect(word, wanted)


def run_gate_property(case: Case) -> None:
    """Run a case about fairness: no channel is read twice while another channel with data waits."""
    given = case["given"]
    only_known_words(
        "given", given, {"kind", "channels", "data_per_channel", "then", "channel_kind", "start", "refill"}
    )
    [step] = case["steps"]
    only_known_words("step", step, {"do", "times"})
    if step["do"] not in ("read_all", "read"):
        raise UnknownWordError(f"step: {step}")
    channels = given["channels"]
    every = count = 0
    gate = InputGate([gate_descriptor(channels)], PLENTY, 0)
    gate.request_partitions()
    feed = Feed(gate)
    random = Random(0)
    refills = "refill" in given
    if refills:
        refill = re.fullmatch(r"every (\d+) reads (\d+) elements per channel in random order", given["refill"])
        if refill is None or given["start"] != "one element in one channel":
            raise UnknownWordError(f"given: {given}")
        every, count = (int(figure) for figure in refill.groups())
        feed.give(channels // 3, ["data"])
    else:
        if given["then"] != "end in each":
            raise UnknownWordError(f"given: {given}")
        for channel in range(channels):
            feed.give(channel, ["data"] * given["data_per_channel"] + ["end"])

    reads = 0
    while reads < step.get("times", PLENTY * PLENTY) and gate.poll() is not None:
        lengths = [len(channel.queue) for channel in gate.channels]
        assert max(lengths) - min(lengths) <= 1
        if refills and reads % every == 0:
            for channel in random.sample([*range(channels)] * count, count * channels):
                feed.give(channel, ["data"])
        reads += 1

    only_known_words("expect", case["expect"], {"after_every_read", "reads", "then"})
    assert reads == case["expect"].get("reads", step.get("times", reads))
