"""Plans that are analyzed once, and applied to the rows of each batch.

Building the columns of a plan from Python and analyzing it takes Spark longer than processing a small batch. So a
function that depends only on the columns of its rows is called for the first batch, and the nodes of its plan are put
above the plans of the next batches. For this, the plans of all batches must have the same columns with the same ids
(Spark's expression ids). `StableColumns` gives these ids to the rows of a batch, and each prepared plan preserves them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from flykka.spark_bridge.rows.local_rows import local_relation
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class, scala_object

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

Function = TypeVar("Function", bound=Callable[..., Any])

_USED_AGAIN = frozenset(
    {
        "Aggregate",
        "Distinct",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Offset",
        "Project",
        "Repartition",
        "RepartitionByExpression",
        "Sort",
        "SubqueryAlias",
        "Union",
        "Window",
    }
)
"""Kinds of nodes that can be put above the plan of another batch."""

_SCHEMAS = 16
"""The most schemas of batches that are distinguished. Batches with other schemas are planned each time."""

_LARGEST = 100
"""The most nodes of a plan that is used again."""


class _Columns:
    """Columns with the same ids, compared by identity."""


_columns: WeakKeyDictionary[DataFrame, _Columns] = WeakKeyDictionary()
"""The columns of frames to which a prepared plan can be applied."""


def of_columns(function: Function) -> Function:
    """Mark a function whose plan depends on nothing but the columns of the rows, so it can be prepared."""
    function.is_of_columns = True  # type: ignore[attr-defined]
    return function


def is_of_columns(function: Any) -> bool:
    return bool(getattr(getattr(function, "func", function), "is_of_columns", False))


def with_columns_of(frame: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the frame, whose plan has the same columns, with the same ids, as that of `rows`."""
    if (columns := _columns.get(rows)) is not None:
        _columns[frame] = columns
    return frame


class StableColumns:
    """Gives the columns of each batch the ids that they have in the first batch with the same schema. Thread-safe."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, Any, _Columns]] = []

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows with these ids, or the rows themselves if their plan is more than a relation."""
        plan = rows._jdf.queryExecution().analyzed()
        make = _WITH_OUTPUT.get(str(plan.nodeName()))
        found = None if make is None else self._columns(plan)
        if make is None or found is None:
            return rows
        output, columns = found
        relation = make(rows, plan, output)
        relation.setAnalyzed()
        frame = frame_of_plan(rows.sparkSession, relation)
        _columns[frame] = columns
        return frame

    def _columns(self, plan: Any) -> tuple[Any, _Columns] | None:
        schema = plan.schema()
        for known, output, columns in self._known:
            if schema.equals(known):
                return output, columns
        if len(self._known) == _SCHEMAS:
            return None
        output, columns = plan.output(), _Columns()
        self._known.append((schema, output, columns))
        return output, columns


_STATISTICS = 1
"""The index of the statistics among the constructor arguments of `LogicalRDD` that are not case class elements."""


def _rdd(rows: DataFrame, plan: Any, output: Any) -> Any:
    """The order and partitioning of the rows, which may refer to other ids, are not used."""
    context, session = rows.sparkSession.sparkContext, rows.sparkSession._jsparkSession
    make = jvm_class(context, "org.apache.spark.sql.execution.LogicalRDD")
    partitioning = jvm_class(context, "org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning")(0)
    nothing, statistics = _nothing(context), plan.otherCopyArgs().apply(_STATISTICS)
    return make(output, plan.rdd(), partitioning, _nil(context), False, nothing, session, statistics, nothing, False)


def _local(rows: DataFrame, plan: Any, output: Any) -> Any:
    return plan.copy(output, plan.data(), False, _nothing(rows.sparkSession.sparkContext))


def _files(rows: DataFrame, plan: Any, output: Any) -> Any:
    return plan.copy(plan.relation(), output, plan.catalogTable(), False, _nothing(rows.sparkSession.sparkContext))


def _in_python(rows: DataFrame, plan: Any, output: Any) -> Any:
    return plan.copy(plan.functionExpr(), output, plan.child(), plan.isBarrier(), plan.profile())


