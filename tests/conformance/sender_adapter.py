"""Area 09, sender and partition: subpartitions, their readers, and the partition they make.

Between actors there is no connection that may be full: what a case holds back there has left the machine, and lies in
the adapter's outbox.
"""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect, ReleaseBatch, Send
from flykka.actors.exchange.subpartition import PartitionTotals, PipelinedSubpartition
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import BufferResponse, ErrorResponse
from flykka.messages.failure import SerializedThrowable
from tests.actors.exchange.builders import CONSUMER, batch, partition, partition_id
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

CAUSE = SerializedThrowable(type_name="ValueError", message="the producer has failed")


class Sender:
    """Subpartitions by the names of their readers."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "readers"})
        self.outbox: list[list[Any]] = []
        self.errors: list[list[Any]] = []
        self.is_writable = True
        self.subpartitions: dict[str, PipelinedSubpartition] = {}
        self._given = given["readers"]
        totals = PartitionTotals()
        for index, (name, reader) in enumerate(self._given.items()):
            only_known_words(name, reader, {"credit", "items", "view"})
            self.subpartitions[name] = PipelinedSubpartition(partition_id(), index, totals)
            for number, item in enumerate(reader["items"]):
                assert item == "data"
                self.subpartitions[name].add(batch(f"{name}{number}"))
        self._not_asked = set(self._given)

    @property
    def sent(self) -> list[list[Any]]:
        return self.outbox if self.is_writable else []

    def request(self, name: str) -> None:
        """The reader asks, when the case first speaks of it."""
        if name in self._not_asked:
            self._not_asked.remove(name)
            self.record(name, self.subpartitions[name].request(self._given[name]["credit"], CONSUMER))
            view = self._given[name].get("view")
            if view is not None:
                assert view == "released, with a failure cause"
                self.record(name, self.subpartitions[name].fail(CAUSE))

    def record(self, name: str, effects: list[PartitionEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(response=BufferResponse(buffer=BatchRef()) as sent):
                    self.outbox.append([name, sent.sequence_number, "data", sent.backlog])
                case Send(response=ErrorResponse(cause=cause)):
                    self.errors.append([name, "CANCEL_TASK" if cause.type_name == PRODUCER_FAILED_ERROR else "ERROR"])
                case _:
                    pass


def run_sender(case: Case) -> None:
    """Run a case about readers and what they are sent."""
    sender = Sender(case["given"])
    only_reader = next(iter(sender.subpartitions))
    error = None
    for step in case["steps"]:
        name = step.get("reader", only_reader)
        match step:
            case {"do": "notify"}:
                sender.request(name)
            case {"do": "credit", "n": n}:
                sender.request(name)
                sender.record(name, sender.subpartitions[name].add_credit(n))
            case {"do": "connection", "writable": writable}:
                sender.is_writable = writable
            case {"do": "force_read"}:
                sender.request(name)
                with pytest.raises(AssertionError):
                    sender.subpartitions[name].next_response()
                error = "illegal_state"
            case _:
                raise UnknownWordError(f"step: {step}")
        for word, wanted in step.get("want", {}).items():
            match word:
                case "sent_count":
                    assert len(sender.sent) == wanted
                case "sent":
                    assert sender.sent == wanted
                case _:
                    raise UnknownWordError(f"want: {word}")
        for subpartition in sender.subpartitions.values():
            subpartition.check()

    errors = dict(sender.errors)
    for word, wanted in case["expect"].items():
        match word:
            case "all_wants_hold":
                pass
            case "error_sent_to":
                assert list(errors) == [wanted]
            case "error":
                assert (error or next(iter(errors.values()))) == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")


def run_partition(case: Case) -> None:
    """Run a case about a whole partition: who has it, and what becomes of what comes too late."""
    given, expect = case["given"], case["expect"]
    only_known_words(
        "given", given, {"kind", "subpartitions", "type", "release_on_consumption", "forced_release_on_consumption"}
    )
    output = partition(given.get("subpartitions", 1))
    effects: list[PartitionEffect] = []
    error = None
    for step in case["steps"]:
        match step:
            case {"do": "consumed", "index": index}:
                effects += output.request(index, 1, CONSUMER)
                effects += output.cancel(index)
            case {"do": "register"}:
                pass
            case {"do": "finish"}:
                effects += output.finish()
            case {"do": "fail"}:
                effects += output.fail(CAUSE)
            case {"do": "release"}:
                output.release()
            case {"do": "add", "index": index}:
                try:
                    effects += output.add_batch(batch(subpartition=index))
                except AssertionError:
                    error = "illegal_state"
            case {"do": "create_view", "index": index}:
                effects += output.request(index, 1, CONSUMER)
            case _:
                raise UnknownWordError(f"step: {step}")
        for word, wanted in step.get("want", {}).items():
            assert word == "released"
            assert output.all_consumed == wanted
        output.check()

    refused = any(
        isinstance(effect, Send)
        and isinstance(effect.response, ErrorResponse)
        and effect.response.partition_not_found
        and effect.response.partition_id in effect.response.cause.message
        for effect in effects
    )
    for word, wanted in expect.items():
        match word:
            case "all_wants_hold":
                pass
            case "error":
                assert (error or ("PARTITION_NOT_FOUND" if refused else None)) == wanted
            case "buffer_freed":
                # A batch that was not taken stays with who made it; one that was dropped is released.
                assert (error is not None or any(isinstance(e, ReleaseBatch) for e in effects)) == wanted
                assert output.queued_batches == 0
            case "consumer_scheduling_notifications" | "consumer_scheduling_notifications_after_finish":
                assert sum(isinstance(effect, Send) for effect in effects) == wanted
            case "release_on_consumption":
                output.finish()
                for index in range(output.descriptor.subpartitions):
                    output.request(index, 1, CONSUMER)
                assert output.all_consumed == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")
