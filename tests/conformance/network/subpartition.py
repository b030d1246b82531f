"""Area 09, subpartition: the messages to its reader, and the dropped data.

A buffer of n bytes is a batch of n bytes. The view in a case corresponds to the reader: if the case has a view from the
start, the reader has requested the subpartition without a credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.result_partition import KeptPartition, ResultPartition
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import (
    BatchRef,
    BufferResponse,
    CheckpointBarrier,
    EndOfPartition,
    ErrorResponse,
    Event,
    PartitionRequest,
    Watermark,
)
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.ref import Ref
from tests.actors.machines.exchange.builders import CONSUMER, buffers_sent, partition_descriptor, partition_id
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

PLENTY = 1000


def _buffer(number: int, size: int) -> BatchRef:
    return BatchRef(batch_id=BatchId(f"b{number}"), rows=1, size_bytes=size)


class Pipelined:
    """The first of two subpartitions, so that its reader can leave while the partition remains."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "view", "partition_type"})
        self.partition = ResultPartition(partition_descriptor(2))
        self.effects: list[PartitionEffect] = []
        self._added = 0
        self._rejected = 0
        self._error: str | None = None
        self._received: deque[BufferResponse] = deque()
        self._notifications = 0
        self._event_sizes: deque[int] = deque()
        self._got: dict[str, Any] | None = None
        if given.get("view"):
            self.partition.request(0, 0, CONSUMER)

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "bytes", "complete", "event", "aligned_barrier", "want"})
        wanted = dict(step.get("want", {}))
        before = len(self.effects)
        match step:
            case {"do": "add", "event": True, "bytes": int(size)} if step.get("complete", True):
                self._added += 1
                self._event_sizes.append(size)
                self.effects += self.partition.broadcast_event(_event(step))
            case {"do": "add", "bytes": int(size)} if step.get("complete", True):
                accepted = self._add(size)
                assert wanted.pop("accepted", accepted) == accepted
            case {"do": "flush" | "resume_consumption"}:
                pass  # A batch is complete when it is queued, and no event has stopped the sender.
            case {"do": "poll"}:
                self._got = self._poll()
                before = len(self.effects)
            case {"do": "create_view"}:
                self._create_view()
            case {"do": "finish"}:
                self._added += 1
                self.effects += self.partition.finish()
            case {"do": "release"}:
                self.effects += (ReleaseBatch(batch=batch) for batch in self.partition.release())
            case {"do": "release_view"}:
                self.effects += self.partition.cancel(0)
            case _:
                raise UnknownWordError(f"step: {step}")
        self._take(self.effects[before:])
        self.partition.check()
        for word, figure in wanted.items():
            self.expect(word, figure)

    def expect(self, word: str, wanted: Any) -> None:
        subpartition = self.partition.subpartitions[0]
        match word:
            case "all_wants_hold":
                pass
            case "error":
                assert self._error == wanted
            case "got":
                assert self._got == wanted
            case "notifications":
                assert self._notifications == wanted
            case "available":
                assert (bool(self._received) or subpartition.backlog > 0) == wanted
            case "backlog":
                assert subpartition.backlog == wanted
            case "rejected_buffer_freed":
                assert (self._rejected > 0) == wanted
            case "data_buffers_read_while_available":
                self.effects += self.partition.add_credit(0, PLENTY)
                assert len(self._sent()) == wanted
            case "queued_buffers_freed":
                assert sum(isinstance(effect, ReleaseBatch) for effect in self.effects) == wanted
            case "view_released":
                assert subpartition.is_consumed == wanted
            case "subpartition_released":
                assert self.partition.is_released == wanted
            case "total_buffers":
                assert self._added == wanted
            case "total_bytes":
                assert sum(batch.size_bytes for batch in self._sent()) == wanted
            case _:
                raise UnknownWordError(f"want: {word}")

    def _sent(self) -> list[BatchRef]:
        return [buffer for buffer in buffers_sent(self.effects) if isinstance(buffer, BatchRef)]

    def _take(self, effects: Iterable[PartitionEffect]) -> None:
        """Deliver messages that the reader did not request: events, and announcements of a backlog."""
        to_reader = [each for each in effects if isinstance(each, Tell) and each.to == CONSUMER]
        self._notifications += len(to_reader)
        self._received += [each.message for each in to_reader if isinstance(each.message, BufferResponse)]

    def _poll(self) -> dict[str, Any] | None:
        """Read the next element, with a credit if the element needs one."""
        subpartition = self.partition.subpartitions[0]
        if not self._received and subpartition.backlog:
            effects = self.partition.add_credit(0, 1)
            self.effects += effects
            messages = [each.message for each in effects if isinstance(each, Tell)]
            self._received += [message for message in messages if isinstance(message, BufferResponse)]
        if not self._received:
            return None
        response = self._received.popleft()
        is_data = isinstance(response.buffer, BatchRef)
        waiting = [*(each.buffer for each in self._received), *subpartition.buffers]
        return {
            "bytes": response.buffer.size_bytes
            if isinstance(response.buffer, BatchRef)
            else self._event_sizes.popleft(),
            "kind": "data" if is_data else "event",
            "more": bool(waiting),
            "backlog": response.backlog,
            "next_is_event": bool(waiting) and not isinstance(waiting[0], BatchRef),
        }

    def _create_view(self) -> None:
        messages = [each.message for each in self.partition.request(0, 0, CONSUMER) if isinstance(each, Tell)]
        # A subpartition does not decide which error the reader gets.
        self._error = "illegal_state" if any(isinstance(message, ErrorResponse) for message in messages) else None

    def _add(self, size: int) -> bool:
        buffer = _buffer(self._added + 1, size)
        try:
            effects = self.partition.add_batch(buffer)
        except AssertionError:
            # The batch stays with its producer.
            self._rejected += 1
            return False
        is_rejected = ReleaseBatch(batch=buffer) in effects
        self._rejected += is_rejected
        self._added += not is_rejected
        self.effects += effects
        return not is_rejected


