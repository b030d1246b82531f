"""Area 09, receiver: the channels of one gate, and the credits that they share.

The channels are driven without their gate, which would announce credits at once, because the case decides when credits
are sent. Cases about the view of the gate or of the producer drive the gate.
"""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.exchange.credits import ChannelCredits, FloatingCredits
from flykka.actors.machines.exchange.effects import (
    ChannelFailed,
    ChannelFailureKind,
    GateEffect,
    ReleaseBatch,
    RequestPartition,
)
from flykka.actors.machines.exchange.input_channel import InputChannel, PartitionRequestBackoff
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.messages.tasks.exchange import AddCredit, BatchRef, Buffer, CancelPartitionRequest, CheckpointBarrier
from tests.actors.machines.exchange.builders import (
    CONSUMER,
    announcement,
    batch_ref,
    gate_descriptor,
    partition,
    partition_id,
    requested_gate,
    response,
)
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

PLENTY = 1000
ERRORS = {
    None: None,
    ChannelFailureKind.CREDIT_OVERRUN: "no_buffer_for_data",
    ChannelFailureKind.SEQUENCE_MISMATCH: "sequence_mismatch",
    ChannelFailureKind.NOT_REQUESTED: "illegal_state",
}
GATE_WORDS = {
    "next_read",
    "gate_notified_times",
    "buffers_freed_on_release",
}
REQUEST = "request_partition"
STEP = {"do", "channel", "n", "seq", "backlog", "writable", "want"}


