"""Compares the current rows of a query with Spark's batch answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from flykka.spark_bridge.program.expressions import ExpressionBuilder
from flykka.spark_bridge.session.jvm_classes import frame_of_plan
from flykka.spark_bridge.sql.plan_node import PlanNode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.incremental.data import Data
    from flykka.api.streams.stream_type import Changelog
    from flykka.spark_bridge.sql.plan_node import Expression

Row = tuple[Any, ...]

_TOLERANCE = 1e-9
"""The largest relative difference of two sums of floating values."""

_FLOATING = frozenset({"float", "double"})
_ADDING = frozenset({"Sum", "Average"})
_ALWAYS_FLOATING = frozenset({"StddevSamp", "StddevPop", "VarianceSamp", "VariancePop", "Corr", "CovSample"})


class CurrentRows:
    def __init__(self, changelog: Changelog, columns: Sequence[str]) -> None:
        self._changelog = changelog
        self._columns = [name for name in columns if name != changelog.row_kind]
        self._by_key: dict[Row, Row] = {}
        self._rows: Counter[Row] = Counter()

    def apply(self, changes: Iterable[Mapping[str, object]]) -> None:
        keys, kind = self._changelog.keys, self._changelog.row_kind
        for change in changes:
            row = tuple(change[name] for name in self._columns)
            is_deletion = kind is not None and change[kind] in ("-D", "-U")
            if keys is None:
                self._rows[row] += -1 if is_deletion else 1
            elif is_deletion:
                self._by_key.pop(tuple(change[name] for name in keys), None)
            else:
                self._by_key[tuple(change[name] for name in keys)] = row

    @property
    def rows(self) -> Counter[Row]:
        """The rows, and how often each occurs: a negative number if more were deleted than inserted."""
        if self._changelog.keys is not None:
            return Counter(self._by_key.values())
        return Counter({row: number for row, number in self._rows.items() if number})


class Batches:
    """The answers of Spark's batches, each computed once."""

    def __init__(self, spark: SparkSession, data: Data) -> None:
        """Compute the answers in a separate session, in which each table is a view of the same name."""
        self._session = spark.newSession()
        self._data = data
        self._answers: dict[tuple[str, int], Counter[Row]] = {}

    def frame(self, query: str, step: int) -> DataFrame:
        text = self._data.suite.queries[query]
        for table in self._data.suite.tables_read(text):
            self._session.read.parquet(str(self._data.rows(table, step))).createOrReplaceTempView(table)
        return self._session.sql(text)

    def difference(self, query: str, step: int, rows: Counter[Row]) -> str | None:
        """Return how rows differ from the answer after a step; None if they are equal."""
        if (query, step) not in self._answers:
            self._answers[query, step] = _rows_of(self.frame(query, step))
        expected = self._answers[query, step]
        if rows == expected:
            return None
        frame = self.frame(query, step)
        plan = PlanNode(frame._jdf.queryExecution().analyzed())
        if adds_floating_values(plan) and are_close(rows, expected):
            return None
        if are_other_first_rows(frame, rows):
            return None
        missing, extra = expected - rows, rows - expected
        return "; ".join(
            f"{different.total()} {what} rows of {expected.total()}, such as {next(iter(different))}"
            for what, different in (("missing", missing), ("extra", extra))
            if different
        )


def _rows_of(frame: DataFrame) -> Counter[Row]:
    columns = [column.to_pylist() for column in frame.toArrow().columns]
    return Counter(zip(*columns, strict=True))


def are_other_first_rows(frame: DataFrame, rows: Counter[Row]) -> bool:
    """Return True if the rows are another valid result of a query whose ORDER BY does not decide which of some equal
    rows its LIMIT selects.
    """
    nodes = [PlanNode(frame._jdf.queryExecution().analyzed())]
    while nodes[-1].kind in ("GlobalLimit", "LocalLimit", "Project"):
        nodes.append(nodes[-1].children[0])
    sort = nodes[-1]
    if sort.kind != "Sort" or nodes[0].kind != "GlobalLimit":
        return False
    limit = int(nodes[0].part("expressions")[0].value)
    builder = ExpressionBuilder(frame.sparkSession)
    order = [getattr(builder.column(each.children[0].java), _order_name(each))() for each in sort.part("order")]
    every = frame_of_plan(frame.sparkSession, sort.children[0].java)
    ranks = every.select(*frame.columns, F.rank().over(Window.orderBy(*order)).alias(_RANK))
    peers = ranks.withColumn(_LAST, F.col(_RANK) + F.count("*").over(Window.partitionBy(_RANK)) - 1)
    first = peers.where(F.col(_RANK) <= limit)
    certain = _rows_of(first.where(F.col(_LAST) <= limit).drop(_RANK, _LAST))
    possible = _rows_of(first.drop(_RANK, _LAST))
    return rows.total() == min(limit, possible.total()) and certain <= rows <= possible


def _order_name(order: Expression) -> str:
    """Return the name of the method of Columns for a direction and the place of nulls, such as `asc_nulls_first`."""
    return f"{order.java.direction().sql()}_{order.java.nullOrdering().sql()}".lower().replace(" ", "_")


_RANK, _LAST = "__rank", "__last"


def adds_floating_values(plan: PlanNode) -> bool:
    """Return True if a part of a plan adds floating values, whose sum depends on their order."""
    if any(map(_adds, (each for expression in plan.expressions for each in expression.walk()))):
        return True
    return any(map(adds_floating_values, (*plan.children, *plan.subqueries, *plan.inner_children)))


def _adds(expression: Expression) -> bool:
    if expression.kind != "AggregateExpression":
        return False
    called = expression.called
    return called.kind in _ALWAYS_FLOATING or (
        called.kind in _ADDING and any(each.type_name in _FLOATING for each in called.children)
    )


def are_close(rows: Counter[Row], expected: Counter[Row]) -> bool:
    """Return True if the rows are equal, except for small differences of floating values."""
    ours, theirs = sorted(rows.elements(), key=_order), sorted(expected.elements(), key=_order)
    return len(ours) == len(theirs) and all(
        all(map(_is_close, one, other)) for one, other in zip(ours, theirs, strict=True)
    )


def _order(row: Row) -> tuple[list[str], list[float]]:
    exact = [str(value) for value in row if not isinstance(value, float)]
    return exact, [value for value in row if isinstance(value, float)]


def _is_close(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE) or (math.isnan(one) and math.isnan(other))
    return one == other
