"""Parses and analyzes SQL texts with Spark, in which streams are views."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException, PySparkException

from flykka.spark_bridge.program.expressions import ExpressionBuilder, elements
from flykka.spark_bridge.session.jvm_classes import is_instance, jvm_class
from flykka.spark_bridge.sql.plan_node import (
    Expression,
    PlanNode,
    Position,
    SqlTextError,
    position_of,
    without_generated_names,
)
from flykka.spark_bridge.sql.tokens import position_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLASS = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_COMMANDS = ("Command", "ParsedStatement")
_RESOLVER = "org.apache.spark.sql.catalyst.analysis.TableOutputResolver"
_PLACED = AnalysisException | ParseException
_AFTER = re.compile(r"\s*(?:SQLSTATE: \w+|\n== SQL|\nSearch path:| on search path)")


class Statement:
    def __init__(self, session: SparkSession, text: str) -> None:
        """Parse a text that may use all tables, views and functions of the session. Raises `SqlTextError`."""
        # Views of streams are private to this statement: a clone has all that the session has, and these views.
        self._context, self._python = session.sparkContext, session
        self._session = session._jsparkSession.cloneSession()
        self._datasets = jvm_class(self._context, "org.apache.spark.sql.classic.Dataset")
        self.text = text
        try:
            self.plan = PlanNode(self._parser.parsePlan(text))
        except PySparkException as refused:
            raise self._error(refused) from None

    @property
    def _parser(self) -> Any:
        return self._session.sessionState().sqlParser()

    def is_query(self, plan: PlanNode) -> bool:
        """Return True if a plan, of the statement or a part of it, only queries rows."""
        if plan.kind == "UnresolvedWith":
            plan = plan.children[0]
        return not any(is_instance(plan.java, f"{_LOGICAL}.{kind}") for kind in _COMMANDS)

    def parsed_expression(self, text: str) -> Expression:
        """Parse an expression without analyzing it. Raises `SqlTextError`."""
        try:
            return Expression(self._parser.parseExpression(text))
        except PySparkException as refused:
            raise self._error(refused) from None

    def reads(self, query: PlanNode) -> dict[str, Position | None]:
        """Return the names of the tables and views in the text of a query, in lower case, with their positions."""
        identifiers = ((each.java.multipartIdentifier(), each.position) for each in _relations(query))
        return {str(name.head()).lower(): position for name, position in identifiers if int(name.size()) == 1}

    def analyzed(self, query: PlanNode, streams: Mapping[str, DataFrame]) -> PlanNode:
        """Analyze a query, which is the statement or a part of it, over `streams`, given by their prototypes. Raises
        `SqlTextError` if a table, a column or a function does not exist, or types do not fit.
        """
        for name, prototype in streams.items():
            plan = prototype._jdf.queryExecution().analyzed()
            self._datasets.ofRows(self._session, plan).createOrReplaceTempView(name)
        return self._resolved(lambda: query.java)

    def renamed(self, query: PlanNode, names: Sequence[str]) -> PlanNode:
        """Return an analyzed query with the columns renamed to `names`, of which there must be one for each column."""
        columns = elements(query.java.output())
        renamed = [self._named(column, name) for column, name in zip(columns, names, strict=True)]
        project = jvm_class(self._context, f"{_LOGICAL}.Project")
        sequence = ExpressionBuilder(self._python).sequence
        return self._resolved(lambda: project(sequence(renamed), query.java))

    def stored(self, query: PlanNode, table: str, columns: DataFrame, *, by_name: bool) -> PlanNode:
        """Convert an analyzed query to the names and types of a table's columns, by Spark's store assignment.

        With `by_name`, columns that the query lacks are null.

        Raises:
            SqlTextError: the query has other columns, or a type that the table's column cannot store.
        """
        resolver = jvm_class(self._context, _RESOLVER)
        modes = jvm_class(self._context, "java.lang.Class").forName(f"{_RESOLVER}$DefaultValueFillMode$").getField
        mode = modes("MODULE$").get(None)
        expected = columns._jdf.queryExecution().analyzed().output()
        return self._resolved(
            lambda: resolver.resolveOutputColumns(
                table,
                expected,
                query.java,
                by_name,
                self._session.sessionState().conf(),
                mode.FILL() if by_name else mode.NONE(),
            )
        )

    def _resolved(self, make: Callable[[], Any]) -> PlanNode:
        try:
            return PlanNode(self._datasets.ofRows(self._session, make()).queryExecution().analyzed())
        except PySparkException as refused:
            raise self._error(refused) from None

    def _named(self, column: Any, name: str) -> Any:
        builder = ExpressionBuilder(self._python)
        nothing = builder.sequence([])
        new = jvm_class(self._context, f"{_EXPRESSIONS}.NamedExpression").newExprId()
        no_metadata = jvm_class(self._context, "scala.Option").empty()
        return jvm_class(self._context, f"{_EXPRESSIONS}.Alias")(column, name, new, nothing, no_metadata, nothing)

    def _error(self, refused: PySparkException) -> SqlTextError:
        # Errors for which the parser has no name list the expected tokens after the message.
        text = _AFTER.split(_CLASS.sub("", refused.getMessage() or str(refused)), maxsplit=1)[0].strip()
        if plan := (refused.getMessageParameters() or {}).get("treeNode"):
            text = text.replace(plan.strip(), "").strip(": \n")
        return SqlTextError(without_generated_names(text), self._position(refused), refused.getCondition() or "")

    def _position(self, refused: PySparkException) -> Position | None:
        origin = getattr(refused, "_origin", None)  # The Java exception, if it was captured from the JVM.
        position = position_of(origin) if origin is not None and isinstance(refused, _PLACED) else None
        if position is None and (expression := (refused.getMessageParameters() or {}).get("expression")):
            return self._first(expression.strip('"`'))
        return position

    def _first(self, expression: str) -> Position | None:
        """Return the first position at which the text contains an expression, for errors without a position."""
        match = re.search(rf"(?<!\w){re.escape(expression)}(?!\w)", self.text, re.IGNORECASE)
        if match is None:
            return None
        return position_at(self.text, match.start())


def _relations(plan: PlanNode) -> Iterator[PlanNode]:
    """Yield the tables and views that a parsed plan names, including names in subqueries and common table
    expressions.
    """
    if plan.kind == "UnresolvedRelation":
        yield plan
    for each in (*plan.children, *plan.inner_children):
        yield from _relations(each)
