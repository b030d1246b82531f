"""Values of subqueries: each is joined once, and different subqueries keep different values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.session.jvm_classes import frame_of_plan
from flykka.spark_bridge.sql.plan_node import PlanNode
from flykka.spark_bridge.sql.subqueries import without_subqueries

pytestmark = [pytest.mark.spark, pytest.mark.integration]

MIN, MAX = "(SELECT min(id) FROM one)", "(SELECT max(id) FROM one)"


@pytest.fixture(autouse=True)
def views(spark: SparkSession) -> Iterator[None]:
    """Create two views with the same plan."""
    rows = spark.range(1, 5)
    for name in ("one", "other"):
        rows.createOrReplaceTempView(name)
    yield
    for name in ("one", "other"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    ("query", "joins"),
    [
        (f"SELECT {MIN} AS a, {MAX} AS b, {MIN} AS c FROM one", 2),
        ("SELECT (SELECT max(id) FROM one) AS a, (SELECT max(id) FROM other) AS b FROM one", 2),
        (f"SELECT id FROM one WHERE id > {MIN} AND id < {MAX}", 2),
        (
            "SELECT id FROM one WHERE EXISTS (SELECT 1 FROM one WHERE id = 1)"
            " AND NOT EXISTS (SELECT 1 FROM one WHERE id = 9)",
            2,
        ),
        (f"SELECT sum(id - {MIN}) AS a, sum(id - {MAX}) AS b, sum(id - {MIN}) - {MAX} AS c FROM one", 3),
        (f"SELECT id > {MIN} AS a, count(*) AS n FROM one GROUP BY id > {MIN}", 1),
        (
            f"SELECT (SELECT count(*) FROM one WHERE id > {MIN} AND id < (SELECT max(id) FROM other)) AS a,"
            f" (SELECT count(*) FROM one WHERE id > (SELECT min(id) FROM other) AND id < {MAX}) AS b FROM one",
            6,
        ),
    ],
)
def test_different_subqueries_keep_different_values(spark: SparkSession, query: str, joins: int) -> None:
    expected = spark.sql(query)

    plan = without_subqueries(spark, PlanNode(expected._jdf.queryExecution().analyzed()), _reads_view)

    assert sorted(frame_of_plan(spark, plan.java).collect()) == sorted(expected.collect())
    assert _joins(plan) == joins


def _reads_view(node: PlanNode) -> bool:
    return node.view_name is not None or any(map(_reads_view, (*node.children, *node.subqueries)))


def _joins(node: PlanNode) -> int:
    return (node.kind == "Join") + sum(map(_joins, node.children))
