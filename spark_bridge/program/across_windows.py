"""Finds operations across the rows of several windows in the plan that a function of windows has made.

How many windows fire together depends on how the rows came in, and of a keyed stream a subtask has the rows of its keys
alone. So what is computed of several rows must be grouped by the window, and by the keys. A column counts as one of
these where it is the column itself, under whatever name: what is computed of `window_start` may be the same for several
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
_OF_WINDOWS = "of all windows that fire together, and which these are depends on how the rows came in"
_CUTS = frozenset({"GlobalLimit", "Offset", "Tail"})

Columns = Mapping[int, str]
"""The given columns that attributes are, by the ids of their expressions."""


def key_columns(rows: DataFrame, keys: int) -> tuple[str, ...]:
    selected = list(elements(rows._jdf.queryExecution().analyzed().projectList()))[:keys]
    return tuple(str(each.name()) for each in selected if _kind(each) == "AttributeReference")


def across_windows(given: DataFrame, made: DataFrame, keys: Iterable[str]) -> str | None:
    """Tell what `made` computes of rows of several windows, or keys, of those that were `given`; None: nothing.

    `given` is a relation, and not made of another.
    """
    walk = _Walk(given._jdf.queryExecution().analyzed(), tuple(keys))
    walk.columns(made._jdf.queryExecution().analyzed())
    return walk.found


class _Walk:
    """Walks from a result down to the given rows, and on the way up notes the first operation across windows."""

    def __init__(self, given: Any, keys: tuple[str, ...]) -> None:
        self._given = given
        self._keys = keys
        self.found: str | None = None

    def columns(self, plan: Any) -> Columns | None:
        """Walk a plan; the given columns that it has, or None where it reads no given rows."""
        children = list(elements(plan.children()))
        # In a self-join Spark gives one of the sides new attributes. What only renames columns has the same result too.
        if not children and plan.sameResult(self._given):
            return {_id(each): str(each.name()) for each in elements(plan.output())}
        inputs = [columns for child in children if (columns := self.columns(child)) is not None]
        if not inputs:
            return None
        known = {place: name for columns in inputs for place, name in columns.items()}
        for each in elements(plan.expressions()):
            if _kind(each) == "Alias" and (name := known.get(_column(each))) is not None:
                known[_id(each)] = name
        self.found = self.found or self._across(plan, known)
        return known

    def _across(self, plan: Any, known: Columns) -> str | None:
        kind = _kind(plan)
        if kind in _CUTS:
            return (
                f"limits rows (limit, offset) {_OF_WINDOWS}; row_number() over Window.partitionBy('window_start',"
                " 'window_end') finds the first of each"
            )
        if kind not in _GROUPS:
            return None
        does, groups = _GROUPS[kind]
        grouped = {known.get(_column(each)) for each in elements(getattr(plan, groups)())}
        if not grouped & {WINDOW_START, WINDOW_END}:
            return f"{does} {_OF_WINDOWS}; group or partition by window_start or window_end too"
        missing = [key for key in self._keys if key not in grouped]
        if missing:
            return (
                f"{does} of all keys that a subtask has, and which these are depends on the parallelism; group or"
                f" partition by {', '.join(missing)} too, or cut all rows into windows with window_all(...)"
            )
        return None


def _column(expression: Any) -> int:
    """The id of the column that an expression is, be it under another name; -1 where it is none."""
    while _kind(expression) == "Alias":
        expression = expression.child()
    return _id(expression) if _kind(expression) == "AttributeReference" else -1


def _id(named: Any) -> int:
    return int(named.exprId().id())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
