"""Tests that a bridge to Spark runs on its own Pykka thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flykka import StreamExecutionEnvironment
from tests.actors.pykka_loops import PykkaLoops
from tests.integration import sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def test_bridges_to_spark_run_in_pykkas_own_loop(
    environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    env = environment()
    loops = PykkaLoops(env.cluster.system)

    sales.start_hourly_sales(env, sales_files, tmp_path / "output").wait(timeout=120)

    loops.assert_pinned("job-manager", "task-manager-", "checkpoint-coordinator-de-activator", "bridge")
