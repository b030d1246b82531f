"""flykka: a job as its users write it, with exactly-once checkpoints every second."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bids import SCHEMA
from benchmarks.query import EVENT_TIME, KEY, WATERMARK_DELAY, aggregates
from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message

CHECKPOINT_INTERVAL = "1s"


class FlykkaJob:
    """The query as a job of one source, one keyed vertex and a sink, on one TaskManager."""

    def __init__(self, rows_per_batch: int, *, has_rest: bool = False) -> None:
        self._rows_per_batch = rows_per_batch
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")
        # A checkpoint may start while the previous one is being written; otherwise a slow checkpoint would delay the
        # next.
        self._env.enable_checkpointing(CHECKPOINT_INTERVAL, max_concurrent=2)
        if has_rest:
            self._env.enable_rest()

    @property
    def rest_address(self) -> str | None:
        """The REST URL for observers, available from the first run on."""
        return self._env.rest_address

    def run(self, source: Path, output: Path, scratch: Path) -> int:
        self._env.set_checkpoint_dir(str(scratch / "checkpoints"))
        bids = FileSource.parquet(str(source), schema=SCHEMA).rows_per_batch(self._rows_per_batch)
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness(WATERMARK_DELAY)
        (
            self._env.from_source(bids, watermarks.with_timestamp_column(EVENT_TIME), "bids")
            .key_by(KEY)
            .window(TumblingEventTimeWindows.of("1s"))
            .aggregate(*aggregates())
            .sink_to(FileSink.parquet(str(output)))
        )
        completed: list[Message] = []
        client = self._env.execute_async("bids")
        client.add_listener(lambda message: completed.append(message))
        client.wait()
        return sum(isinstance(message, CheckpointCompleted) for message in completed)

    def close(self) -> None:
        self._env.close()
