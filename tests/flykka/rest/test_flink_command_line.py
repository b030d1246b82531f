"""Flink's own, unmodified command line against a job on Spark."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def flink(tmp_path: Path) -> list[str]:
    package = find_spec("pyflink")
    if package is None or not package.submodule_search_locations:
        pytest.skip("Apache Flink is not installed: pip install 'flykka[flink-ui]'")
    folder = package.submodule_search_locations[0]
    (tmp_path / "config.yaml").write_text("rest.retry.max-attempts: 2\n")
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    return [str(java), "-cp", f"{folder}/lib/*", "org.apache.flink.client.cli.CliFrontend"]


def test_commands_of_flink_work_unmodified(spark: SparkSession, flink: list[str], tmp_path: Path) -> None:
    def run(*words: str) -> str:
        environment = {**os.environ, "FLINK_CONF_DIR": str(tmp_path)}
        done = subprocess.run(
            [*flink, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    spark.range(50).write.json(str(tmp_path / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_rest(no_token=True).enable_checkpointing("200ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
        env.set_default_savepoint_directory(tmp_path / "savepoints")

        def start(name: str) -> str:
            source = FileSource.json(tmp_path / "in", schema="id long").monitor_continuously("100ms", until=None)
            numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="numbers")
            numbers.sink_to(FileSink.parquet(tmp_path / name)).uid("out")
            job = env.execute_async(name)
            wait_checkpoint(job)
            return job.job_id

        first = start("stopped")
        assert env.rest_address is not None
        at = ("-m", env.rest_address.removeprefix("http://"))
        listed = run("list", *at)
        taken = run("savepoint", *at, first)
        checkpoints = [run("checkpoint", *at, *kind, first) for kind in ((), ("--full",))]
        stopped = run("stop", *at, "-p", str(tmp_path / "others"), first)
        second = start("cancelled")
        run("cancel", *at, second)
        (path,) = (line.split()[-1] for line in taken.splitlines() if line.startswith("Savepoint completed. Path:"))
        run("savepoint", *at, "-d", path)

        assert f"{first} : stopped (RUNNING)" in listed
        assert all(" completed." in checkpoint for checkpoint in checkpoints)
        assert str(tmp_path / "others") in stopped
        assert not Path(path).exists()
        assert {job.name: job.status.value for job in env.cluster.jobs()}["stopped"] == "FINISHED"
