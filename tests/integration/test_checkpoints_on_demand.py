"""Tests checkpoints that a client triggers; the periodic interval is an hour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.machines.state.handles import shared_state_of
from flykka.errors import CheckpointError, JobCancelledError
from tests.integration.test_savepoints import wait_read

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def files_of(path: str) -> set[str]:
    return set(shared_state_of(CheckpointStorage(path).read_metadata(path)))


def test_a_full_checkpoint_refers_to_no_earlier_files(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    spark.range(20).selectExpr("id", "id % 4 AS shop").write.parquet(str(tmp_path / "in"))
    env = environment().enable_checkpointing("1h", retained=5, initial_delay="1h")
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    source = FileSource.parquet(str(tmp_path / "in")).monitor_continuously("1h", until=None)
    counts = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="sales").key_by("shop").count("sales")
    counts.uid("counts").sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("out")
    client = env.execute_async("counts")
    wait_read(client, 20)

    kinds = ("configured", "incremental", "FULL", "incremental")
    paths = [client.trigger_checkpoint(kind) for kind in kinds]
    first, second, full, last = map(files_of, paths)
    with pytest.raises(
        CheckpointError, match="unknown checkpoint type 'big': use one of configured, full, incremental"
    ):
        client.trigger_checkpoint("big")
    client.cancel()

    numbers = [int(Path(path).name.removeprefix("chk-")) for path in paths]
    assert numbers == [*range(numbers[0], numbers[0] + 4)]
    assert all((first, second, full, last))
    # The other checkpoints may refer to files of earlier checkpoints whose completion a task already knew.
    assert full.isdisjoint(first | second)
    with pytest.raises(JobCancelledError):
        client.wait(timeout=30)
    with pytest.raises(CheckpointError, match=r"no checkpoint of job 'counts' .*: it is CANCELED already"):
        client.trigger_checkpoint()
