"""Area 09, subpartition: what its reader is sent, and what is given up.

A buffer of n bytes is a batch of n bytes. The view of a reader is the reader: where the case has one from the start, it
has asked without a credit.
"""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.kept_partition import KeptPartition
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.exchange import EndOfPartition, PartitionRequest
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.ref import Ref
from tests.actors.machines.exchange.builders import CONSUMER, descriptor, partition_id, sent
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

PLENTY = 1000


def _buffer(number: int, size: int) -> BatchRef:
    return BatchRef(batch_id=BatchId(f"b{number}"), rows=1, size_bytes=size)


class Pipelined:
    """The first of two subpartitions, so that its reader can leave without the partition."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "view", "partition_type"})
        self.partition = ResultPartition(descriptor(2))
        self.effects: list[PartitionEffect] = []
        self._added = 0
        self._rejected = 0
        if given.get("view"):
            self.partition.request(0, 0, CONSUMER)

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "bytes", "complete", "want"})
        wanted = dict(step.get("want", {}))
        match step:
            case {"do": "add", "bytes": size} if step.get("complete", True):
                accepted = self._add(size)
                assert wanted.pop("accepted", accepted) == accepted
            case {"do": "finish"}:
                self.effects += self.partition.finish()
            case {"do": "release"}:
                self.effects += (ReleaseBatch(batch=batch) for batch in self.partition.release())
            case {"do": "release_view"}:
                self.effects += self.partition.cancel(0)
            case _:
                raise UnknownWordError(f"step: {step}")
        self.partition.check()
        for word, figure in wanted.items():
            self.expect(word, figure)

    def expect(self, word: str, wanted: Any) -> None:
        subpartition = self.partition.subpartitions[0]
        match word:
            case "all_wants_hold":
                pass
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
        return [buffer for buffer in sent(self.effects) if isinstance(buffer, BatchRef)]

    def _add(self, size: int) -> bool:
        self._added += 1
        buffer = _buffer(self._added, size)
        effects = self.partition.add_batch(buffer)
        is_rejected = ReleaseBatch(batch=buffer) in effects
        self._rejected += is_rejected
        self.effects += effects
        return not is_rejected


def _run_blocking(case: Case) -> None:
    partition = ResultPartition(descriptor(partition_type=ResultPartitionType.BLOCKING))
    written = [_buffer(number, 1024) for number in range(3)]
    only_known_words("given", case["given"], {"kind", "view", "partition_type"})
    seen: list[Any] = []
    for step in case["steps"]:
        match step:
            case {"do": "write_data"}:
                for buffer in written:
                    partition.add_batch(buffer)
            case {"do": "finish"}:
                partition.finish()
            case {"do": "read_everything", "readers": readers}:
                kept = KeptPartition(partition.finished())
                seen += [sent(kept.request(_request(number))) for number in range(readers)]
            case _:
                raise UnknownWordError(f"step: {step}")
    only_known_words("expect", case["expect"], {"every_reader_sees_all_data"})
    everything = [*written, EndOfPartition()]
    assert all(elements == everything for elements in seen) == case["expect"]["every_reader_sees_all_data"]


def _request(number: int) -> PartitionRequest:
    consumer = Ref(f"/user/task-manager-1/consumer-{number}", number)
    return PartitionRequest(partition_id=partition_id(), subpartition=0, credit=PLENTY, consumer=consumer)


def run_subpartition(case: Case) -> None:
    """Run a case about one subpartition."""
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
