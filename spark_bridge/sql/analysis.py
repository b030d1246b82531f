"""SQL texts, parsed and analyzed by Spark, in which streams stand as views."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark.errors import AnalysisException, ParseException, PySparkException

from flykka.spark_bridge.sql.plan_node import PlanNode, Position, position_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLASS = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_COMMANDS = ("Command", "ParsedStatement")
_TEMPORARY = "LocalTempView"
_PLACED = AnalysisException | ParseException
_AFTER = re.compile(r"\s*(?:SQLSTATE: \w+|\n== SQL|\nSearch path:| on search path)")


class SqlTextError(ValueError):
    """Spark cannot read a text, or finds no sense in it. `condition` is Spark's name for what is wrong."""

    def __init__(self, text: str, position: Position | None, condition: str) -> None:
        super().__init__(text)
        self.position = position
        self.condition = condition


class Statement:
    """SQL text that Spark has parsed."""

    def __init__(self, session: SparkSession, text: str, streams: Mapping[str, DataFrame]) -> None:
        """Parse a text about streams, of which prototypes are given.

        All tables, views and functions of the session are there too.

        Raises:
            SqlTextError: it cannot be parsed.
        """
        jvm = session.sparkContext._jvm
        assert jvm is not None
        # Views of streams are nobody's but this statement's: a clone has all that the session has, and theirs beside.
        self._gateway = session.sparkContext._gateway
        self._session = session._jsparkSession.cloneSession()
        self._datasets = jvm.org.apache.spark.sql.classic.Dataset
        self._text = text
        for name, prototype in streams.items():
            plan = prototype._jdf.queryExecution().analyzed()
            self._datasets.ofRows(self._session, plan).createOrReplaceTempView(name)
        try:
            self._parsed = self._session.sessionState().sqlParser().parsePlan(text)
        except PySparkException as refused:
            raise self._error(refused) from None

    @property
    def is_query(self) -> bool:
        """True if it asks for rows, and commands nothing."""
        return not any(is_instance_of(self._gateway, self._parsed, f"{_LOGICAL}.{kind}") for kind in _COMMANDS)

    @property
    def defined_view(self) -> tuple[str, Any] | None:
        """The name and the query of CREATE TEMPORARY VIEW; None where it is another statement."""
        if PlanNode(self._parsed).kind != "CreateViewCommand" or self._parsed.viewType().toString() != _TEMPORARY:
            return None
        return str(self._parsed.name().table()), self._parsed.plan()

    def analyzed(self, query: Any = None) -> PlanNode:
        """Analyze the statement, or a query that is a part of it.

        Raises:
            SqlTextError: a table, a column or a function is not there, or types do not fit.
        """
        try:
            rows = self._datasets.ofRows(self._session, self._parsed if query is None else query)
            return PlanNode(rows.queryExecution().analyzed())
        except PySparkException as refused:
            raise self._error(refused) from None

    def _error(self, refused: PySparkException) -> SqlTextError:
        # Before the parser has an own name for it, it says what it expected instead.
        text = _AFTER.split(_CLASS.sub("", refused.getMessage() or str(refused)), maxsplit=1)[0].strip()
        return SqlTextError(text, self._position(refused), refused.getCondition() or "")

    def _position(self, refused: PySparkException) -> Position | None:
        origin = getattr(refused, "_origin", None)  # The Java exception, where it was captured from the JVM.
        known = position_of(origin) if origin is not None and isinstance(refused, _PLACED) else None
        if known is None and (named := (refused.getMessageParameters() or {}).get("expression")):
            return self._first(named.strip('"`'))
        return known

    def _first(self, expression: str) -> Position | None:
        """The first place of an expression in the text: for errors to which Spark gives none."""
        found = re.search(rf"(?<!\w){re.escape(expression)}(?!\w)", self._text, re.IGNORECASE)
        if found is None:
            return None
        before = self._text[: found.start()]
        return Position(line=before.count("\n") + 1, column=found.start() - (before.rfind("\n") + 1) + 1)
