"""Area 09, receiver: the channels of one gate and the credits they share.

The channels are driven below the gate, which would announce credits at once: a case says when they are sent.
"""

from __future__ import annotations

from typing import Any

from flykka.actors.exchange.credits import ChannelCredits, FloatingCredits
from flykka.actors.exchange.effects import ChannelFailed, ChannelFailureKind, ReleaseBatch, TellProducer
from flykka.actors.exchange.input_channel import InputChannel
from flykka.actors.exchange.input_gate import InputGate
from flykka.actors.exchange.partition_request import PartitionRequestBackoff
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import AddCredit, CancelPartitionRequest
from tests.actors.exchange.builders import batch, gate_descriptor, response
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

ERRORS = {
    None: None,
    ChannelFailureKind.CREDIT_OVERRUN: "no_buffer_for_data",
    ChannelFailureKind.SEQUENCE_MISMATCH: "sequence_mismatch",
}
GATE_WORDS = {
    "next_read",
    "gate_notified_times",
    "buffers_freed_on_release",
    "cancel_sent_to_producer",
    "buffer_leaked",
}


class Receiver:
    """Channels by their names in the case."""

    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, {"kind", "floating", "channels"})
        self.pool = FloatingCredits(given["floating"])
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
            if name not in asked:
                channel.request()

    def do(self, step: Case) -> None:
        name = step.get("channel", "c")
        match step:
            case {"do": "send_credits"}:
                for announced in [name] if "channel" in step else self.channels:
                    self._announce(announced)
            case {"do": "take_floating"}:
                assert self.pool.take(1) == 1
            case {"do": "return_floating"}:
                self.pool.give_back()
            case {"do": "connection", "writable": writable}:
                (self.unwritable.discard if writable else self.unwritable.add)(name)
                self._announce(name)
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
                return ERRORS[failure.kind if failure else None]
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

    def _do_on(self, name: str, channel: InputChannel, step: Case) -> None:
        match step:
            case {"do": "request_partition"}:
                self.sent.append(["request", name, channel.request().credit])
            case {"do": "take_exclusive"}:
                assert channel.credits.spend()
            case {"do": "return_exclusive"}:
                channel.credits.give_back()
            case {"do": "backlog", "n": n}:
                channel.credits.on_backlog(n)
            case {"do": "data", "seq": sequence_number, "backlog": backlog}:
                failure = channel.on_buffer(response(batch(), sequence_number, channel.channel, backlog))
                if failure is not None:
                    self.failures[name] = failure
            case {"do": "release"}:
                channel.credits.release()
                channel.release()
            case _:
                raise UnknownWordError(f"step: {step}")

    def _announce(self, name: str) -> None:
        if name not in self.unwritable and self.channels[name].credits.unannounced:
            announced = self.channels[name].announce().message
            assert isinstance(announced, AddCredit)
            self.sent.append(["credit", name, announced.credit])


def run_receiver(case: Case) -> None:
    """Run a case about channels and credits alone."""
    receiver = Receiver(case)
    for step in case["steps"]:
        receiver.do(step)
        receiver.expect(step.get("want", {}))
    only_known_words("expect", case["expect"], {"all_wants_hold"})


def run_receiving_gate(case: Case) -> None:
    """Run a case that speaks of what the gate and the producer see: one channel, `c`, of a whole gate."""
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"kind", "floating", "channels", "channel_known_to_connection_after_release"})
    gate = InputGate(gate_descriptor(1), given["channels"]["c"], given["floating"])
    gate.request_partitions()
    effects = []
    times_notified = 0

    for step in case["steps"]:
        match step:
            case {"do": "data", "seq": sequence_number, "backlog": backlog}:
                effects += gate.on_buffer(response(batch(f"{sequence_number}"), sequence_number, 0, backlog))
                times_notified += gate.has_data or gate.failure is not None
            case {"do": "release"}:
                effects += gate.release()
            case _:
                raise UnknownWordError(f"step: {step}")
        for word, wanted in step.get("want", {}).items():
            match word:
                case "queued":
                    assert len(gate.channels[0].queue) == wanted
                case "error":
                    assert ERRORS[gate.failure.kind if gate.failure else None] == wanted
                case _:
                    raise UnknownWordError(f"want: {word}")

    for word, wanted in expect.items():
        match word:
            case "next_read":
                assert gate.poll() is None
                assert gate.failure is not None
            case "gate_notified_times":
                assert times_notified == wanted
            case "cancel_sent_to_producer":
                cancels = [e for e in effects if isinstance(e, TellProducer) and _is_cancel(e)]
                assert bool(cancels) == wanted
            case "buffer_leaked":
                assert (_arrived(case) != _released(effects)) == wanted
            case "buffers_freed_on_release":
                assert (_arrived(case) == _released([*effects, *gate.release()])) == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")


def _is_cancel(effect: TellProducer) -> bool:
    return isinstance(effect.message, CancelPartitionRequest)


def _arrived(case: Case) -> set[BatchRef]:
    return {batch(f"{step['seq']}") for step in case["steps"] if step["do"] == "data"}


def _released(effects: list[Any]) -> set[BatchRef]:
    return {effect.batch for effect in effects if isinstance(effect, ReleaseBatch)}
