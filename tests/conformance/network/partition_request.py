"""Area 09, partition requests: the requests of a gate, and its reactions to the responses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flykka.actors.machines.attempt.events import StartTask
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.actors.machines.exchange.effects import ChannelFailed, RequestPartition
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import ErrorResponse, PartitionRequestDue
from flykka.messages.tasks.task import InputGateDescriptor, RequestPartitionProducerState
from flykka.messages.wire.ref import Ref
from tests.actors.machines.attempt.attempt_machine import UPSTREAM, Harness, descriptor
from tests.actors.machines.exchange.builders import CONSUMER, PRODUCERS, error, gate_descriptor, partition, partition_id
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.network.gate import error_word
from tests.conformance.network.partition import CAUSE

GIVEN = {"kind", "local", "channel", "channels", "connection", "initial_backoff_ms", "max_backoff_ms", "partition"}
CREDITS = {"exclusive", "exclusive_per_channel", "floating_per_gate"}
HERE = Ref("/user/task-manager-1", 1)
"""The TaskManager of the consumer; all other TaskManagers are remote."""


def _task_manager(word: str) -> Ref:
    match word:
        case "local":
            return HERE
        case "remote":
            return PRODUCERS
        case _:
            raise UnknownWordError(f"channel: {word}")


def _located(words: list[str]) -> InputGateDescriptor:
    gate = gate_descriptor(len(words))
    channels = zip(gate.channels, words, strict=True)
    return replace(
        gate, channels=tuple(replace(channel, task_manager=_task_manager(word)) for channel, word in channels)
    )


class Requester:
    """A gate, and the partition that the gate's first channel requests."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, GIVEN | CREDITS)
        exclusive: int = given["exclusive"] if "exclusive" in given else given.get("exclusive_per_channel", 2)
        one = given.get("channel", "local" if given.get("local") else "remote")
        self.gate = InputGate(
            [_located(given.get("channels", [one]))],
            exclusive,
            given.get("floating_per_gate", 8),
            initial_backoff_ms=given.get("initial_backoff_ms", 0),
            max_backoff_ms=given.get("max_backoff_ms", 0),
        )
        self.requests: list[RequestPartition] = []
        self.delays_ms: list[int] = []
        self.failures: list[ChannelFailed] = []
        self.checked_producer_state = False
        self.network_thread_returned: bool | None = None
        self._partition = partition()
        self._connection = given.get("connection")
        self._retries = 0
        if given.get("partition") not in (None, "not registered"):
            raise UnknownWordError(f"partition: {given['partition']}")
        self._is_not_there = "partition" in given

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "channel", "where", "blocks", "from", "want"})
        match step:
            case {"do": "request"}:
                self._take(self.gate.request_partitions())
                if self._connection is not None:
                    if self._connection != "refused":
                        raise UnknownWordError(f"connection: {self._connection}")
                    self._take(self.gate.on_connection_failed(PRODUCERS))
                if self._is_not_there:
                    self._take(self.gate.on_error(error(not_found=True)), retries=False)
            case {"do": "setup"}:
                self._take(self.gate.request_partitions())
            case {"do": "retrigger"}:
                self._take(self.gate.on_error(error(not_found=True)))
            case {"do": "answer_partition_not_found"}:
                # A request does not block: it has returned when the response arrives, and so has the sender of the
                # response.
                self._take(self.gate.on_error(error(not_found=True)), retries=False)
                self.network_thread_returned = True
                self.checked_producer_state = _asks_for_producer_state()
            case {"do": "producer_failed" | "producer_releases_partition"}:
                self._partition.request(0, self.requests[0].credit, CONSUMER)
                for effect in self._partition.fail(CAUSE):
                    assert isinstance(effect, Tell)
                    assert isinstance(effect.message, ErrorResponse)
                    self._take(self.gate.on_error(effect.message))
            case {"do": "read"}:
                pass
            case _:
                raise UnknownWordError(f"step: {step}")
        self.gate.check()
        self._expect(step["do"], step.get("want"))

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "delays_ms":
                # A list that ends with the error means that no request follows the last one.
                assert self.delays_ms == [delay for delay in wanted if not isinstance(delay, str)]
                if isinstance(wanted[-1], str):
                    assert self.gate.failure is not None
                    assert wanted[-1] in ("error", error_word(self.gate))
            case "credit_of_each_request":
                assert [request.credit for request in self.requests] == wanted
            case "requests_sent":
                assert len(self.requests) == wanted
            case "error" | "channel_error":
                assert error_word(self.gate) == wanted
            case "error_names_partition":
                assert (partition_id() in self.failures[0].cause.message) == wanted
            case "producer_state_checked":
                assert self.checked_producer_state == wanted
            case "network_thread_returns":
                assert self.network_thread_returned == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")

    def _expect(self, done: str, wanted: Any) -> None:
        read = self._read() if done == "read" else None
        match wanted:
            case None:
                pass
            case str() if done == "read":
                assert read == wanted
            case "error":
                assert self.gate.failure is not None
            case "retry scheduled, no error":
                assert self._retries == 1
                assert self.gate.failure is None
            case str():
                assert error_word(self.gate) == wanted
            case list():
                assert [self._location(number) for number in range(len(self.gate.channels))] == wanted
            case dict():
                for word, value in wanted.items():
                    assert self._value(word) == value, word
            case _:
                raise UnknownWordError(f"want: {wanted}")

    def _take(self, effects: Iterable[object], *, retries: bool = True) -> None:
        """Record the messages, and run each retry when its delay has passed."""
        for effect in effects:
            match effect:
                case RequestPartition():
                    self._requested(effect, 0)
                case StartTimer(message=PartitionRequestDue(channel=channel), delay_ms=delay_ms) if retries:
                    for request in self.gate.retry(channel):
                        assert isinstance(request, RequestPartition)
                        self._requested(request, delay_ms)
                case StartTimer():
                    self._retries += 1
                case Ignore():
                    pass
                case ChannelFailed():
                    self.failures.append(effect)
                case _:
                    raise AssertionError(effect)

    def _requested(self, request: RequestPartition, delay_ms: int) -> None:
        self.requests.append(request)
        self.delays_ms.append(delay_ms)

    def _read(self) -> str:
        assert self.gate.poll() is None
        return error_word(self.gate) or "nothing"

    def _location(self, number: int) -> str:
        return "local" if self.gate.channels[number].descriptor.task_manager == HERE else "remote"

    def _value(self, word: str) -> Any:
        match word:
            case "available_in_channel":
                return self.gate.channels[0].credits.available
            case "taken_from_global":
                return sum(channel.credits.exclusive for channel in self.gate.channels)
            case "gate_pool_size":
                return self.gate.floating[0].size
            case "requested":
                return sorted(request.channel for request in self.requests)
            case _:
                raise UnknownWordError(f"want: {word}")


def _asks_for_producer_state() -> bool:
    """Return whether a running task asks the JobMaster when a partition is not found."""
    task = Harness(descriptor(OperatorKind.SINK, channels=1))
    task.feed(StartTask(), ChainOpened())
    effects = task.feed(replace(error(not_found=True), partition_id=UPSTREAM[0]))
    messages = [effect.message for effect in effects if isinstance(effect, Tell) and effect.to is Role.JOB_MASTER]
    return any(isinstance(message, RequestPartitionProducerState) for message in messages)


def run_partition_request(case: Case) -> None:
    requester = Requester(case["given"])
    for step in case["steps"]:
        requester.do(step)
    for word, wanted in case["expect"].items():
        requester.expect(word, wanted)