_WITH_OUTPUT: dict[str, Callable[[DataFrame, Any, Any], Any]] = {
    "LogicalRDD": _rdd,
    "LocalRelation": _local,
    "LogicalRelation": _files,
    "MapInArrow": _in_python,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlaceOfRows:
    """The place of the rows, which has other ids if Spark reads the rows twice."""

    output: Any | None = None

    def plan(self, rows: DataFrame, plan: Any) -> Any:
        if self.output is None:
            return plan
        return _WITH_OUTPUT[str(plan.nodeName())](rows, plan, self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeAbove:
    java: Any
    children: tuple[_NodeAbove | _PlaceOfRows, ...]

    def plan(self, rows: DataFrame, plan: Any) -> Any:
        children = _nil(rows.sparkSession.sparkContext)
        for each in reversed(self.children):
            children = children.prepended(each.plan(rows, plan))
        return self.java.withNewChildren(children)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The nodes above the rows, and the columns of their result."""

    top: _NodeAbove
    columns: _Columns

    def above(self, rows: DataFrame) -> DataFrame:
        plan = self.top.plan(rows, rows._jdf.queryExecution().analyzed())
        plan.setAnalyzed()
        frame = frame_of_plan(rows.sparkSession, plan)
        _columns[frame] = self.columns
        return frame


class Prepared:
    """Applies a function that is of columns. Thread-safe."""

    def __init__(self, function: Callable[[DataFrame], DataFrame]) -> None:
        self._function = function
        self._plans: WeakKeyDictionary[_Columns, _Plan | None] = WeakKeyDictionary()

    def __call__(self, rows: DataFrame) -> DataFrame:
        columns = _columns.get(rows)
        if columns is None:
            return self._function(rows)
        if columns not in self._plans:
            return self._first(rows, columns)
        plan = self._plans[columns]
        return self._function(rows) if plan is None else plan.above(rows)

    def _first(self, rows: DataFrame, columns: _Columns) -> DataFrame:
        result = self._function(rows)
        if result is not rows:
            top = _Template(rows).of(result)
            plan = self._plans[columns] = _Plan(top=top, columns=_Columns()) if isinstance(top, _NodeAbove) else None
            if plan is not None:
                _columns[result] = plan.columns
        return result


class _OtherPlanError(Exception):
    """The plan has nodes that cannot be used again."""


class _Template:
    """The plan of a result above the plan of its rows, without the rows."""

    def __init__(self, rows: DataFrame) -> None:
        self._context = rows.sparkSession.sparkContext
        self._base = rows._jdf.queryExecution().analyzed()
        self._is_relation = str(self._base.nodeName()) in _WITH_OUTPUT
        self._empty = self._without_rows(self._base.output())
        self._nodes = 0

    def of(self, result: DataFrame) -> _NodeAbove | _PlaceOfRows | None:
        """Return the template if the plan can be used again, and no value depends on when it is computed."""
        plan = result._jdf.queryExecution().analyzed()
        try:
            return self._node(plan)[0] if plan.deterministic() else None
        except _OtherPlanError:
            return None

    def _node(self, plan: Any) -> tuple[_NodeAbove | _PlaceOfRows, Any]:
        """Return the template of a node, and the node without rows."""
        if plan.fastEquals(self._base):
            return _PlaceOfRows(), self._empty
        if self._is_relation and plan.sameResult(self._base):
            return _PlaceOfRows(output=plan.output()), self._without_rows(plan.output())
        self._nodes += 1
        if str(plan.nodeName()) not in _USED_AGAIN or self._nodes > _LARGEST:
            raise _OtherPlanError
        found = plan.children()
        children = [self._node(found.apply(place)) for place in range(found.length())]
        below = _nil(self._context)
        for _, each in reversed(children):
            below = below.prepended(each)
        java = plan.withNewChildren(below)
        return _NodeAbove(java=java, children=tuple(each for each, _ in children)), java

    def _without_rows(self, output: Any) -> Any:
        return local_relation(self._context, output, _nil(self._context))


def _nil(context: SparkContext) -> Any:
    return scala_object(context, "scala.collection.immutable.Nil")


def _nothing(context: SparkContext) -> Any:
    return jvm_class(context, "scala.Option").empty()
