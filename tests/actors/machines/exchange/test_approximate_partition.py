"""An approximate partition survives a failed reader: the next reader starts with the next batch."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import (
    Buffer,
    BufferResponse,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.wire.ref import Ref
from tests.actors.machines.exchange.builders import CONSUMER, batch_ref, buffers_sent, partition_descriptor

NEXT = Ref("/user/task-manager-1/consumer", 2)
BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)


def approximate(subpartitions: int = 1) -> ResultPartition:
    return ResultPartition(
        partition_descriptor(subpartitions, partition_type=ResultPartitionType.PIPELINED_APPROXIMATE)
    )


def reconnect(output: ResultPartition, credit: int = 9) -> list[PartitionEffect]:
    effects = output.request(0, credit, NEXT, reconnects=True)
    output.check()
    return effects


def released_batches(effects: list[PartitionEffect]) -> list[str]:
    return [effect.batch.batch_id for effect in effects if isinstance(effect, ReleaseBatch)]


def buffers_for_next_reader(effects: list[PartitionEffect]) -> list[tuple[int, Buffer]]:
    responses = [
        effect.message
        for effect in effects
        if isinstance(effect, Tell) and effect.to == NEXT and isinstance(effect.message, BufferResponse)
    ]
    return [(response.sequence_number, response.buffer) for response in responses]


def test_the_next_reader_starts_after_the_lost_in_flight_batches() -> None:
    output = approximate()
    output.request(0, 1, CONSUMER)
    for name in ("sent", "waiting"):
        output.add_batch(batch_ref(name))

    lost = reconnect(output)
    following = output.add_batch(batch_ref("next"))

    assert released_batches(lost) == ["sent", "waiting"]
    assert buffers_for_next_reader(lost) == []
    assert buffers_for_next_reader(following) == [(0, batch_ref("next"))]


def test_the_next_reader_gets_watermarks_and_the_end_but_no_barrier() -> None:
    output = approximate()
    output.request(0, 0, CONSUMER)
    output.broadcast_event(Watermark(timestamp_ms=1))
    output.broadcast_event(WatermarkStatus(idle=True))
    output.add_batch(batch_ref("waiting"))
    for event in (
        BARRIER,
        Watermark(timestamp_ms=7),
        EndOfData(),
        LatencyMarker(marked_ms=0, operator_id="", subtask=0),
    ):
        output.broadcast_event(event)

    events = buffers_for_next_reader(reconnect(output))

    assert events == [(0, Watermark(timestamp_ms=7)), (1, WatermarkStatus(idle=True)), (2, EndOfData())]


def test_credit_of_the_first_reader_does_not_pass_to_the_second() -> None:
    output = approximate()
    output.request(0, 5, CONSUMER)

    reconnect(output, credit=1)
    effects = [effect for name in ("first", "second") for effect in output.add_batch(batch_ref(name))]

    assert buffers_for_next_reader(effects) == [(0, batch_ref("first"))]
    assert output.queued_batches == 1


def test_a_failed_reader_frees_a_full_output_without_affecting_other_readers() -> None:
    output = approximate(subpartitions=2)
    output.request(0, 0, CONSUMER)
    for number in range(2):
        for name in "abcdefghij":
            output.add_batch(batch_ref(f"{number}{name}", subpartition=number))
    was_available = output.is_available

    lost = released_batches(reconnect(output))

    assert not was_available
    assert len(lost) == 10
    assert all(name.startswith("0") for name in lost)
    assert output.queued_batches == 10


def test_an_unsent_end_of_partition_reaches_the_next_reader() -> None:
    output = approximate()
    output.request(0, 0, CONSUMER)
    output.add_batch(batch_ref("waiting"))
    output.broadcast_event(EndOfData())
    output.finish()

    events = buffers_for_next_reader(reconnect(output))

    assert events == [(0, EndOfData()), (1, EndOfPartition())]
    assert output.is_released


def test_a_reader_that_connects_after_the_end_receives_no_data() -> None:
    output = approximate(subpartitions=2)
    output.request(0, 0, CONSUMER)
    output.finish()

    (refused,) = reconnect(output)

    assert isinstance(refused, Tell)
    assert isinstance(refused.message, ErrorResponse)
    assert refused.message.partition_not_found


def test_a_reader_that_failed_before_its_request_loses_its_batches() -> None:
    output = approximate()
    output.add_batch(batch_ref("for the first"))

    lost = reconnect(output)

    assert released_batches(lost) == ["for the first"]


def test_a_reader_that_has_cancelled_is_replaced_by_the_next_one() -> None:
    output = approximate()
    output.request(0, 0, CONSUMER)
    output.add_batch(batch_ref("waiting"))

    (ignored,) = output.cancel(0)

    assert isinstance(ignored, Ignore)
    assert released_batches(reconnect(output)) == ["waiting"]


def test_the_first_reader_of_an_approximate_partition_loses_nothing() -> None:
    output = approximate()
    output.add_batch(batch_ref("early"))

    effects = output.request(0, 2, CONSUMER)

    assert buffers_sent(effects) == [batch_ref("early")]
    assert released_batches(effects) == []
