"""Tests that split and merged aggregates equal Spark's batch in value, name and type."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.spark_bridge.program.aggregates import TIME, PartialAggregates, RowStateAggregates, analyze

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Columns = Callable[[], list[Column]]
"""A function that returns columns. A Column needs a running session, so it is created in the test."""

SCHEMA = "k string, l long, d double, c decimal(10,2), w long, `odd.name` int"


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Seeded rows with nulls in every column. The doubles are halves, so that sums do not depend on their order."""
    chance = random.Random(1)
    tuples = [
        (
            chance.choice(["a", "b", None]),
            chance.choice([None, *range(20)]),
            chance.choice([None, 1.5, -2.25, 0.0, -0.0]),
            chance.choice([None, Decimal("1.25"), Decimal("99999999.99")]),
            chance.randrange(4),
            chance.choice([None, 1, 2]),
        )
        for _ in range(300)
    ]
    return spark.createDataFrame(tuples, SCHEMA).coalesce(1).localCheckpoint()


def assert_same_as_batch(rows: DataFrame, keys: list[Column | str], aggregates: list[Column], *, apart: bool) -> None:
    plan = analyze(rows.limit(0), keys, aggregates)
    pieces = [plan.local(rows.where(F.col("w") % 2 == half), F.col("w")) for half in (0, 1)]
    pieces += [plan.local(rows.where("l is null"), F.col("w")), plan.local(rows.where("l = 3"), F.col("w"))]
    again = rows.unionAll(rows.where("l is null")).unionAll(rows.where("l = 3"))

    merged = plan.merge(plan.merge(pieces[0].unionAll(pieces[2])).unionAll(pieces[1])).unionAll(pieces[3])
    result = plan.compute_results(merged, **{TIME: F.col(TIME)})
    batch = again.groupBy(F.col("w").alias(TIME), *keys).agg(*aggregates)

    assert isinstance(plan, PartialAggregates) is apart
    assert [(field.name, field.dataType) for field in result.schema] == [
        (field.name, field.dataType) for field in batch.schema
    ]
    assert sorted(map(repr, result.collect())) == sorted(map(repr, batch.collect()))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(
            lambda: [F.count("*").alias("n"), F.count("l"), F.sum("l"), F.min("d"), F.max("k"), F.avg("l"), F.avg("d")],
            id="the five functions",
        ),
        pytest.param(lambda: [F.sum("c").alias("total"), F.avg("c").alias("mean"), F.max("c")], id="decimals"),
        pytest.param(
            lambda: [
                F.count(F.when(F.col("l").isNull(), 1)).alias("missing"),
                F.sum(F.when(F.col("l") > 3, F.col("l"))),
                F.expr("count(l, d)"),
            ],
            id="conditions inside",
        ),
        pytest.param(
            lambda: [
                (F.max("l") - F.min("l")).alias("span"),
                F.round(F.sum("l") / F.count("l"), 2).alias("ratio"),
                F.coalesce(F.max("d"), F.lit(0.0)).cast("string").alias("text"),
            ],
            id="expressions around",
        ),
        pytest.param(
            lambda: [F.max(F.struct("l", "d")).alias("largest"), F.max("`odd.name`"), F.max(F.upper("k"))],
            id="structures, odd names and functions inside",
        ),
        pytest.param(lambda: [F.concat("k", F.max("l").cast("string")).alias("named")], id="a key beside an aggregate"),
    ],
)
def test_decomposable_aggregates_are_merged_from_parts(rows: DataFrame, columns: Columns) -> None:
    assert_same_as_batch(rows, ["k"], columns(), apart=True)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(lambda: [F.countDistinct("l"), F.max("d")], id="distinct"),
        pytest.param(lambda: [F.sort_array(F.collect_list("l")).alias("all")], id="lists"),
        pytest.param(lambda: [F.percentile_approx("l", 0.5), F.min("k")], id="percentiles"),
        pytest.param(lambda: [F.expr("count(*) filter (where l > 2)")], id="filters"),
        pytest.param(lambda: [F.expr("try_sum(l)")], id="try_sum"),
    ],
)
def test_other_aggregates_are_computed_from_rows(rows: DataFrame, columns: Columns) -> None:
    assert_same_as_batch(rows, ["k"], columns(), apart=False)


def test_keys_may_be_several_expressions(rows: DataFrame) -> None:
    assert_same_as_batch(rows, [F.upper("k").alias("K"), "`odd.name`"], [F.sum("l"), F.avg("d")], apart=True)


def test_a_computed_key_beside_an_aggregate_is_computed_from_rows(rows: DataFrame) -> None:
    computed = [F.concat(F.upper("k"), F.max("l").cast("string")).alias("x")]

    assert_same_as_batch(rows, [F.upper("k")], computed, apart=False)


def test_a_decimal_sum_that_may_become_null_is_computed_from_rows(spark: SparkSession, rows: DataFrame) -> None:
    lenient = spark.newSession()
    lenient.conf.set("spark.sql.ansi.enabled", "false")
    prototype = lenient.createDataFrame([], SCHEMA)

    assert isinstance(analyze(prototype, ["k"], [F.sum(F.col("c").cast("decimal(29,2)"))]), RowStateAggregates)
    in_parts = analyze(prototype, ["k"], [F.sum("l"), F.sum("d"), F.sum(F.col("c").cast("decimal(28,2)")), F.avg("c")])
    assert isinstance(in_parts, PartialAggregates)
    assert in_parts.wrapping == {in_parts.parts[0].name}


def test_only_needed_columns_are_stored(rows: DataFrame) -> None:
    plan = analyze(rows, ["k"], [F.countDistinct("l")])

    assert plan.local(rows, F.col("w")).columns == [TIME, "k", "l"]


def test_a_part_is_shared_by_all_aggregates_that_need_it(rows: DataFrame) -> None:
    plan = analyze(rows, ["k"], [F.sum("l"), F.sum("l") * 2, F.avg("l"), F.count("l"), F.count("*")])

    parts = [name for name in plan.local(rows, F.col("w")).columns if name.startswith("__part")]

    # The sum for an average is a double, the sum itself an integer. The row count is always included.
    assert len(parts) == 3


def test_a_changed_aggregate_changes_the_structure_but_a_renamed_one_does_not(rows: DataFrame) -> None:
    structure = analyze(rows, ["k"], [F.sum("l").alias("a")]).structure

    assert analyze(rows, ["k"], [F.sum("l").alias("b")]).structure == structure
    assert analyze(rows, ["k"], [F.sum("d").alias("a")]).structure != structure
    assert analyze(rows, ["l"], [F.sum("l").alias("a")]).structure != structure


def test_a_missing_column_is_refused(rows: DataFrame) -> None:
    with pytest.raises(AnalysisException, match="nothing"):
        analyze(rows, ["k"], [F.sum("nothing")])