def _event(step: Case) -> Event:
    if step.get("aligned_barrier"):
        return CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
    return Watermark(timestamp_ms=0)


def _run_blocking(case: Case) -> None:
    partition = ResultPartition(partition_descriptor(partition_type=ResultPartitionType.BLOCKING))
    written = [_buffer(number, 1024) for number in range(3)]
    only_known_words("given", case["given"], {"kind", "view", "partition_type"})
    seen: list[Any] = []
    shown: dict[str, Any] = {"error": None, "all_wants_hold": True}
    for step in case["steps"]:
        match step:
            case {"do": "write_data"}:
                for buffer in written:
                    partition.add_batch(buffer)
            case {"do": "finish"}:
                partition.finish()
            case {"do": "read_everything", "readers": readers}:
                kept = KeptPartition(partition.finished())
                seen += [buffers_sent(kept.request(_request(number))) for number in range(readers)]
            case {"do": "create_view"}:
                try:
                    kept = KeptPartition(partition.finished())
                except AssertionError:
                    shown["error"] = "illegal_state"
                else:
                    shown["notifications"] = len(kept.request(replace(_request(0), credit=0)))
            case _:
                raise UnknownWordError(f"step: {step}")
        only_known_words("want", step.get("want", {}), {"notifications"})
        assert all(shown[word] == wanted for word, wanted in step.get("want", {}).items())
    everything = [*written, EndOfPartition()]
    shown["every_reader_sees_all_data"] = all(elements == everything for elements in seen)
    only_known_words("expect", case["expect"], set(shown))
    assert {word: shown[word] for word in case["expect"]} == case["expect"]


def _request(number: int) -> PartitionRequest:
    consumer = Ref(f"/user/task-manager-1/consumer-{number}", number)
    return PartitionRequest(partition_id=partition_id(), subpartition=0, credit=PLENTY, consumer=consumer)


def run_subpartition(case: Case) -> None:
    given = case["given"]
    match given.get("partition_type", "pipelined"):
        case "blocking":
            _run_blocking(case)
            return
        case "pipelined":
            pass
        case unknown:
            raise UnknownWordError(f"partition_type: {unknown}")
    subpartition = Pipelined(given)
    for step in case["steps"]:
        subpartition.do(step)
    for word, wanted in case["expect"].items():
        subpartition.expect(word, wanted)
