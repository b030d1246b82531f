"""Tests that rows of a key reach its function in source order: from files of one stage, and across two executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka import FileSource, StreamExecutionEnvironment
from tests.integration.row_order_app import KEYS, overtaken_rows

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

DEADLINE = 300
"""The time limit in seconds. Two executors start slowly on a busy machine."""


def test_rows_of_larger_files_do_not_overtake_earlier_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, start in enumerate((0, 10, 100, 1000)):
        pq.write_table(pa.table({"id": range(start, start * 10 or 10)}), tmp_path / "in" / f"{number}.parquet")

    with StreamExecutionEnvironment.get_execution_environment(slots_per_task_manager=2) as env:
        counts = overtaken_rows(env, env.from_source(FileSource.parquet(str(tmp_path / "in"))), tmp_path)

    assert counts == [(2000, 0)] * KEYS


@pytest.mark.long
@pytest.mark.timeout(DEADLINE + 60)
def test_rows_of_a_key_do_not_overtake_each_other_on_two_executors(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.integration.row_order_app", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, "SPARK_WORKER_DIR": str(tmp_path / "work")},
    )

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == [[800, 0]] * KEYS