class Receiver:
    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, {"kind", "floating", "channels", "not_requested", "raises_on_data"})
        self.pool = FloatingCredits(PLENTY if given["floating"] == "plenty" else given["floating"])
        self.raising = given.get("raises_on_data", [])
        descriptors = gate_descriptor(len(given["channels"])).channels
        self.channels = {
            name: InputChannel(
                number,
                descriptors[number],
                ChannelCredits(number, exclusive, self.pool),
                PartitionRequestBackoff(),
            )
            for number, (name, exclusive) in enumerate(given["channels"].items())
        }
        self.sent: list[list[Any]] = []
        self.failures: dict[str, ChannelFailed] = {}
        self.unwritable: set[str] = set()
        asked = {step.get("channel", "c") for step in case["steps"] if step["do"] == "request_partition"}
        for name, channel in self.channels.items():
            if name not in asked and name not in given.get("not_requested", []):
                channel.request()

    def do(self, step: Case) -> None:
        only_known_words("step", step, STEP)
        name = step.get("channel", "c")
        match step:
            case {"do": "send_credits"}:
                for announced in [name] if "channel" in step else self.channels:
                    self._announce(announced)
            case {"do": "take_floating"}:
                assert self.pool.take_up_to(step.get("n", 1)) == step.get("n", 1)
            case {"do": "return_floating"}:
                for _ in range(step.get("n", 1)):
                    self._available_to(self.pool.give_back())
            case {"do": "connection", "writable": writable}:
                for connected in [name] if "channel" in step else self.channels:
                    (self.unwritable.discard if writable else self.unwritable.add)(connected)
                    self._announce(connected)
            case _:
                self._do_on(name, self.channels[name], step)

    def value(self, word: str, channel: InputChannel, name: str) -> Any:
        credits_ = channel.credits
        match word:
            case "available":
                return credits_.available
            case "required":
                return credits_.required
            case "waiting":
                return credits_.is_waiting
            case "unannounced":
                return credits_.unannounced
            case "queued":
                return len(channel.queue)
            case "error":
                failure = self.failures.get(name)
                return "raised" if failure and name in self.raising else ERRORS[failure.kind if failure else None]
            case "exclusive_returned_to_global":
                held = credits_.available + credits_.in_use
                return credits_.exclusive - held
            case _:
                raise UnknownWordError(f"want: {word}")

    def expect(self, want: Case) -> None:
        for word, wanted in want.items():
            match word:
                case "pool_free":
                    assert self.pool.free == wanted
                case "sent":
                    assert self.sent == wanted
                case _:
                    by_name = wanted if isinstance(wanted, dict) else {"c": wanted}
                    got = {name: self.value(word, self.channels[name], name) for name in by_name}
                    assert got == by_name, word
        for channel in self.channels.values():
            channel.check()
        self.pool.check()

    def finish(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "connection_usable":
                others = [name for name in self.channels if name not in self.failures]
                for name in others:
                    self._data(name, self.channels[name].next_sequence_number, 0, batch_ref(name))
                assert (not set(others) & self.failures.keys()) == wanted
            case "read_from_gate":
                (failed,) = self.failures
                assert wanted == f"raises the error of {failed}"
            case _:
                raise UnknownWordError(f"expect: {word}")

    def _do_on(self, name: str, channel: InputChannel, step: Case) -> None:
        match step:
            case {"do": "request_partition"}:
                self.sent.append(["request", name, channel.request().credit])
            case {"do": "take_exclusive"}:
                for _ in range(step.get("n", 1)):
                    assert channel.credits.spend()
            case {"do": "return_exclusive"}:
                for _ in range(step.get("n", 1)):
                    self._available_to(channel.credits.give_back())
            case {"do": "backlog", "n": n}:
                channel.credits.on_backlog(n)
            case {"do": "data", "seq": sequence_number, "backlog": backlog}:
                if name in self.raising:
                    # The only error that receiving data may raise is a missing buffer.
                    while channel.credits.spend():
                        pass
                if backlog is None:
                    # No new data waits, so the backlog is one less than before.
                    backlog = max(channel.credits.required - channel.credits.exclusive - 1, 0)
                self._data(name, sequence_number, backlog, batch_ref(f"{sequence_number}"))
            case {"do": "aligned_barrier", "seq": sequence_number, "backlog": backlog}:
                self._data(name, sequence_number, backlog, CheckpointBarrier(checkpoint_id=1, timestamp_ms=0))
            case {"do": "resume_consumption"}:
                pass  # The sender has not stopped.
            case {"do": "release"}:
                for taker in channel.credits.release():
                    self._available_to(taker)
            case _:
                raise UnknownWordError(f"step: {step}")

    def _data(self, name: str, sequence_number: int, backlog: int, buffer: Buffer) -> None:
        channel = self.channels[name]
        if not channel.credits.outstanding:
            # The next data was sent for a credit that its sender knows.
            self._announce(name)
        failure = channel.on_buffer(response(buffer, sequence_number, channel.channel, backlog))
        if failure is not None:
            self.failures[name] = failure

    def _available_to(self, taker: ChannelCredits | None) -> None:
        """Give a channel another credit. An open channel announces the credit to its producer when the case requires
        it.
        """
        if taker is None:
            return
        name = list(self.channels)[taker.channel]
        effect = None if self.channels[name].is_open else self.channels[name].on_credit_available()
        if isinstance(effect, ChannelFailed):
            self.failures[name] = effect

    def _announce(self, name: str) -> None:
        if name not in self.unwritable and self.channels[name].credits.unannounced:
            announced = self.channels[name].announce().message
            assert isinstance(announced, AddCredit)
            self.sent.append(["credit", name, announced.credit])


def run_receiver(case: Case) -> None:
    given = case["given"]
    if GATE_WORDS & case["expect"].keys() or all(step["do"] == REQUEST for step in case["steps"]):
        _run_gate(case)
        return
    if not given["channels"] or not given.get("channel_known_to_connection_after_release", True):
        _run_unknown_channel(case)
        return
    receiver = Receiver(case)
    for step in case["steps"]:
        receiver.do(step)
        receiver.expect(step.get("want", {}))
    for word, wanted in case["expect"].items():
        receiver.finish(word, wanted)


def _run_gate(case: Case) -> None:
    """Run a case with a gate of one channel, `c`."""
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"kind", "floating", "channels", "channel_known_to_connection_after_release"})
    gate = InputGate([gate_descriptor(1)], given["channels"]["c"], given["floating"])
    effects = gate.request_partitions()
    times_notified = 0

    for step in case["steps"]:
        only_known_words("step", step, STEP)
        match step:
            case {"do": "data", "seq": sequence_number, "backlog": backlog}:
                had_data = gate.has_data
                effects += gate.on_buffer(response(batch_ref(f"{sequence_number}"), sequence_number, 0, backlog))
                times_notified += (gate.has_data and not had_data) or gate.failure is not None
            case {"do": "backlog", "n": n}:
                effects += gate.on_backlog(announcement(n))
            case {"do": "request_partition"}:
                # The gate has already requested the partition.
                effects += gate.request_partitions()
            case _:
                raise UnknownWordError(f"step: {step}")
        for word, wanted in step.get("want", {}).items():
            match word:
                case "queued":
                    assert len(gate.channels[0].queue) == wanted
                case "error":
                    assert ERRORS[gate.failure.kind if gate.failure else None] == wanted
                case "available":
                    assert gate.channels[0].credits.available == wanted
                case "required":
                    assert gate.channels[0].credits.required == wanted
                case "pool_free":
                    assert gate.floating[0].free == wanted
                case "sent":
                    sent = [effect for effect in effects if isinstance(effect, RequestPartition)]
                    assert [["request", "c", each.credit] for each in sent] == wanted
                case _:
                    raise UnknownWordError(f"want: {word}")

    for word, wanted in expect.items():
        match word:
            case "next_read":
                assert gate.poll() is None
                assert gate.failure is not None
            case "gate_notified_times":
                assert times_notified == wanted
            case "buffers_freed_on_release":
                # Buffers that are not released at once are held, and released with the task.
                held = {queued.buffer for queued in gate.channels[0].queue}
                assert (_arrived_batches(case) == _released_batches(effects) | held) == wanted
            case "all_wants_hold":
                pass
            case _:
                raise UnknownWordError(f"expect: {word}")


