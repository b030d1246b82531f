"""Tests that a job whose staged files are damaged fails at once, and publishes no damaged file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, RestartStrategies, StreamExecutionEnvironment
from flykka.errors import JobExecutionError
from flykka.spark_bridge.connectors.file.sink import FileWriter
from flykka.spark_bridge.program.sink import SinkContext

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedSink(FileSink):
    def writer(self, context: SinkContext) -> FileWriter:
        return DamagedWriter(context, self.path, self.layout)


class DamagedWriter(FileWriter):
    """Empties the staged files before they are published."""

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        for file in staged_files(Path(self._path_as_given)):
            file.write_bytes(b"")
        return super().commit(checkpoint_id)


def staged_files(output: Path) -> Iterator[Path]:
    return (output / ".flykka-staging").rglob("part-*.parquet")


def test_a_job_with_an_emptied_staged_file_fails_without_a_restart(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    spark.range(100).coalesce(1).write.parquet(str(tmp_path / "in"))
    env = environment()
    env.enable_checkpointing("100ms").set_checkpoint_dir(tmp_path / "checkpoints")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, "10ms"))
    sink = DamagedSink.parquet(tmp_path / "out")
    env.from_source(FileSource.parquet(tmp_path / "in"), uid="numbers").sink_to(sink).uid("output")
    job = env.execute_async("damaged")

    with pytest.raises(
        JobExecutionError, match=r"StagedFileError: .*part-.*parquet is damaged: \d+ bytes were staged, but it has 0"
    ):
        job.wait()

    assert len(job.exception_history) == 1
    assert list((tmp_path / "out").glob("part-*")) == []
    assert list(staged_files(tmp_path / "out"))
