"""Area 09, writer: records and events on their way into the channels of an output."""

from __future__ import annotations

from typing import Any

from flykka.actors.exchange.buffer_pool import LocalBufferPool
from flykka.actors.exchange.record_writer import RecordWriter
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.actors.exchange.subpartition import PipelinedSubpartition
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import CheckpointBarrier
from flykka.messages.ids import BatchId
from tests.actors.exchange.builders import descriptor
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

PLENTY = 1000


class Writer:
    """A writer, and the readers of its channels, which read when the case is over."""

    def __init__(self, given: Case) -> None:
        only_known_words("given", given, {"kind", "channels", "buffer_bytes", "length_prefix_bytes"})
        self.channels: int = given["channels"]
        self.partition = ResultPartition(descriptor(self.channels), LocalBufferPool(PLENTY))
        self.writer = RecordWriter(
            self.partition,
            buffer_bytes=given["buffer_bytes"],
            length_prefix_bytes=given.get("length_prefix_bytes", 0),
        )
        self.views: list[PipelinedSubpartition] = []
        for subpartition in self.partition.subpartitions:
            assert isinstance(subpartition, PipelinedSubpartition)
            self.views.append(subpartition.create_view())
        self._emitted = 0

    def do(self, step: Case) -> None:
        only_known_words("step", step, {"do", "channel", "bytes", "want"})
        match step:
            case {"do": "emit", "channel": channel, "bytes": size}:
                self._emit(channel, size)
            case {"do": "broadcast_emit" | "broadcast" | "broadcast_record", "bytes": size}:
                for channel in range(self.channels):
                    self._emit(channel, size)
            case {"do": "broadcast_event"}:
                self.writer.broadcast_event(CheckpointBarrier(checkpoint_id=1, timestamp_ms=0))
            case {"do": "flush"}:
                self.writer.flush()
            case _:
                raise UnknownWordError(f"step: {step}")
        for word, wanted in step.get("want", {}).items():
            self.expect(word, wanted)
        self.partition.check()

    def expect(self, word: str, wanted: Any) -> None:
        match word:
            case "all_wants_hold":
                pass
            case "queues":
                assert [self._read(channel) for channel in range(self.channels)] == wanted
            case "buffers_requested":
                assert self.writer.buffers_requested == wanted
            case "reading_channel_0_moves_reader_of_channel_1":
                before = self.views[1].queued
                self._read(0)
                assert (self.views[1].queued != before) == wanted
            case "freed_after_all_read":
                for channel in range(self.channels):
                    self._read(channel)
                assert all(view.queued == 0 for view in self.views) == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")

    def _emit(self, channel: int, size: int) -> None:
        self._emitted += 1
        name = BatchId(f"record-{self._emitted}")
        self.writer.emit(BatchRef(batch_id=name, rows=1, size_bytes=size, subpartition=channel))

    def _read(self, channel: int) -> list[str]:
        taken = iter(self.views[channel].poll, None)
        return ["data" if isinstance(element.buffer, BatchRef) else "event" for element in taken]


def run_writer(case: Case) -> None:
    """Run a case about a writer."""
    writer = Writer(case["given"])
    for step in case["steps"]:
        writer.do(step)
    for word, wanted in case["expect"].items():
        writer.expect(word, wanted)
