"""SQL on the streams of an environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.summary import leading_to
from flykka.api.table.explanation import explanation
from flykka.api.table.planner import Planner
from flykka.api.table.refusals import RefusedError
from flykka.errors import ProgramError, SqlError
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.sql.analysis import SqlTextError, Statement
from flykka.spark_bridge.sql.plan_node import Position

if TYPE_CHECKING:
    from flykka.api.streams.program import Program
    from flykka.spark_bridge.program.prototype import SparkSession
    from flykka.spark_bridge.sql.plan_node import PlanNode


class SqlVerbs(ABC):
    """Views of streams, and queries on them in Spark's SQL."""

    def __init__(self) -> None:
        super().__init__()
        self._views: dict[str, DataStream] = {}
        self._sql_state_ttl_ms: int | None = None

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The Spark session."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The transformations defined since the last job."""

    def create_temporary_view(self, name: str, stream: DataStream) -> None:
        """Let `sql` find a stream under this name, in place of whatever had it before.

        Spark's own tables and views stay as they are: where one has the same name, `sql` finds the stream.

        Raises:
            ProgramError: `name` is no name, or this is no DataStream.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(f"a view is called by a name of letters, digits and underscores, not {name!r}")
        if not isinstance(stream, DataStream):
            raise ProgramError(
                f"create_temporary_view({name!r}, ...) takes a DataStream, not a {type(stream).__name__}"
            )
        self._views[name.lower()] = stream

    def set_sql_state_ttl(self, ttl: Duration) -> Self:
        """Let joins of streams in queries that are written behind this keep rows no longer than `ttl`.

        That is as Flink's `table.exec.state.ttl`: it is of processing time, and holds for joins whose condition does
        not bound the event times, which keep rows for ever without it. `explain_sql` tells it.

        Raises:
            DurationError: it cannot be read.
        """
        self._sql_state_ttl_ms = duration_ms(ttl, "time-to-live")
        return self

    def sql(self, query: str) -> DataStream:
        """The stream of the rows of a query, in the SQL of Spark, with all its functions and those of the session.

        It may read views of streams, and tables and views of the Spark session, which are read again for every batch.
        Running aggregates (GROUP BY without a window) are upserts by their keys; `changelog` of the stream says so.

        Raises:
            SqlError: the text cannot be read, or asks for what cannot run on a stream; it names line and column.
        """
        return self._planned(query)

    def explain_sql(self, query: str) -> str:
        """Tell the operators that a query becomes, and the state that each keeps; nothing is added to the program.

        The last lines tell whether the rows of the result stay, and warn of state that never ends. Raises as `sql`.
        """
        before = self.program.transformations
        try:
            stream = self._planned(query)
            return explanation(stream, leading_to(stream._inputs))
        finally:
            self.program.take_back(each for each in self.program.transformations if each not in before)

    def execute_sql(self, statement: str) -> None:
        """Run a statement: `CREATE TEMPORARY VIEW name AS SELECT ...`, after which `sql` finds the rows of the query.

        Raises `SqlError` as `sql` does, and for other statements.
        """
        with self._taken_back(statement):
            parsed = self._parsed(statement)
            defined = parsed.defined_view
            if defined is None:
                raise RefusedError(
                    "execute_sql runs CREATE TEMPORARY VIEW name AS SELECT ...; sql(...) takes a query, and the stream"
                    " that it gives is written by sink_to(...)",
                    Position(line=1, column=1),
                )
            name, query = defined
            self.create_temporary_view(name, self._result(parsed.analyzed(query)))

    def _planned(self, query: str) -> DataStream:
        with self._taken_back(query):
            parsed = self._parsed(query)
            if not parsed.is_query:
                raise RefusedError(
                    "this is a command, and sql(...) takes a query: execute_sql(...) runs CREATE TEMPORARY VIEW,"
                    " explain_sql(...) takes a query to explain",
                    Position(line=1, column=1),
                )
            return self._result(parsed.analyzed())

    def _result(self, plan: PlanNode) -> DataStream:
        return Planner(self._views, self._sql_state_ttl_ms).result(plan)

    def _parsed(self, text: str) -> Statement:
        prototypes = {name: stream._type.prototype for name, stream in self._views.items()}
        return Statement(self.spark, text, prototypes)

    @contextmanager
    def _taken_back(self, text: str) -> Iterator[None]:
        """Leave the program as it was where the text is refused."""
        before = self.program.transformations
        try:
            yield
        except (SqlTextError, RefusedError) as wrong:
            self.program.take_back(each for each in self.program.transformations if each not in before)
            raise self._error(text, wrong) from None

    def _error(self, query: str, wrong: SqlTextError | RefusedError) -> SqlError:
        place, why = wrong.position, str(wrong)
        if isinstance(wrong, SqlTextError) and wrong.condition == "TABLE_OR_VIEW_NOT_FOUND":
            known = ", ".join(sorted(self._views)) or "none"
            why = f"{why} Views of streams: {known}; create_temporary_view(name, stream) adds one."
        return SqlError(why, query, None if place is None else place.line, None if place is None else place.column)
