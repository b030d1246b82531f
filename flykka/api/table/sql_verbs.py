"""SQL on the streams of an environment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flykka.api.job_settings import JobSettings
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.transformation import leading_to
from flykka.api.table.changing_rows import upserts_of
from flykka.api.table.described import described, listed_tables, listed_views
from flykka.api.table.explanation import explanation, explanation_of_inserts
from flykka.api.table.refusals import RefusedError
from flykka.api.table.result_table import ROWS_KEPT, ResultTable
from flykka.api.table.sql_settings import JOB_NAME, apply_option, set_option
from flykka.api.table.statement_set import StatementSet
from flykka.api.table.statements import QUERY, ParsedStatement, Statements
from flykka.client.start_settings import AUTO
from flykka.errors import ProgramError
from flykka.spark_bridge.connectors.collect import CollectSink
from flykka.spark_bridge.sql.commands import (
    ChangeFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Show,
    command_of,
)
from flykka.spark_bridge.sql.script import ScriptStatement, statements

if TYPE_CHECKING:
    import pandas as pd

    from flykka.api.streams.program import Program
    from flykka.api.streams.watermark_strategy import WatermarkStrategy
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.connectors.sink import Sink
    from flykka.spark_bridge.connectors.source import Source
    from flykka.spark_bridge.program.prototype import SparkSession

    StatementResult = JobClient | pd.DataFrame | str | None


class SqlVerbs(JobSettings):
    """Tables, views of streams, and queries on them in Spark's SQL."""

    def __init__(self) -> None:
        super().__init__()
        self._statements = Statements(self)
        self._job_name: str | None = None

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The Spark session."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The transformations defined since the last job."""

    @abstractmethod
    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """A stream of the rows of a source."""

    @abstractmethod
    def execute_async(self, job_name: str = "flykka job", *, attached: bool = True) -> JobClient:
        """Submit the operators written down since the last job."""

    def create_temporary_view(
        self, name: str, stream: DataStream, *, primary_key: str | Sequence[str] | None = None
    ) -> None:
        """Let `sql` find a stream under this name, in place of whatever had it before.

        With a primary key a row takes the place of the one before it of this key: the rows are upserts. Their event
        time is for temporal joins alone (FOR SYSTEM_TIME AS OF), which ask from when on a row holds. Where they have a
        column `row_kind`, it is their kind (Flink's RowKind), and no column of the view: `-D` takes the row of the key
        away.

        Spark's own tables and views stay as they are: where one has the same name, `sql` finds the stream.

        Raises:
            ProgramError: `name` is no name, or this is no DataStream, or it has not the columns of the primary key.
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(f"a view is called by a name of letters, digits and underscores, not {name!r}")
        if not isinstance(stream, DataStream):
            raise ProgramError(
                f"create_temporary_view({name!r}, ...) takes a DataStream, not a {type(stream).__name__}"
            )
        if primary_key is not None:
            keys = (primary_key,) if isinstance(primary_key, str) else tuple(primary_key)
            if not keys or (missing := [key for key in keys if key not in stream.columns]):
                raise ProgramError(
                    f"create_temporary_view({name!r}, ...): a primary key is columns of the stream, which has"
                    f" {', '.join(stream.columns)}; {missing[0]!r} is none of them"
                    if keys
                    else f"create_temporary_view({name!r}, ...): the primary key has no column"
                )
            stream = upserts_of(stream, keys)
        self._statements.catalog.add_view(name, stream)

    def sql(self, query: str) -> DataStream:
        """The stream of the rows of a query, in the SQL of Spark, with all its functions and those of the session.

        It may read tables and views of streams, and tables and views of the Spark session, which are read again for
        every batch. Running aggregates (GROUP BY without a window) are upserts by their keys; `changelog` of the stream
        says so.

        Raises:
            SqlError: the text cannot be read, or asks for what cannot run on a stream; it names line and column.
        """
        statement = self._statements.parsed(ScriptStatement.whole(query))
        with self._statements.taken_back(statement.source):
            if not statement.is_query:
                raise RefusedError(
                    "this is a command, and sql(...) takes a query: execute_sql(...) runs commands, explain_sql(...)"
                    " takes a query to explain",
                    statement.position,
                )
        return self._statements.query(statement)

    def explain_sql(self, query: str) -> str:
        """Tell the operators that a query becomes, and the state that each keeps; nothing is added to the program.

        The last lines tell whether the rows of the result stay, and warn of state that never ends. Raises as `sql`.
        """
        with self._tried():
            stream = self.sql(query)
            return explanation(stream, leading_to(stream.flow.inputs))

    def execute_sql(self, statement: str) -> StatementResult:
        """Run a statement; what it is decides what comes of it.

        `INSERT INTO` and `EXECUTE STATEMENT SET BEGIN ... END` start a job, of these and of what else was written down
        since the last one and leads to a sink, and give its `JobClient`. `SHOW` and `DESCRIBE` give a pandas DataFrame,
        `EXPLAIN` a text, and what declares or sets something nothing.

        Raises:
            SqlError: it cannot be read or not run; or it is a query, whose rows `sql` gives.
        """
        found = statements(statement)
        if len(found) > 1:
            with self._statements.taken_back(found[1]):
                raise RefusedError(
                    "execute_sql(...) runs one statement, and another one begins here", found[1].position
                )
        return self._execute(found[0] if found else ScriptStatement.whole(statement))

    def create_statement_set(self) -> StatementSet:
        """Make an empty set of INSERTs, which are executed as one job."""
        return StatementSet(self)

    def _execute(self, source: ScriptStatement) -> StatementResult:
        with self._statements.taken_back(source):
            if source.members is not None:
                if not source.members:
                    raise RefusedError("the statement set is empty: it needs an INSERT INTO", source.position)
                return self._execute_inserts([self._parsed_insert(each) for each in source.members])
            option = set_option(source.text)
            if option is None:
                return self._run(self._statements.parsed(source))
            if option.key == JOB_NAME:
                self._job_name = option.value
            else:
                apply_option(self, option)
        return None

    def _query(self, source: ScriptStatement) -> DataStream | None:
        """The stream of a query; None for another statement."""
        with self._statements.taken_back(source):
            if source.members is not None or set_option(source.text) is not None:
                return None
        statement = self._statements.parsed(source)
        return self._statements.query(statement) if statement.is_query else None

    def _start_query(self, source: ScriptStatement) -> tuple[JobClient, ResultTable] | None:
        """Start the job of a query, whose rows come to a table in the driver; None for another statement."""
        with self._taken_back():
            if (stream := self._query(source)) is None:
                return None
            table = ResultTable(stream.columns, stream.changelog)
            return self._execute_query(stream, CollectSink(table.add, ROWS_KEPT)), table

    def _execute_query(self, stream: DataStream, sink: Sink) -> JobClient:
        """Start the job of a query for one who watches: it begins with the input, whatever ran before."""
        with self._taken_back():
            stream.sink_to(sink).name("result").uid(f"{QUERY}.sink")
            self.from_checkpoint(None)
            try:
                return self.execute_async(self._job_name or QUERY)
            finally:
                self.from_checkpoint(AUTO)

    def _run(self, statement: ParsedStatement) -> StatementResult:
        if statement.is_query:
            raise RefusedError(
                "this is a query: sql(...) gives the stream of its rows, and INSERT INTO writes them to a table",
                statement.position,
            )
        catalog = self._statements.catalog
        match statement.command:
            case CreateView() as view:
                self._statements.create_view(statement, view)
            case CreateTable() as table:
                self._statements.create_table(statement, table)
            case Insert() as insert:
                return self._execute_inserts([(statement, insert)])
            case Explain() as explained:
                return self._explain(statement, explained)
            case Show(views=views):
                return listed_views(catalog) if views else listed_tables(catalog)
            case Describe() as asked:
                return described(asked, catalog, self.program)
            case Drop() as dropped:
                self._statements.drop(dropped)
            case ChangeFunction():
                self.spark.sql(statement.source.text)
            case None:
                raise self._statements.refused(statement)
        return None

    def _explain(self, statement: ParsedStatement, explained: Explain) -> str:
        inner = command_of(explained.statement)
        if isinstance(inner, Insert):
            return self._explain_inserts([(statement, inner)])
        if inner is not None or not statement.parsed.commands_nothing(explained.statement):
            raise RefusedError("EXPLAIN takes a query or an INSERT INTO", statement.position)
        with self._tried():
            stream = self._statements.query(statement, explained.statement)
            return explanation(stream, leading_to(stream.flow.inputs))

    def _parsed_insert(self, source: ScriptStatement) -> tuple[ParsedStatement, Insert]:
        statement = self._statements.parsed(source)
        with self._statements.taken_back(source):
            if not isinstance(statement.command, Insert):
                raise RefusedError("a statement set takes INSERT INTO table SELECT ...", statement.position)
            return statement, statement.command

    def _explain_inserts(self, inserts: Sequence[tuple[ParsedStatement, Insert]]) -> str:
        with self._tried():
            return explanation_of_inserts([(each.table, self._statements.insert(of, each)) for of, each in inserts])

    def _execute_inserts(self, inserts: Sequence[tuple[ParsedStatement, Insert]]) -> JobClient:
        # As Flink calls them.
        name = f"insert-into_{','.join(dict.fromkeys(each.table for _, each in inserts))}"
        with self._taken_back():
            for statement, insert in inserts:
                self._statements.insert(statement, insert)
            return self.execute_async(self._job_name or name)

    @contextmanager
    def _taken_back(self) -> Iterator[None]:
        """Leave the program as it was where something is refused: it is not to come with the next job."""
        before = self.program.transformations
        try:
            yield
        except BaseException:
            self.program.take_back(each for each in self.program.transformations if each not in before)
            raise

    @contextmanager
    def _tried(self) -> Iterator[None]:
        """Leave the program as it was."""
        before = self.program.transformations
        try:
            yield
        finally:
            self.program.take_back(each for each in self.program.transformations if each not in before)
