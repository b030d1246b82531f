"""Tests that the client, HTTP and the command line can request savepoints of one job at the same time."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import CheckpointFailureReason, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.cli.main import main
from flykka.client.rest_cluster_client import RestClusterClient
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def test_concurrently_requested_savepoints_complete_beside_checkpoints(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.range(50).write.json(str(tmp_path / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_rest().set_default_savepoint_directory(tmp_path / "savepoints")
        env.set_tolerable_checkpoint_failure_number(100, CheckpointFailureReason.CHECKPOINT_EXPIRED)
        env.enable_checkpointing("100ms", initial_delay="10ms", retained=3, max_concurrent_deletions=1)
        env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
        source = FileSource.json(tmp_path / "in", schema="id long").monitor_continuously("100ms", until=None)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="numbers")
        numbers.sink_to(FileSink.parquet(tmp_path / "out")).uid("out")
        job = env.execute_async("numbers")
        wait_checkpoint(job)
        address = env.rest_address
        assert address is not None
        remote = RestClusterClient(address)

        with ThreadPoolExecutor(5) as users:
            requests = [users.submit(job.trigger_savepoint) for _ in range(2)]
            requests += [users.submit(remote.trigger_savepoint, job.job_id, None) for _ in range(2)]
            command = users.submit(main, ["savepoint", "take", "numbers", "--address", address])
            paths = [each.result(timeout=60) for each in requests]
        paths += re.findall(r"\S*/savepoints/savepoint-\S+", capsys.readouterr().out)
        wait_checkpoint(job)
        last = job.stop()
        job.wait(timeout=60)

        assert command.result() == 0
        taken = [CheckpointStorage(path).read_metadata(path) for path in paths]
        assert len({savepoint.checkpoint_id for savepoint in taken}) == 5
        assert {savepoint.job_id for savepoint in taken} == {job.job_id}
        assert CheckpointStorage(str(tmp_path / "checkpoints")).addresses() == [last]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 50
