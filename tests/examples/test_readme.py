"""What the README shows is Python, and its job runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.house.sources import HOUSE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SNIPPETS = re.findall(r"^```python\n(.*?)^```$", (HOUSE / "README.md").read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_is_python(snippet: str) -> None:
    compile(snippet, "README.md", "exec")


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
def test_the_job_runs_as_it_stands_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "flights").mkdir()
    half_hours = pa.array([number * 1_800_000_000 for number in range(4)], pa.timestamp("us", "UTC"))
    delays = pa.array([1.0, None, 3.0, 5.0])
    flights = pa.table({"origin": ["JFK", "JFK", "JFK", "LGA"], "time_hour": half_hours, "dep_delay": delays})
    pq.write_table(flights, tmp_path / "flights" / "all.parquet")
    (job,) = (snippet for snippet in SNIPPETS if "env.execute(" in snippet)
    for folder in ("/tmp/checkpoints", "/data/flights", "/data/delays"):
        assert f'"{folder}"' in job
        job = job.replace(folder, str(tmp_path / Path(folder).name))

    exec(job, {})

    rows = spark.read.parquet(str(tmp_path / "delays")).select("origin", "flights", "mean_delay").collect()
    assert sorted(map(tuple, rows)) == [("JFK", 1, 1.0), ("JFK", 1, 3.0), ("LGA", 1, 5.0)]
