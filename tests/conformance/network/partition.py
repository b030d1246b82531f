"""Area 09, partition: who has it, who reads it, and what becomes of what comes too late."""

from __future__ import annotations

from typing import Any

from flykka.actors.exchange.effects import NotifyPartitionConsumable, PartitionEffect, ReleaseBatch, Send
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.actors.exchange.result_partition_manager import ResultPartitionManager
from flykka.messages.exchange import ErrorResponse, PartitionRequest
from flykka.messages.failure import SerializedThrowable
from flykka.messages.job_graph import ResultPartitionType
from tests.actors.exchange.builders import CONSUMER, batch, descriptor, partition_id
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

CAUSE = SerializedThrowable(type_name="ValueError", message="the producer has failed")

TYPES = {
    "pipelined": ResultPartitionType.PIPELINED_BOUNDED,
    "pipelined_bounded": ResultPartitionType.PIPELINED_BOUNDED,
    "blocking": ResultPartitionType.BLOCKING,
}


class Output:
    """A partition, and the partitions of its TaskManager, of which it is one when it is registered."""

    def __init__(self, given: Case) -> None:
        only_known_words(
            "given",
            given,
            {"kind", "subpartitions", "type", "release_on_consumption", "forced_release_on_consumption"},
        )
        forced = bool(given.get("forced_release_on_consumption", given.get("release_on_consumption")))
        self.partition = ResultPartition(
            descriptor(given.get("subpartitions", 1)),
            partition_type=TYPES[given.get("type", "pipelined")],
            releases_on_consumption=forced,
            tells_consumable=True,
        )
        self.manager = ResultPartitionManager()
        self.effects: list[PartitionEffect] = []
        self.error: str | None = None
        self._notified_at_finish = 0

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "index", "want"})
        match step:
            case {"do": "register"}:
                self.manager.register(self.partition)
            case {"do": "consumed", "index": index}:
                self.effects += self.partition.request(index, 1, CONSUMER)
                self.effects += self.partition.cancel(index)
            case {"do": "finish"}:
                self.effects += self.partition.finish()
                self._notified_at_finish = self.notifications
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

    @property
    def notifications(self) -> int:
        return sum(isinstance(effect, NotifyPartitionConsumable) for effect in self.effects)

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "released":
                assert self.partition.is_released == wanted
            case "error":
                assert (self.error or self._refusal()) == wanted
            case "error_names_partition":
                refused = self._refused()
                assert (refused is not None and partition_id() in refused.cause.message) == wanted
            case "buffer_freed":
                # A batch that was not taken stays with who made it; one that was dropped is released.
                is_released = any(isinstance(effect, ReleaseBatch) for effect in self.effects)
                is_freed = self.error is not None or is_released
                assert is_freed == wanted
                assert not is_freed or self.partition.queued_batches == 0
            case "consumer_scheduling_notifications":
                assert self.notifications == wanted
            case "consumer_scheduling_notifications_after_finish":
                assert self.notifications - self._notified_at_finish == wanted
            case "release_on_consumption":
                assert self.partition.releases_on_consumption == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")

    def _add(self, index: int) -> None:
        try:
            self.effects += self.partition.add_batch(batch(subpartition=index))
        except AssertionError:
            self.error = "illegal_state"

    def _create_view(self, index: int) -> None:
        request = PartitionRequest(partition_id=partition_id(), subpartition=index, credit=1, consumer=CONSUMER)
        self.effects += self.manager.request(request)

    def _refused(self) -> ErrorResponse | None:
        for effect in self.effects:
            if isinstance(effect, Send) and isinstance(effect.response, ErrorResponse):
                return effect.response
        return None

    def _refusal(self) -> str | None:
        refused = self._refused()
        if refused is None:
            return None
        return "PARTITION_NOT_FOUND" if refused.partition_not_found else "illegal_state"


def run_partition(case: Case) -> None:
    """Run a case about a whole partition."""
    output = Output(case["given"])
    for step in case.get("steps", []):
        output.do(step)
    for word, wanted in case["expect"].items():
        output.expect(word, wanted)
