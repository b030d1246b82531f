"""A job on Spark, monitored and stopped over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.client.rest_cluster_client import RestClusterClient
from flykka.errors import ProgramError
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_job_takes_a_savepoint_and_is_stopped_with_another(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(50).write.json(str(tmp_path / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_rest().set_default_savepoint_directory(tmp_path / "savepoints")
        env.enable_checkpointing("100ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
        source = FileSource.json(tmp_path / "in", schema="id long").monitor_continuously("100ms", until=None)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="numbers")
        numbers.sink_to(FileSink.parquet(tmp_path / "out")).uid("out")
        before = env.rest_address
        job = env.execute_async("numbers")
        wait_checkpoint(job)
        address = env.rest_address
        assert before is None
        assert address is not None
        client = RestClusterClient(address)

        number = client.trigger_checkpoint(job.job_id, "FULL")
        taken = client.trigger_savepoint(client.find("numbers").job_id, None)
        stopped = client.stop_with_savepoint(job.job_id, None)
        job.wait(timeout=30)

        assert number in [each.checkpoint_id for each in job.details.checkpoints]
        assert {Path(path).parent for path in (taken, stopped)} == {tmp_path / "savepoints"}
        assert job.details.kept_checkpoint == stopped
        assert [(each.name, each.status) for each in client.jobs()] == [("numbers", "FINISHED")]
        with pytest.raises(ProgramError, match="there is a REST interface already"):
            env.enable_rest(0)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 50
