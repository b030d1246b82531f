"""Tests keyed state on several Spark workers: one executor reads state that another executor has written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.standalone import standalone_cluster
from tests.cluster.test_flights_on_a_cluster import DEFAULTS, SHORT_LIVED
from tests.layout.sources import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]


def test_totals_continue_on_whichever_executor_processes_a_batch(tmp_path: Path) -> None:
    configuration = tmp_path / "conf"
    configuration.mkdir()
    (configuration / "spark-defaults.conf").write_text(DEFAULTS, encoding="utf-8")

    with standalone_cluster(tmp_path / "cluster", SHORT_LIVED) as cluster:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.cluster.totals_on_a_cluster", cluster.url, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "SPARK_CONF_DIR": str(configuration), "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=420,
            check=False,
        )

    assert ran.stdout.splitlines()[-1:] == ["50 keys, equal to the batch result"], ran.stdout + ran.stderr
    written = {path.parts[-3] for path in (tmp_path / "cluster").rglob("flykka-state/*")}
    assert len(written) != 1, "only one executor has seen state"
