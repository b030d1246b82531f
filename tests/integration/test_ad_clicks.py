"""Tests the example of clicks and impressions: at any parallelism, even with a kill, its output equals a batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from examples import ad_clicks
from flykka import RestartStrategies, StreamExecutionEnvironment
from flykka.messages.attempt.answers import SnapshotWritten
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS = 2, 200
TRUE = """
SELECT c.ad, c.user, c.at AS clicked_at, i.page, i.at AS seen_at FROM clicks c LEFT JOIN impressions i
ON c.ad = i.ad AND i.at BETWEEN c.at - INTERVAL 10 MINUTES AND c.at
"""


@pytest.fixture(scope="module")
def ads_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Impressions and clicks over a few hours, out of order by less than a minute."""
    folder, chance = tmp_path_factory.mktemp("ads"), np.random.default_rng(3)
    for name, values in (
        ("impressions", {"page": chance.choice(["/", "/news"], ROWS)}),
        ("clicks", {"user": [7] * ROWS}),
    ):
        (folder / name).mkdir()
        for number in range(FILES):
            ms = (number * ROWS + np.arange(ROWS)) * 20_000 + chance.integers(0, 50_000, ROWS)
            at = pa.array(ms * 1000).cast(pa.timestamp("us", tz="UTC"))
            rows = pa.table({"ad": chance.integers(0, 40, ROWS), "at": at, **values})
            pq.write_table(rows, folder / name / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("kills", [False, pytest.param(True, marks=pytest.mark.long)])
def test_ad_clicks_output_equals_that_of_a_batch(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    ads_folder: Path,
    tmp_path: Path,
    kills: bool,
) -> None:
    impressions, clicks, output = ads_folder / "impressions", ads_folder / "clicks", tmp_path / "output"
    env = environment().set_parallelism(4 if kills else 1).enable_checkpointing("500ms", tolerable_failures=100)
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    moment = Moment(name="at a barrier", matches=lambda said: isinstance(said, SnapshotWritten), count=3)
    kill = kill_at(env, moment) if kills else None
    ad_clicks.define_job(env, str(impressions), str(clicks), str(output))

    env.execute("ad clicks")

    assert kill is None or kill.done
    for name in ("impressions", "clicks"):
        spark.read.parquet(str(ads_folder / name)).createOrReplaceTempView(name)
    assertDataFrameEqual(spark.read.parquet(str(output)), spark.sql(TRUE))
