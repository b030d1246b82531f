"""Tests the demo on several Spark workers: one worker is killed, and no row is lost or duplicated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.standalone import standalone_cluster
from tests.layout.sources import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

# Options for processes that live for seconds, so that no time is spent on optimisation.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DEFAULTS = f"""
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.extraJavaOptions {SHORT_LIVED}
spark.executor.extraJavaOptions {SHORT_LIVED}
spark.executor.memory 512m
spark.sql.shuffle.partitions 2
# Both workers are to hold batches before one is killed: the first job waits for their executors.
spark.cores.max 2
spark.scheduler.minRegisteredResourcesRatio 1.0
"""


def test_flights_are_counted_exactly_once_when_a_spark_worker_is_killed(tmp_path: Path) -> None:
    configuration = tmp_path / "conf"
    configuration.mkdir()
    (configuration / "spark-defaults.conf").write_text(DEFAULTS, encoding="utf-8")

    with standalone_cluster(tmp_path / "cluster", SHORT_LIVED) as cluster:
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.cluster.flights_on_a_cluster",
                cluster.url,
                str(tmp_path),
            ],
            cwd=ROOT,
            env={**os.environ, "SPARK_CONF_DIR": str(configuration), "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=420,
            check=False,
        )

    lines = ran.stdout.splitlines()
    assert lines[-1:] == ["exactly once: 19486 rows, equal to the batch result"], ran.stdout + ran.stderr
    assert "LostBatchError: " in ran.stdout, ran.stdout
    assert "restored from checkpoint" in ran.stdout, ran.stdout
