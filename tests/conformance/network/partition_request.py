"""Area 09, partition requests: how a gate asks, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flykka.actors.exchange.effects import RequestPartition, RetryRequest, Send
from flykka.actors.exchange.input_gate import InputGate
from flykka.messages.exchange import ErrorResponse
from tests.actors.exchange.builders import CONSUMER, error, gate_descriptor, partition
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.network.gate import error_word
from tests.conformance.network.sender import CAUSE

BACKOFF = {"initial_backoff_ms", "max_backoff_ms"}
CREDITS = {"exclusive", "exclusive_per_channel", "floating_per_gate"}


class Requester:
    """A gate of one channel, and the partition that it asks for."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "local", "channels"} | BACKOFF | CREDITS)
        exclusive: int = given["exclusive"] if "exclusive" in given else given.get("exclusive_per_channel", 2)
        self.gate = InputGate(
            gate_descriptor(len(given.get("channels", ["remote"]))),
            exclusive,
            given.get("floating_per_gate", 8),
            initial_backoff_ms=given.get("initial_backoff_ms", 0),
            max_backoff_ms=given.get("max_backoff_ms", 0),
        )
        self.requests: list[RequestPartition] = []
        self.delays_ms: list[int] = []
        self._partition = partition()

    def do(self, step: Case) -> None:
        match step:
            case {"do": "request"}:
                self._requested(self.gate.request_partitions(), 0)
            case {"do": "setup", "want": want}:
                self._requested(self.gate.request_partitions(), 0)
                for word, wanted in want.items():
                    assert self._value(word) == wanted
            case {"do": "retrigger"}:
                for effect in self.gate.on_error(error(not_found=True)):
                    if isinstance(effect, RetryRequest):
                        self._requested(self.gate.retry(effect.channel), effect.delay_ms)
            case {"do": "producer_failed" | "producer_releases_partition"}:
                self._partition.request(0, self.requests[0].credit, CONSUMER)
                for told in self._partition.fail(CAUSE):
                    assert isinstance(told, Send)
                    assert isinstance(told.response, ErrorResponse)
                    self.gate.on_error(told.response)
            case {"do": "release_channel"}:
                self.gate.release()
            case {"do": "read", "want": wanted}:
                assert self._read() == wanted
            case {"do": "read"}:
                self._read()
            case _:
                raise UnknownWordError(f"step: {step}")
        self.gate.check()

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "delays_ms":
                assert self.delays_ms == wanted
            case "credit_of_each_request":
                assert [request.credit for request in self.requests] == wanted
            case "error":
                assert error_word(self.gate) == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")

    def _requested(self, effects: Iterable[object], delay_ms: int) -> None:
        for effect in effects:
            assert isinstance(effect, RequestPartition)
            self.requests.append(effect)
            self.delays_ms.append(delay_ms)

    def _read(self) -> str:
        assert self.gate.poll() is None
        return error_word(self.gate) or "nothing"

    def _value(self, word: str) -> int:
        match word:
            case "available_in_channel":
                return self.gate.channels[0].credits.available
            case "taken_from_global":
                return sum(channel.credits.exclusive for channel in self.gate.channels)
            case "gate_pool_size":
                return self.gate.floating.total
            case _:
                raise UnknownWordError(f"want: {word}")


def run_partition_request(case: Case) -> None:
    """Run a case about asking for a partition."""
    requester = Requester(case["given"])
    for step in case["steps"]:
        requester.do(step)
    for word, wanted in case["expect"].items():
        requester.expect(word, wanted)
