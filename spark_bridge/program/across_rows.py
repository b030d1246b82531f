"""Finds operations across several rows in the plan that Spark has analyzed.

Rows arrive in batches with arbitrary boundaries. So an aggregate, a sort or a `dropDuplicates` that is computed batch
by batch is correct for one batch only. Operations on other rows, such as rows of a static DataFrame before it is
joined, are the same for every batch, so only the nodes between the stream's rows and the result count. Actions such as
`rows.count()`, and Python code that receives a part of a batch, are not in the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.program.expressions import elements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class AcrossRows:
    does: str
    instead: str


_WINDOWS = "key_by(...).window(...).aggregate(...) does it over event time"
_AGGREGATES = AcrossRows("aggregates rows (groupBy, agg, count)", _WINDOWS)
_REMOVES_DUPLICATES = AcrossRows(
    "removes duplicates (dropDuplicates, distinct)",
    "key_by(...).window(...).aggregate(...) gives one row for each key and window of event time",
)
SORTS = AcrossRows("sorts rows (orderBy)", "the rows of a stream have no order: sort them where they are read")
_CUTS = AcrossRows(
    "limits rows (limit, offset)",
    "a stream has no first rows: key_by(...).window(...).aggregate(F.max_by(...)) finds the greatest",
)
_GROUPS = AcrossRows("gives groups of rows to a function (applyInPandas)", _WINDOWS)
_COMPARES_SETS = AcrossRows(
    "compares sets of rows (intersect, subtract, exceptAll)",
    "join(static, how='left_anti') compares with rows that stay",
)
_NUMBERS = AcrossRows(
    "numbers rows (monotonically_increasing_id, zipWithIndex)",
    "the numbers start again with every batch: F.expr('uuid()') gives unique values",
)
_MEETS_ITSELF = AcrossRows("joins rows of the stream with each other", _WINDOWS)
_ADDS = AcrossRows(
    "adds rows that are not the stream's (union)", "they would be added to every batch: union(...) adds a stream"
)
_KEEPS_OTHERS = AcrossRows(
    "joins so that rows of the other side are kept",
    "they would be emitted with every batch: join from the stream's side",
)

_OPERATIONS = {
    "Aggregate": _AGGREGATES,
    "AttachDistributedSequence": _NUMBERS,
    "Deduplicate": _REMOVES_DUPLICATES,
    "DeduplicateWithinWatermark": _REMOVES_DUPLICATES,
    "Distinct": _REMOVES_DUPLICATES,
    "Except": _COMPARES_SETS,
    "FlatMapCoGroupsInArrow": _GROUPS,
    "FlatMapCoGroupsInPandas": _GROUPS,
    "FlatMapGroupsInArrow": _GROUPS,
    "FlatMapGroupsInPandas": _GROUPS,
    "GlobalLimit": _CUTS,
    "Intersect": _COMPARES_SETS,
    "Offset": _CUTS,
    "Tail": _CUTS,
    "Window": AcrossRows(
        "uses a window function",
        "key_by(...).window(...).aggregate(...), with F.max_by(...) for the greatest, does it over event time",
    ),
}
ONE_ROW_PER_LEFT = frozenset({"LEFT SEMI", "LEFT ANTI", "LEFT SINGLE", "EXISTENCE"})
"""Joins that emit at most one row for each row of the left side."""

KEEPS_LEFT = ONE_ROW_PER_LEFT | {"INNER", "CROSS", "LEFT OUTER"}
"""Joins that emit rows of the left side only, alone or with matches: the right side can be a table."""

KEEPS_RIGHT = frozenset({"INNER", "CROSS", "RIGHT OUTER"})


def across_rows(stream: DataFrame, result: DataFrame) -> tuple[AcrossRows, ...]:
    """Return the operations across rows of `stream` in the plan of a result, each once, in execution order."""
    walk = _Walk(stream._jdf.queryExecution().analyzed())
    walk.reads_stream(result._jdf.queryExecution().analyzed())
    return tuple(walk.operations)


class _Walk:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._common_tables: set[int] = set()
        self.operations: dict[AcrossRows, None] = {}

    def reads_stream(self, plan: Any) -> bool:
        # In a self-join, Spark gives one side new attributes: its result is the same, but the plans are not equal.
        if plan.equals(self._stream) or plan.sameResult(self._stream):
            return True
        kind = str(plan.getClass().getSimpleName())
        if kind == "CTERelationRef":
            # The referenced common table was walked before, because common tables come first among a query's inputs.
            return plan.cteId() in self._common_tables
        inputs = [self.reads_stream(child) for child in elements(plan.children())]
        in_subqueries = [self.reads_stream(subquery) for subquery in elements(plan.subqueries())]
        if any(inputs) and (operation := _operation(kind, plan, inputs)) is not None:
            self.operations[operation] = None
        if any(in_subqueries):
            self.operations[_MEETS_ITSELF] = None
        reads = any(inputs) or any(in_subqueries)
        if reads and kind == "CTERelationDef":
            self._common_tables.add(plan.id())
        return reads


def _operation(kind: str, plan: Any, inputs: list[bool]) -> AcrossRows | None:
    match kind:
        case "Sort":
            return SORTS if getattr(plan, "global")() else None
        case "Join":
            return _join(join_type(plan), *inputs)
        case "Union":
            return None if all(inputs) else _ADDS
        case _ if kind in _OPERATIONS:
            return _OPERATIONS[kind]
    return _NUMBERS if not plan.deterministic() and _has_increasing_id(plan.expressions()) else None


def _join(kind: str, left: bool, right: bool) -> AcrossRows | None:
    if left and right:
        return _MEETS_ITSELF
    return None if kind in (KEEPS_LEFT if left else KEEPS_RIGHT) else _KEEPS_OTHERS


def join_type(join: Any) -> str:
    kind = join.joinType()
    # Spark has no SQL text for joins that only determine whether there is a match.
    return "EXISTENCE" if str(kind.getClass().getSimpleName()) == "ExistenceJoin" else str(kind.sql())


def _has_increasing_id(expressions: Any) -> bool:
    return any(
        each.getClass().getSimpleName() == "MonotonicallyIncreasingID" or _has_increasing_id(each.children())
        for each in elements(expressions)
    )
