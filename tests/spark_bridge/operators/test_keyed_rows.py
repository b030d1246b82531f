"""Tests functions of batches with keyed state: their output equals that of one plain Spark batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.keyed_rows import (
    KeyedRowsCode,
    TableProgram,
    drop_duplicates_code,
    extreme_rows_code,
    process_table_code,
    reduced_rows_code,
)
from tests.spark_bridge.harness import Harness
from tests.spark_bridge.keyed_attempts import KeyedAttempts, Sale, take_snapshots

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES: list[list[Sale]] = [
    [(1, 1, 0.0), (1, 2, 0.1), (2, 3, 0.2), (1, 1, 0.25)],
    [(1, 4, 0.3), (3, None, 0.4), (4, 2, 0.45)],
    [(2, 5, 0.5), (2, 6, 0.6), (3, 7, 0.7), (1, 0, 0.8), (5, 1, 0.9)],
]
TOTALS = "key long, n long, total long"


def totals(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    new = rows.group_by("key").aggregate([("amount", "sum"), ("at", "count")])
    new = new.take(pc.index_in(state["key"], value_set=new["key"]))
    added = {
        "n": pc.add(pc.fill_null(state["n"], 0), new["at_count"]),
        "total": pc.add(pc.fill_null(state["total"], 0), pc.fill_null(new["amount_sum"], 0)),
    }
    result = pa.table({"key": state["key"], **added})
    return result, result


def totals_of_frames(rows: Any, state: Any) -> tuple[Any, Any]:
    new = rows.groupby("key").agg(rows=("at", "count"), amounts=("amount", "sum")).reset_index()
    result = state.merge(new, on="key")
    result["n"] = result["n"].fillna(0) + result["rows"]
    result["total"] = result["total"].fillna(0) + result["amounts"]
    result = result[["key", "n", "total"]]
    return result, result


def later(reduced: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "amount": (reduced["amount"] or 0) + (row["amount"] or 0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """An operation: its code for rows of a prototype, and its expected output; `newest` selects the final rows."""

    name: str
    code: Callable[[DataFrame], KeyedRowsCode]
    expected: Callable[[DataFrame], DataFrame]
    newest: Callable[[DataFrame], DataFrame] = lambda rows: rows


def true_totals(sales: DataFrame) -> DataFrame:
    return sales.groupBy("key").agg(F.count("*").alias("n"), F.coalesce(F.sum("amount"), F.lit(0)).alias("total"))


def first_by(order: str) -> Callable[[DataFrame], DataFrame]:
    rank = f"row_number() OVER (PARTITION BY key ORDER BY {order}) AS rank"
    return lambda sales: sales.selectExpr("*", rank).where("rank = 1").drop("rank")


def newest_totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.max("n").alias("n"), F.max_by("total", "n").alias("total"))


def true_reduced(sales: DataFrame) -> DataFrame:
    total = F.coalesce(F.sum("amount"), F.lit(0)).alias("amount")
    rows = sales.groupBy("key").agg(total, F.max("at").alias("at"), F.count("*").alias("n"))
    return rows.withColumn("amount", F.expr("IF(n = 1 AND amount = 0, NULL, amount)")).drop("n")


def table_code(function: Any, frames: str) -> Callable[[DataFrame], KeyedRowsCode]:
    program = TableProgram(function=function, state="n long, total long", output=TOTALS, frames=frames)
    return lambda rows: process_table_code(rows, ("key",), program)[1]


VERBS = (
    Verb(name="process_table", code=table_code(totals, "arrow"), expected=true_totals, newest=newest_totals),
    Verb(name="with pandas", code=table_code(totals_of_frames, "pandas"), expected=true_totals, newest=newest_totals),
    Verb(
        name="drop_duplicates",
        code=lambda rows: drop_duplicates_code(rows, ["key"], None, None),
        expected=first_by("at"),
    ),
    Verb(
        name="drop_duplicates within",
        code=lambda rows: drop_duplicates_code(rows, ["key"], EventTime(column="at"), 250),
        expected=lambda sales: sales.where("unix_millis(at) % 1000 IN (0, 200, 250, 400, 450, 500, 700, 800, 900)"),
    ),
    Verb(
        name="max_by",
        code=lambda rows: extreme_rows_code(rows, ("key",), "amount", is_greatest=True),
        expected=first_by("amount DESC NULLS LAST, at"),
        newest=first_by("amount DESC NULLS LAST, at"),
    ),
    Verb(
        name="min_by",
        code=lambda rows: extreme_rows_code(rows, ("key",), "amount", is_greatest=False),
        expected=first_by("amount NULLS LAST, at"),
        newest=first_by("amount NULLS LAST, at"),
    ),
    Verb(
        name="reduce",
        code=lambda rows: reduced_rows_code(rows, ("key",), later),
        expected=true_reduced,
        newest=first_by("at DESC"),
    ),
)
QUICK = ("process_table", "drop_duplicates within", "max_by", "reduce")


def keyed(harness: Harness, verb: Verb) -> KeyedAttempts:
    prototype = harness.plane.session.createDataFrame([], "key long, amount long, at timestamp")
    return KeyedAttempts(harness, verb.code(prototype), FILES)


@pytest.mark.parametrize(
    ("verb", "after"),
    [
        # These cases are long because the others cover them: dropping duplicates within a time is a form of dropping
        # duplicates, the least row is found like the greatest, a function of pandas frames has the state of a
        # function of Arrow tables, and all state is redistributed in the same way.
        pytest.param(
            verb,
            after,
            id=f"{verb.name}-{after}",
            marks=() if verb.name in QUICK and (after == 2) is (verb.name == "process_table") else pytest.mark.long,
        )
        for verb in VERBS
        for after in (1, 2)
    ],
)
def test_output_after_a_restore_at_any_parallelism_equals_a_batch(harness: Harness, verb: Verb, after: int) -> None:
    attempts = keyed(harness, verb)
    subtasks = attempts.begin(1)
    attempts.read(subtasks, 0, 1)

    restored = attempts.begin(after, take_snapshots(subtasks, 1))
    attempts.read(restored, 2)
    take_snapshots(restored, 2)

    sales = harness.plane.session.read.parquet(str(harness.input))
    assertDataFrameEqual(verb.newest(harness.published()), verb.expected(sales))
