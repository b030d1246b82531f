"""Area 09, sender: the readers of subpartitions, and the messages to them.

A message is sent to its reader as soon as there is credit for it, and arrives when the connection is writable. A reader
counts as enqueued while a message to it is in transit, and its credit is used up when the message arrives. A message in
transit to a reader that has left is rejected by that reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.tasks.exchange import (
    BacklogAnnouncement,
    BatchRef,
    Buffer,
    BufferResponse,
    CheckpointBarrier,
    ErrorResponse,
    Watermark,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from tests.actors.machines.exchange.builders import CONSUMER, batch_ref, partition_descriptor
from tests.conformance.case_files import Case, UnknownWordError, is_since, only_known_words

CAUSE = SerializedThrowable(type_name="ValueError", message="the producer has failed")

_STEP = {"do", "reader", "n", "writable", "want"}


class _Reader:
    def __init__(self, given: Case) -> None:
        only_known_words("reader", given, {"credit", "items", "view"})
        if given.get("view") not in (None, "released, with a failure cause"):
            raise UnknownWordError(f"view: {given['view']}")
        self.partition = ResultPartition(partition_descriptor())
        self.under_way: list[Message] = []
        self.received: list[Message] = []
        self._credit = given["credit"]
        self._is_failed = "view" in given
        self._is_here = False
        for number, item in enumerate(given["items"]):
            self._add(item, number)

    def notify(self) -> None:
        if not self._is_here:
            self._is_here = True
            self._take(self.partition.request(0, self._credit, CONSUMER))
        if self._is_failed:
            self._take(self.partition.fail(CAUSE))

    def add_credit(self, number: int) -> None:
        self.notify()
        self._take(self.partition.add_credit(0, number))

    def cancel(self) -> None:
        self.notify()
        self.under_way.clear()
        self._take(self.partition.cancel(0))

    def deliver(self) -> list[Message]:
        arrived, self.under_way = self.under_way, []
        self.received += arrived
        return arrived

    @property
    def credit(self) -> int:
        return self.partition.subpartitions[0].credit + sum(map(_is_data, self._buffers()))

    @property
    def left(self) -> int:
        return self.partition.subpartitions[0].queued + len(self._buffers())

    @property
    def is_enqueued(self) -> bool:
        return bool(self._buffers())

    def _buffers(self) -> list[Buffer]:
        return [message.buffer for message in self.under_way if isinstance(message, BufferResponse)]

    def _add(self, item: str, number: int) -> None:
        match item:
            case "data":
                self._take(self.partition.add_batch(batch_ref(str(number))))
            case "event":
                self._take(self.partition.broadcast_event(Watermark(timestamp_ms=0)))
            case "aligned_barrier":
                self._take(self.partition.broadcast_event(CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)))
            case _:
                raise UnknownWordError(f"item: {item}")

    def _take(self, effects: Iterable[PartitionEffect]) -> None:
        self.under_way += [effect.message for effect in effects if isinstance(effect, Tell)]
        self.partition.check()


class Sender:
    def __init__(self, case: Case) -> None:
        given = case["given"]
        only_known_words("given", given, {"kind", "readers", "partition"})
        if given.get("partition") not in (None, "finished, blocking, released on consumption"):
            raise UnknownWordError(f"partition: {given['partition']}")
        self._readers = {name: _Reader(reader) for name, reader in given["readers"].items()}
        self._announces = is_since(case, 1, 13)
        self._is_writable = True
        self._refused: str | None = None
        self._sent: list[tuple[str, Message]] = []

    def do(self, step: Case) -> None:
        only_known_words("step", step, _STEP)
        match step["do"]:
            case "connection":
                self._is_writable = step["writable"]
            case "notify":
                self._of(step).notify()
            case "credit" if "reader" in step and step["reader"] not in self._readers:
                [effect] = ResultPartition(partition_descriptor()).add_credit(0, step["n"])
                self._refused = None if isinstance(effect, Ignore) else "illegal_state"
            case "credit":
                self._of(step).add_credit(step["n"])
            case "cancel":
                self._of(step).cancel()
            case "resume_consumption":
                pass  # No event has stopped the sender.
            case unknown:
                raise UnknownWordError(f"step: {unknown}")
        for name, reader in self._readers.items() if self._is_writable else ():
            self._sent += [(name, message) for message in reader.deliver()]

    def expect(self, want: Case) -> None:
        for word, wanted in want.items():
            if word != "all_wants_hold":
                assert self._shows(word) == wanted, word

    def _of(self, step: Case) -> _Reader:
        if "reader" not in step:
            [reader] = self._readers.values()
            return reader
        return self._readers[step["reader"]]

    def _shows(self, word: str) -> Any:
        match word:
            case "sent":
                return [each for name, message in self._sent if (each := self._message(name, message))]
            case "sent_count":
                return len(self._buffers())
            case "sent_items":
                return list(map(_kind, self._buffers()))
            case "enqueued":
                return [name for name, reader in self._readers.items() if reader.is_enqueued]
            case "available":
                # All messages that may be sent are sent at once.
                return False
            case "released" | "partition_released":
                return self._only.partition.is_released
            case "credit" | "left":
                return getattr(self._only, word)
            case "error_sent_to":
                return next(name for name, message in self._sent if isinstance(message, ErrorResponse))
            case "error":
                return self._error()
            case _:
                raise UnknownWordError(f"want: {word}")

    @property
    def _only(self) -> _Reader:
        [reader] = self._readers.values()
        return reader

    def _buffers(self) -> list[Buffer]:
        return [message.buffer for _, message in self._sent if isinstance(message, BufferResponse)]

    def _error(self) -> str | None:
        causes = [message.cause for _, message in self._sent if isinstance(message, ErrorResponse)]
        if not causes:
            return self._refused
        return "CANCEL_TASK" if causes[0].type_name == PRODUCER_FAILED_ERROR else "ERROR"

    def _message(self, name: str, message: Message) -> list[Any] | None:
        """Return a message in the form of the cases. Before Flink 1.13 no backlog was announced."""
        match message:
            case BufferResponse(sequence_number=number, buffer=buffer, backlog=backlog):
                return [name, number, _kind(buffer), backlog]
            case BacklogAnnouncement(backlog=backlog) if self._announces:
                waiting = self._readers[name].partition.subpartitions[0].backlog
                return [name, "backlog_announcement", "current backlog" if backlog == waiting else backlog]
            case BacklogAnnouncement():
                return None
            case _:
                raise UnknownWordError(f"message: {message}")


def _kind(buffer: Buffer) -> str:
    match buffer:
        case BatchRef():
            return "data"
        case CheckpointBarrier():
            return "aligned_barrier"
        case _:
            return "event"


def _is_data(buffer: Buffer) -> bool:
    return isinstance(buffer, BatchRef)


def run_sender(case: Case) -> None:
    sender = Sender(case)
    for step in case["steps"]:
        sender.do(step)
        sender.expect(step.get("want", {}))
    sender.expect(case["expect"])
