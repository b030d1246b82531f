"""Area 09, sender: the readers of a partition and what they are sent, in turns."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.exchange.buffer_pool import LocalBufferPool
from flykka.actors.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect, Send
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import Buffer, BufferResponse, CheckpointBarrier, ErrorResponse, Watermark
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import BatchId
from flykka.messages.job_graph import ResultPartitionType
from tests.actors.exchange.builders import CONSUMER, descriptor
from tests.conformance.case_files import Case, UnknownWordError, is_since, only_known_words

CAUSE = SerializedThrowable(type_name="ValueError", message="the producer has failed")
PLENTY = 1000


def _element(item: str, number: int, index: int) -> Buffer:
    match item:
        case "data":
            return BatchRef(batch_id=BatchId(f"{index}.{number}"), rows=1, size_bytes=1, subpartition=index)
        case "aligned_barrier":
            return CheckpointBarrier(checkpoint_id=number, timestamp_ms=0)
        case "event":
            return Watermark(timestamp_ms=number)
        case _:
            raise UnknownWordError(f"item: {item}")


def _item(buffer: Buffer) -> str:
    match buffer:
        case BatchRef():
            return "data"
        case CheckpointBarrier():
            return "aligned_barrier"
        case _:
            return "event"


class Sender:
    """One partition per reader, so that each has the items that the case gives it; they share one line of turns."""

    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, {"kind", "readers", "partition"})
        self.names = list(given["readers"])
        self.effects: list[PartitionEffect] = []
        self._given = given["readers"]
        self._added = 0
        kind, releases = _partition_words(given.get("partition"))
        self.partition = ResultPartition(
            descriptor(len(self.names)),
            LocalBufferPool(PLENTY),
            partition_type=kind,
            releases_on_consumption=releases,
            blocks_behind_barriers=is_since(case, 1, 11),
        )
        for index, reader in enumerate(self._given.values()):
            only_known_words("reader", reader, {"credit", "items", "view"})
            self._add(index, reader["items"])
        if given.get("partition"):
            self.partition.finish()
        self._not_asked = set(self.names)

    def request(self, name: str) -> int:
        """The reader asks, when the case first speaks of it; its number."""
        index = self.names.index(name)
        if name in self._not_asked:
            self._not_asked.remove(name)
            self.effects += self.partition.request(index, self._given[name]["credit"], CONSUMER)
            view = self._given[name].get("view")
            if view is not None:
                if view != "released, with a failure cause":
                    raise UnknownWordError(f"view: {view}")
                self.effects += self.partition.fail(CAUSE)
        return index

    def _add(self, index: int, items: list[str]) -> None:
        for item in items:
            self._added += 1
            element = _element(item, self._added, index)
            if isinstance(element, BatchRef):
                self.effects += self.partition.add_batch(element)
            else:
                self.effects += self.partition.add_event(index, element)

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "reader", "n", "items", "writable", "want"})
        name = step.get("reader", self.names[0])
        match step:
            case {"do": "notify"}:
                self.request(name)
            case {"do": "credit", "n": n}:
                index = self.request(name)
                self.effects += self.partition.add_credit(index, n)
            case {"do": "add", "items": items}:
                self._add(self.names.index(name), items)
            case {"do": "finish"}:
                self.effects += self.partition.finish()
            case {"do": "release"}:
                self.partition.release()
            case {"do": "resume_consumption"}:
                self.effects += self.partition.resume_consumption(self.request(name))
            case {"do": "cancel"}:
                self.effects += self.partition.cancel(self.request(name))
            case {"do": "connection", "writable": writable}:
                self.effects += self.partition.set_writable(writable)
            case _:
                raise UnknownWordError(f"step: {step}")
        self.partition.check()

    @property
    def sent(self) -> list[BufferResponse]:
        return [e.response for e in self.effects if isinstance(e, Send) and isinstance(e.response, BufferResponse)]

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Who was sent an error, and which."""
        errors = [e.response for e in self.effects if isinstance(e, Send) and isinstance(e.response, ErrorResponse)]
        return [
            (
                self.names[error.subpartition],
                "CANCEL_TASK" if error.cause.type_name == PRODUCER_FAILED_ERROR else "ERROR",
            )
            for error in errors
        ]

    def value(self, word: str, name: str) -> Any:
        index = self.names.index(name)
        match word:
            case "sent_count":
                return len(self.sent)
            case "sent":
                return [[self.names[r.subpartition], r.sequence_number, _item(r.buffer), r.backlog] for r in self.sent]
            case "sent_items":
                return [_item(response.buffer) for response in self.sent if response.subpartition == index]
            case "available":
                return any(reader.is_available for reader in self.partition.readers.of(index))
            case "left":
                return self.partition.subpartitions[index].queued
            case "enqueued":
                return [self.names[reader.index] for reader in self.partition.readers.queue.enqueued]
            case "released":
                return self.partition.is_released
            case "credit":
                return sum(reader.credit for reader in self.partition.readers.of(index))
            case _:
                raise UnknownWordError(f"want: {word}")


def _partition_words(words: str | None) -> tuple[ResultPartitionType, bool]:
    match words:
        case None:
            return ResultPartitionType.PIPELINED_BOUNDED, False
        case "finished, blocking, released on consumption":
            return ResultPartitionType.BLOCKING, True
        case _:
            raise UnknownWordError(f"partition: {words}")


def run_sender(case: Case) -> None:
    """Run a case about readers and what they are sent."""
    sender = Sender(case)
    error = None
    for step in case["steps"]:
        name = step.get("reader", sender.names[0])
        if step["do"] == "force_read":
            sender.request(name)
            (reader,) = sender.partition.readers.of(sender.names.index(name))
            with pytest.raises(AssertionError):
                reader.next_response()
            error = "illegal_state"
        else:
            sender.do(step)
        for word, wanted in step.get("want", {}).items():
            assert sender.value(word, name) == wanted, word

    for word, wanted in case["expect"].items():
        match word:
            case "all_wants_hold":
                pass
            case "error_sent_to":
                assert [name for name, _ in sender.failed] == [wanted]
            case "error":
                assert (error or sender.failed[0][1]) == wanted
            case "partition_released":
                assert sender.partition.is_released == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")
