"""Tests the example of orders and rates: even with a kill its output equals a plain batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from examples import currency_rates
from flykka import RestartStrategies, StreamExecutionEnvironment
from flykka.messages.attempt.answers import SnapshotWritten
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS = 2, 100
TRUE = """
SELECT o.order_id, o.at, o.amount * max_by(r.rate, r.at) AS euros
FROM orders o LEFT JOIN rates r ON o.currency = r.currency AND r.at <= o.at GROUP BY o.order_id, o.at, o.amount
"""


@pytest.fixture(scope="module")
def currencies_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rates and orders of some hours, out of order by less than a minute."""
    folder, chance = tmp_path_factory.mktemp("currencies"), np.random.default_rng(4)
    for name, value in (("rates", "rate"), ("orders", "amount")):
        (folder / name).mkdir()
        for number in range(FILES):
            places = number * ROWS + np.arange(ROWS)
            micros = (places * 20_000 + chance.integers(0, 50_000, ROWS)) * 1000 + places
            rows = {
                "order_id": places,
                "currency": chance.choice(["usd", "gbp", "jpy", "chf"], ROWS),
                value: chance.integers(1, 100, ROWS) / 4,
                "at": pa.array(micros).cast(pa.timestamp("us", tz="UTC")),
            }
            made = pa.table(rows if name == "orders" else {k: v for k, v in rows.items() if k != "order_id"})
            pq.write_table(made, folder / name / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("kills", [False, pytest.param(True, marks=pytest.mark.long)])
def test_currency_rates_output_equals_that_of_a_batch(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    currencies_folder: Path,
    tmp_path: Path,
    kills: bool,
) -> None:
    env = environment().set_parallelism(2 if kills else 1).enable_checkpointing("500ms", tolerable_failures=100)
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    moment = Moment(name="", matches=lambda said: isinstance(said, SnapshotWritten), count=3)
    kill = kill_at(env, moment) if kills else None
    currency_rates.define_job(
        env, str(currencies_folder / "rates"), str(currencies_folder / "orders"), str(tmp_path / "output")
    )

    env.execute("currency rates")

    assert kill is None or kill.done
    for name in ("rates", "orders"):
        spark.read.parquet(str(currencies_folder / name)).createOrReplaceTempView(name)
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), spark.sql(TRUE))
