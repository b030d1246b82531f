"""The jobs whose connectors are timed; each only forwards its rows, with a checkpoint per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.connectors.bare import WHOLE_BACKLOG
from benchmarks.connectors.broker import Broker
from flykka import (
    FileSink,
    FileSource,
    KafkaSink,
    KafkaSource,
    OffsetsInitializer,
    RawFormat,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.connectors import Sink, Source

CHECKPOINT_INTERVAL_S = 1
_FILES = 12


class WrongCountError(Exception):
    """The numbers of input and output rows differ."""


def write_rows(folder: Path, rows: int) -> None:
    folder.mkdir()
    for number in range(_FILES):
        first, behind = (rows * part // _FILES for part in (number, number + 1))
        values = [b"record %d" % row for row in range(first, behind)]
        pq.write_table(
            pa.table({"value": pa.array([value.ljust(100) for value in values])}), folder / f"{number}.parquet"
        )


class Jobs:
    def __init__(self, address: str, folder: Path, records: int) -> None:
        self._address = address
        self._folder = folder
        self._records = records
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, where: TracebackType | None
    ) -> None:
        self._env.close()

    def kafka_to_parquet(self, topic: str, turn: int) -> float:
        target = self._folder / f"kafka-to-parquet-{turn}"
        return self._run(self._topic(topic), FileSink.parquet(target), lambda: _rows_in(target))

    def kafka_to_kafka(self, topic: str, broker: Broker, turn: int) -> float:
        target = f"kafka-to-kafka-{turn}"
        broker.create(target, 4)
        sink = KafkaSink.to_topic(self._address, target, linger_ms=50)
        took = self._run(self._topic(topic), sink, lambda: len(broker.values(target)))
        broker.delete(target)
        return took

    def parquet_to_parquet(self, turn: int) -> float:
        target = self._folder / f"parquet-{turn}"
        return self._run(FileSource.parquet(self._folder / "rows"), FileSink.parquet(target), lambda: _rows_in(target))

    def parquet_to_delta(self, turn: int) -> float:
        from deltalake import DeltaTable

        from flykka import DeltaSink

        target = str(self._folder / f"delta-{turn}")
        return self._run(
            FileSource.parquet(self._folder / "rows"), DeltaSink.append(target), lambda: DeltaTable(target).count()
        )

    def _topic(self, topic: str) -> KafkaSource:
        whole = {name.replace(".", "_"): size for name, size in WHOLE_BACKLOG.items()}
        source = KafkaSource.of_topics(self._address, topic, **whole).values(RawFormat())
        return source.bounded(OffsetsInitializer.latest())

    def _run(self, source: Source, sink: Sink, count: Callable[[], int]) -> float:
        """Return the seconds of a job. Raises `WrongCountError` if rows are missing."""
        self._env.enable_checkpointing(f"{CHECKPOINT_INTERVAL_S}s")
        self._env.set_checkpoint_dir(str(self._folder / "checkpoints"))
        rows = self._env.from_source(source, WatermarkStrategy.no_watermarks(), uid="in")
        rows.sink_to(sink).uid("out")
        begun = time.perf_counter()
        self._env.execute(str(sink))
        took = time.perf_counter() - begun
        found = count()
        if found != self._records:
            raise WrongCountError(f"{sink} has {found:,} rows, not {self._records:,}")
        return took


def _rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
