"""What the README shows is Python, and its job runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.layout.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SNIPPETS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_is_python(snippet: str) -> None:
    compile(snippet, "README.md", "exec")


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
def test_the_job_runs_as_it_stands_there(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    lines = [
        '{"time": "2026-01-01T00:00:10Z", "service": "shop", "status": 500}',
        '{"time": "2026-01-01T00:00:50Z", "service": "shop", "status": 503}',
        '{"time": "2026-01-01T00:01:10Z", "service": "shop", "status": 404}',
        '{"time": "2026-01-01T00:01:20Z", "service": "mail", "status": 502}',
    ]
    (tmp_path / "logs" / "first.json").write_text("\n".join(lines))
    (tmp_path / "logs" / "_SUCCESS").touch()
    monkeypatch.chdir(tmp_path)
    (job,) = (snippet for snippet in SNIPPETS if "env.execute(" in snippet)

    exec(job, {})

    rows = spark.read.parquet(str(tmp_path / "errors")).select("service", "errors").collect()
    assert sorted(map(tuple, rows)) == [("mail", 1), ("shop", 2)]