def _run_unknown_channel(case: Case) -> None:
    """Run a case in which a producer sends to a gate without a channel for it, and gets the gate's cancel requests."""
    gate, producer = requested_gate(1), partition(producer=7)
    producer.request(0, 1, CONSUMER)
    cancels: list[CancelPartitionRequest] = []
    released = was_sent = 0
    effects: list[GateEffect] = []
    for step in case["steps"]:
        match step:
            case {"do": "data", "seq": sequence_number, "backlog": backlog}:
                assert step.get("channel", "c") in ("unknown", "c")
                effects = gate.on_buffer(response(batch_ref(), sequence_number, 7, backlog))
                messages = [effect.message for effect in effects if isinstance(effect, Tell)]
                cancels = [each for each in messages if isinstance(each, CancelPartitionRequest)]
                was_sent = len(cancels)
                assert {cancel.partition_id for cancel in cancels} <= {partition_id(7)}
                only_known_words("want", step.get("want", {}), {"queued"})
                assert sum(len(channel.queue) for channel in gate.channels) == step.get("want", {}).get("queued", 0)
            case {"do": "release"}:
                pass  # The channel is not among those of the gate.
            case {"do": "send_cancel_again"}:
                cancels *= 2
            case _:
                raise UnknownWordError(f"step: {step}")
    for cancel in cancels:
        was_consumed = producer.all_consumed
        producer.cancel(cancel.subpartition)
        released += producer.all_consumed and not was_consumed
    shown = {
        "producer_view_released_times": released,
        "producer_view_consumed_notifications": released,
        "cancel_sent_to_producer": was_sent == 1,
        "buffer_leaked": ReleaseBatch(batch=batch_ref()) not in effects,
    }
    only_known_words("expect", case["expect"], set(shown))
    assert {word: shown[word] for word in case["expect"]} == case["expect"]


def _arrived_batches(case: Case) -> set[BatchRef]:
    return {batch_ref(f"{step['seq']}") for step in case["steps"] if step["do"] == "data"}


def _released_batches(effects: list[Any]) -> set[BatchRef]:
    return {effect.batch for effect in effects if isinstance(effect, ReleaseBatch)}
