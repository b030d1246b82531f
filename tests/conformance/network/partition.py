"""Area 09, partition: its owner, its readers, and late requests."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.attempt.outputs import TaskOutputs
from flykka.actors.machines.effects import Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.result_partition import KeptPartition, ResultPartition
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import ErrorResponse, PartitionRequest
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.exchange.builders import CONSUMER, batch_ref, partition_descriptor, partition_id
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

CAUSE = SerializedThrowable(type_name="ValueError", message="the producer has failed")

TYPES = {
    "pipelined": ResultPartitionType.PIPELINED_BOUNDED,
    "pipelined_bounded": ResultPartitionType.PIPELINED_BOUNDED,
    "blocking": ResultPartitionType.BLOCKING,
}


class Output:
    """A partition, which its task owns after registration."""

    def __init__(self, given: Case) -> None:
        only_known_words(
            "given",
            given,
            {"kind", "subpartitions", "type", "release_on_consumption", "forced_release_on_consumption"},
        )
        if given.get("forced_release_on_consumption"):
            raise UnknownWordError(f"given: {given}")
        kind = TYPES[given.get("type", "pipelined")]
        self.partition = ResultPartition(partition_descriptor(given.get("subpartitions", 1), partition_type=kind))
        self.effects: list[PartitionEffect] = []
        self.refused: ErrorResponse | None = None
        self.error: str | None = None
        self._is_registered = False

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "index", "want"})
        match step:
            case {"do": "register"}:
                self._is_registered = True
            case {"do": "consumed", "index": index} if self.partition.is_blocking:
                kept = KeptPartition(self.partition.finished())
                self.effects += kept.request(_request(index))
            case {"do": "consumed", "index": index}:
                self.effects += self.partition.request(index, 1, CONSUMER)
                self.effects += self.partition.cancel(index)
            case {"do": "finish"}:
                self.effects += self.partition.finish()
            case {"do": "fail"}:
                self.effects += self.partition.fail(CAUSE)
            case {"do": "release"}:
                self.partition.release()
            case {"do": "add", "index": index}:
                self._add(index)
            case {"do": "create_view", "index": index}:
                self._create_view(index)
            case _:
                raise UnknownWordError(f"step: {step}")
        for word, wanted in step.get("want", {}).items():
            self.expect(word, wanted)
        self.partition.check()

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "released":
                assert self.partition.is_released == wanted
            case "registered":
                assert (not self.partition.is_released) == wanted
            case "error":
                assert (self.error or self._refusal()) == wanted
            case "error_names_partition":
                assert (self.refused is not None and partition_id() in self.refused.cause.message) == wanted
            case "buffer_freed":
                # A batch that was not accepted stays with its producer. A dropped batch is released.
                is_released = any(isinstance(effect, ReleaseBatch) for effect in self.effects)
                is_freed = self.error is not None or is_released
                assert is_freed == wanted
                assert not is_freed or self.partition.queued_batches == 0
            case "consumer_scheduling_notifications" | "consumer_scheduling_notifications_after_finish":
                # Consumers are deployed by the JobMaster, so a partition does not announce that data is available.
                assert wanted == 0
            case "release_on_consumption":
                assert self._is_gone_when_it_was_read() == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")

    def _add(self, index: int) -> None:
        try:
            self.effects += self.partition.add_batch(batch_ref(subpartition=index))
        except AssertionError:
            self.error = "illegal_state"

    def _create_view(self, index: int) -> None:
        if self._is_registered:
            answers = self.partition.request(index, 1, CONSUMER)
            messages = [effect.message for effect in answers if isinstance(effect, Tell)]
        else:
            answers_of_task = TaskOutputs("task", []).handle(_request(index))
            messages = [effect.message for effect in answers_of_task if isinstance(effect, Tell)]
        for response in messages:
            assert isinstance(response, ErrorResponse)
            self.refused = response

    def _is_gone_when_it_was_read(self) -> bool:
        self.partition.finish()
        if not self.partition.is_blocking:
            self.partition.request(0, 1, CONSUMER)
            return self.partition.is_released
        kept = KeptPartition(self.partition.finished())
        first, second = (kept.request(_request(0)) for _ in range(2))
        return first != second

    def _refusal(self) -> str | None:
        if self.refused is None:
            return None
        return "PARTITION_NOT_FOUND" if self.refused.partition_not_found else "illegal_state"


def _request(index: int) -> PartitionRequest:
    return PartitionRequest(partition_id=partition_id(), subpartition=index, credit=1, consumer=CONSUMER)


def run_partition(case: Case) -> None:
    output = Output(case["given"])
    for step in case.get("steps", []):
        output.do(step)
    for word, wanted in case["expect"].items():
        output.expect(word, wanted)
