"""Finds operations across the rows of several windows in the plan that a window function has built.

How many windows fire together depends on the arrival of rows, and a subtask of a keyed stream only has the rows of its
keys. So operations on several rows must be grouped by the window and by the keys. A grouping only counts if its
expression is the column itself, possibly renamed: an expression of `window_start` may have the same value for several
windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.program.expressions import elements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUPS = {
    "Aggregate": ("aggregates rows (groupBy, agg, count)", "groupingExpressions"),
    "Deduplicate": ("removes duplicates (dropDuplicates)", "keys"),
    "Distinct": ("removes duplicates (distinct)", "output"),
    "FlatMapGroupsInArrow": ("gives groups of rows to a function (applyInArrow)", "groupingAttributes"),
    "FlatMapGroupsInPandas": ("gives groups of rows to a function (applyInPandas)", "groupingAttributes"),
    "Window": ("uses a window function", "partitionSpec"),
}
_OF_WINDOWS = "of all windows that fire together, which depends on the order in which the rows arrived"
_CUTS = frozenset({"GlobalLimit", "Offset", "Tail"})

Columns = Mapping[int, str]


def key_columns(rows: DataFrame, keys: int) -> tuple[str, ...]:
    selected = list(elements(rows._jdf.queryExecution().analyzed().projectList()))[:keys]
    return tuple(str(each.name()) for each in selected if _kind(each) == "AttributeReference")


def across_windows(source: DataFrame, result: DataFrame, keys: Iterable[str]) -> str | None:
    """Describe the first operation of a result that combines rows of several windows or keys of the input; None without
    such an operation.

    The input must be a leaf of the plan.
    """
    walk = _Walk(source._jdf.queryExecution().analyzed(), tuple(keys))
    walk.columns(result._jdf.queryExecution().analyzed())
    return walk.operation


class _Walk:
    def __init__(self, source: Any, keys: tuple[str, ...]) -> None:
        self._source = source
        self._keys = keys
        self.operation: str | None = None

    def columns(self, plan: Any) -> Columns | None:
        """Walk a plan. Return the input columns that it outputs, or None if it does not read the input."""
        children = list(elements(plan.children()))
        # In a self-join, Spark gives one side new attributes. A plan that only renames columns has the same result.
        if not children and plan.sameResult(self._source):
            return {_id(each): str(each.name()) for each in elements(plan.output())}
        inputs = [columns for child in children if (columns := self.columns(child)) is not None]
        if not inputs:
            return None
        input_columns = {place: name for columns in inputs for place, name in columns.items()}
        for each in elements(plan.expressions()):
            if _kind(each) == "Alias" and (name := input_columns.get(_column(each))) is not None:
                input_columns[_id(each)] = name
        self.operation = self.operation or self._across(plan, input_columns)
        return input_columns

    def _across(self, plan: Any, input_columns: Columns) -> str | None:
        kind = _kind(plan)
        if kind in _CUTS:
            return (
                f"limits rows (limit, offset) {_OF_WINDOWS}; row_number() over Window.partitionBy('window_start',"
                " 'window_end') finds the first of each"
            )
        if kind not in _GROUPS:
            return None
        does, groups = _GROUPS[kind]
        grouped = {input_columns.get(_column(each)) for each in elements(getattr(plan, groups)())}
        if not grouped & {WINDOW_START, WINDOW_END}:
            return f"{does} {_OF_WINDOWS}; group or partition by window_start or window_end too"
        missing = [key for key in self._keys if key not in grouped]
        if missing:
            return (
                f"{does} of all keys that a subtask has, which depends on the parallelism; group or"
                f" partition by {', '.join(missing)} too, or cut all rows into windows with window_all(...)"
            )
        return None


def _column(expression: Any) -> int:
    """Return the id of the column to which an expression refers, possibly with an alias; -1 for other expressions."""
    while _kind(expression) == "Alias":
        expression = expression.child()
    return _id(expression) if _kind(expression) == "AttributeReference" else -1


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
