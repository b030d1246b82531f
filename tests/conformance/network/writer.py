"""Area 09, writer: events are sent to the readers of an output."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.tasks.exchange import CheckpointBarrier
from tests.actors.machines.exchange.builders import CONSUMER, buffers_sent, partition_descriptor
from tests.conformance.case_files import Case, UnknownWordError, only_known_words


def run_writer(case: Case) -> None:
    """Run a case about an output whose readers start after all data is written."""
    only_known_words("given", case["given"], {"kind", "channels", "buffer_bytes"})
    partition = ResultPartition(partition_descriptor(case["given"]["channels"]))
    barrier = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)
    for step in case["steps"]:
        if step != {"do": "broadcast_event"}:
            raise UnknownWordError(f"step: {step}")
        partition.broadcast_event(barrier)

    first, *others = partition.subpartitions
    queues = [["event" for _ in subpartition.buffers] for subpartition in partition.subpartitions]
    batches = partition.queued_batches
    before = [other.queued for other in others]
    read = [buffers_sent(partition.request(0, 1, CONSUMER))]
    moves_others = [other.queued for other in others] != before
    read += [buffers_sent(partition.request(index, 1, CONSUMER)) for index in range(1, len(partition.subpartitions))]
    partition.check()

    shown: dict[str, Any] = {
        "queues": queues,
        "buffers_requested": batches,
        "reading_channel_0_moves_reader_of_channel_1": moves_others,
        "freed_after_all_read": not first.queued and not any(other.queued for other in others),
    }
    only_known_words("expect", case["expect"], set(shown))
    assert all(elements == [barrier] for elements in read)
    assert {word: shown[word] for word in case["expect"]} == case["expect"]
