"""The way into a partition: who is behind whom, and how many buffers that takes."""

from __future__ import annotations

from flykka.actors.exchange.buffer_pool import LocalBufferPool
from flykka.actors.exchange.record_writer import RecordWriter
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import CheckpointBarrier, LatencyMarker
from flykka.messages.ids import BatchId
from tests.actors.exchange.builders import CONSUMER, batch, descriptor, sent

BARRIER = CheckpointBarrier(checkpoint_id=1, timestamp_ms=0)


def record(size: int, channel: int = 0) -> BatchRef:
    return BatchRef(batch_id=BatchId(f"{size}"), rows=1, size_bytes=size, subpartition=channel)


def sizes(writer: RecordWriter, channel: int = 0) -> list[int | None]:
    """The sizes of the buffers of a channel; None for an event."""
    effects = writer.partition.request(channel, 100, CONSUMER)
    return [buffer.size_bytes if isinstance(buffer, BatchRef) else None for buffer in sent(effects)]


def writer(channels: int = 1, **options: int) -> RecordWriter:
    return RecordWriter(ResultPartition(descriptor(channels), LocalBufferPool(100)), **options)


def test_what_a_stage_makes_is_a_buffer_of_its_own() -> None:
    written = writer()

    written.emit(batch("a"))
    written.broadcast_event(BARRIER)
    written.emit(batch("b"))

    assert sent(written.partition.request(0, 9, CONSUMER)) == [batch("a"), BARRIER, batch("b")]
    assert written.buffers_requested == 2


def test_records_share_a_buffer_and_go_on_in_the_next_one() -> None:
    written = writer(buffer_bytes=10, length_prefix_bytes=2)

    for size in (4, 5, 11):
        written.emit(record(size))
    written.flush()

    assert sizes(written) == [10, 10, 6]
    assert written.buffers_requested == 3


def test_a_record_that_fills_its_buffer_leaves_none_open() -> None:
    written = writer(buffer_bytes=10)

    written.emit(record(10))

    assert written.flush() == []
    assert sizes(written) == [10]


def test_an_event_comes_behind_everything_that_was_written_in_every_channel() -> None:
    written = writer(2, buffer_bytes=10)
    written.emit(record(3, channel=1))

    written.broadcast_event(BARRIER)
    written.emit(record(4, channel=1))
    written.flush()

    assert sizes(written, 0) == [None]
    assert sizes(written, 1) == [3, None, 4]


def test_an_event_in_turn_goes_to_one_consumer_after_the_other() -> None:
    written = writer(channels=3)

    markers = [LatencyMarker(marked_ms=number, operator_id="source", subtask=0) for number in range(4)]
    for marker in markers:
        written.emit_in_turn(marker)

    got = [sent(written.partition.request(channel, 9, CONSUMER)) for channel in range(3)]
    assert got == [[markers[0], markers[3]], [markers[1]], [markers[2]]]


def test_an_event_in_turn_passes_over_consumers_that_have_left() -> None:
    written = writer(channels=2)
    written.partition.request(0, 9, CONSUMER)
    written.partition.cancel(0)
    marker = LatencyMarker(marked_ms=0, operator_id="source", subtask=0)

    written.emit_in_turn(marker)
    written.emit_in_turn(marker)

    assert sent(written.partition.request(1, 9, CONSUMER)) == [marker, marker]
    written.partition.cancel(1)
    assert written.emit_in_turn(marker) == []


def test_an_event_in_turn_comes_behind_the_records_of_its_channel() -> None:
    written = writer(channels=2, buffer_bytes=10)
    written.emit(record(4))
    written.emit(record(4, channel=1))

    written.emit_in_turn(LatencyMarker(marked_ms=0, operator_id="source", subtask=0))

    assert sizes(written) == [4, None]
    assert sizes(written, channel=1) == []
