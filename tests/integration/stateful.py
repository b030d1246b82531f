"""The examples of stateful functions: their input, and their output as one plain Spark batch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from flykka import DataStream, FileSink
from tests.layout.sources import ROOT

FILES = 5
ROWS_PER_FILE = 200
STEP_MS = 7_000
DISORDER_MS = 50_000

Define = Callable[[ModuleType, DataStream, Path], None]
ExpectedOutput = Callable[[ModuleType, DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulExample:
    """An example, its job, and its expected output. `newest` selects the newest rows of an output."""

    name: str
    define: Define
    expected: ExpectedOutput
    newest: Callable[[DataFrame], DataFrame] = lambda rows: rows

    def __str__(self) -> str:
        return self.name

    @property
    def module(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location(self.name, ROOT / "examples" / "stateful" / f"{self.name}.py")
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded


def write_events(folder: Path) -> Path:
    """Write files of seeded events, of one schema for all examples; event times are out of order."""
    folder.mkdir()
    chance = np.random.default_rng(11)
    for number in range(FILES):
        places = np.arange(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        times = places * STEP_MS + chance.integers(0, DISORDER_MS, ROWS_PER_FILE)
        rows = pd.DataFrame(
            {
                "sensor": chance.zipf(1.6, ROWS_PER_FILE).clip(max=60).astype("int64"),
                "user": chance.integers(0, 40, ROWS_PER_FILE).astype("int64"),
                "order_id": chance.integers(0, 300, ROWS_PER_FILE).astype("int64"),
                "event": chance.choice(["pay", "ship", "deliver", "cancel"], ROWS_PER_FILE),
                "amount": chance.integers(1, 1_000, ROWS_PER_FILE).astype("int64"),
                "at": pd.to_datetime(times, unit="ms", utc=True),
            }
        )
        rows.to_parquet(folder / f"events-{number:02}.parquet", coerce_timestamps="us")
    return folder


def _alarms(example: ModuleType, events: DataStream, output: Path) -> None:
    example.alarms(events).sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_alarms(_: ModuleType, events: DataFrame) -> DataFrame:
    following = F.lead("at").over(Window.partitionBy("sensor").orderBy("at"))
    silent = events.withColumn("following", following).where("following IS NULL OR following > at + INTERVAL 5 MINUTES")
    return silent.selectExpr("sensor", "at AS silent_since", "at + INTERVAL 5 MINUTES AS alarm_at")


def _totals(example: ModuleType, events: DataStream, output: Path) -> None:
    example.totals(events).sink_to(FileSink.parquet(str(output))).uid("output")


def _newest_totals(rows: DataFrame) -> DataFrame:
    newest = F.max_by(F.struct(*rows.columns), "payments").alias("row")
    return rows.groupBy("user").agg(newest).select("row.*")


def _expected_totals(_: ModuleType, events: DataFrame) -> DataFrame:
    return events.groupBy("user").agg(
        F.count("*").alias("payments"), F.sum("amount").alias("total"), F.max("amount").alias("largest")
    )


def _states(example: ModuleType, events: DataStream, output: Path) -> None:
    changes = example.states(events)
    rejected = changes.get_side_output(example.REJECTED).select("order_id", "state", "event", "at")
    changes.with_column("event", F.lit(None).cast("string")).select("order_id", "state", "event", "at").union(
        rejected
    ).sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_states(example: ModuleType, events: DataFrame) -> DataFrame:
    def applied(rows: pd.DataFrame) -> pd.DataFrame:
        state, made = "new", []
        for row in rows.sort_values(["at", "event"]).itertuples():
            following = example.NEXT.get((state, row.event))
            state = following or state
            made.append((row.order_id, state, None if following else row.event, row.at))
        return pd.DataFrame(made, columns=["order_id", "state", "event", "at"])

    columns = "order_id long, state string, event string, at timestamp"
    return events.groupBy("order_id").applyInPandas(applied, columns)


def _best(example: ModuleType, events: DataStream, output: Path) -> None:
    orders = events.with_column_renamed("order_id", "product")
    example.best_products(orders).sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_best(example: ModuleType, events: DataFrame) -> DataFrame:
    revenue = events.groupBy(F.window("at", "1 hour").alias("w"), F.col("order_id").alias("product"))
    hours = revenue.agg(F.sum("amount").alias("revenue"))
    best: DataFrame = example.top_three(
        hours.selectExpr("w.start AS window_start", "w.end AS window_end", "*").drop("w")
    )
    return best


def _visits(example: ModuleType, events: DataStream, output: Path) -> None:
    # Some sensors have few rows, so that some visits end.
    clicks = events.drop("user").with_column_renamed("sensor", "user")
    example.visits(clicks).sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_visits(_: ModuleType, events: DataFrame) -> DataFrame:
    of_session = F.session_window("at", "30 minutes").alias("w")
    visits = events.groupBy(F.col("sensor").alias("user"), of_session).agg(F.count("*").alias("clicks"))
    return visits.selectExpr("user", "clicks", "w.start AS began", "w.end - INTERVAL 30 MINUTES AS ended")


def _unique(example: ModuleType, events: DataStream, output: Path) -> None:
    payments = events.with_column_renamed("order_id", "payment_id")
    example.unique(payments).select("payment_id").sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_unique(_: ModuleType, events: DataFrame) -> DataFrame:
    return events.select(F.col("order_id").alias("payment_id")).distinct()


def _priced(example: ModuleType, events: DataStream, output: Path) -> None:
    rows = events.with_column_renamed("sensor", "product")
    orders = rows.where("event = 'pay'").select("order_id", "product", "amount", "at")
    prices = rows.where("event = 'ship'").with_column_renamed("at", "since").with_column_renamed("amount", "price")
    priced = example.priced(orders, prices.select("product", "price", "since"))
    priced.sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_prices(_: ModuleType, events: DataFrame) -> DataFrame:
    rows = events.withColumnRenamed("sensor", "product")
    orders = rows.where("event = 'pay'").select("order_id", "product", "amount", "at")
    prices = rows.where("event = 'ship'").selectExpr("product AS of", "amount AS price", "at AS since")
    known = orders.join(prices, F.expr("product = of AND since <= at"), "left")
    priced = known.groupBy(*orders.columns).agg(F.max_by("price", "since").alias("price"))
    return priced.select("order_id", "product", "amount", "price", "at")


def _write_findings(example: ModuleType, events: DataStream, output: Path) -> None:
    payments = events.where("event = 'pay'").select("user", "amount", "at")
    rules = events.where(_ARE_RULES).with_column("rule", F.expr(_RULE)).with_column_renamed("at", "since")
    found = example.found(payments, rules.select("rule", F.expr("amount - 500").alias("at_least"), "since"))
    found.sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_findings(_: ModuleType, events: DataFrame) -> DataFrame:
    rules = events.where(_ARE_RULES).selectExpr(f"{_RULE} AS rule", "amount - 500 AS at_least", "at AS since")
    payments = events.where("event = 'pay'").select("user", "amount", "at")
    return payments.join(rules, F.expr("since <= at AND amount >= at_least")).select("user", "amount", "rule", "at")


_ARE_RULES = "event = 'cancel' AND amount > 960"
_RULE = "concat('rule ', order_id, ' of ', date_format(at, 'HH:mm:ss.SSS'))"

EXAMPLES = (
    StatefulExample(name="priced_orders", define=_priced, expected=_expected_prices),
    StatefulExample(name="rules_by_broadcast", define=_write_findings, expected=_expected_findings),
    StatefulExample(name="deduplicated", define=_unique, expected=_expected_unique),
    StatefulExample(name="sessions", define=_visits, expected=_expected_visits),
    StatefulExample(name="silent_sensors", define=_alarms, expected=_expected_alarms),
    StatefulExample(name="running_totals", define=_totals, expected=_expected_totals, newest=_newest_totals),
    StatefulExample(name="top_products", define=_best, expected=_expected_best),
    StatefulExample(name="order_states", define=_states, expected=_expected_states),
)


def batch_output(spark: SparkSession, example: StatefulExample, events: Path) -> DataFrame:
    return example.expected(example.module, spark.read.parquet(str(events)))
