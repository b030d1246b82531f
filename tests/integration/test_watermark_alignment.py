"""Tests two sources of one alignment group: the faster source waits, and their join buffers few rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS = 10, 50
BEGIN_MS = 1_704_067_200_000


def write_files(folder: Path, step_ms: int, files: int = FILES) -> None:
    """Write files of rows that are `step_ms` apart in event time."""
    folder.mkdir()
    for file in range(files):
        ids = range(file * ROWS, (file + 1) * ROWS)
        times = pa.array([(BEGIN_MS + each * step_ms) * 1_000 for each in ids], pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"id": list(ids), "at": times}), folder / f"{file:02}.parquet")


def test_a_join_buffers_few_rows_of_an_aligned_source(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    write_files(tmp_path / "slow", 10, files=5)
    write_files(tmp_path / "fast", 10_000)
    env = environment().set_checkpoint_dir(str(tmp_path / "checkpoints")).enable_checkpointing("500ms")
    kept: list[int] = []

    def note(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        if isinstance(message, AcknowledgeCheckpoint) and message.state is not None:
            handles = (handle for state in message.state.operators for handle in state.shared)
            kept.append(sum(handle.rows for handle in handles if handle.state_name == "right"))

    env.cluster.system.add_delivery_hook(note)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("0s").with_timestamp_column("at")
    aligned = watermarks.with_watermark_alignment("sides", "1s", "20ms")
    slow, fast = (
        env.from_source(FileSource.parquet(str(tmp_path / side)).files_per_batch(1), aligned, side)
        for side in ("slow", "fast")
    )
    joined = slow.key_by("id").interval_join(fast.key_by("id")).between("-1s", "10s")
    joined.select("left.id").sink_to(FileSink.parquet(str(tmp_path / "output")))

    env.execute("aligned")

    met = {each for each in range(FILES * ROWS) if each * (10_000 - 10) <= 10_000}
    assert {row["id"] for row in spark.read.parquet(str(tmp_path / "output")).collect()} == met
    assert kept
    assert max(kept) <= 5 * ROWS
