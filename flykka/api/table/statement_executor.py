"""StatementExecutor: runs SQL statements on the streams of an environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from flykka.api.configuration.options import OPTIONS
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import one_of
from flykka.api.streams.stream_type import ChangelogMode
from flykka.api.streams.transformation import leading_to
from flykka.api.table.changing_rows import changes_of, upserts_of
from flykka.api.table.explanation import explanation, explanation_of_inserts
from flykka.api.table.refusals import RefusedError
from flykka.api.table.result_table import ROWS_KEPT, ResultTable
from flykka.api.table.statements import QUERY, Environment, Statements
from flykka.client.start_settings import AUTO
from flykka.errors import FlykkaError, ProgramError
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.connectors.console import CollectSink
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.commands import (
    ChangeFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Show,
)
from flykka.spark_bridge.sql.parsing import ParsedStatement
from flykka.spark_bridge.sql.plan_node import Position
from flykka.spark_bridge.sql.script import ScriptStatement, statements
from flykka.spark_bridge.sql.tokens import Token, position_at, tokens

if TYPE_CHECKING:
    import pandas as pd

    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.program.sink import Sink

    StatementResult = JobClient | pd.DataFrame | str | None
    from flykka.api.job_settings import JobSettings
    from flykka.api.streams.program import Program
    from flykka.api.table.catalog import Catalog
    from flykka.api.table.declared_table import DeclaredTable


class StatementExecutor:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.statements = Statements(environment)
        self._job_name: str | None = None

    def create_temporary_view(
        self, name: str, stream: DataStream, primary_key: str | Sequence[str] | None, changelog_mode: str
    ) -> None:
        mode = one_of(ChangelogMode, changelog_mode, "changelog mode")
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(f"the name of a view has only letters, digits and underscores, unlike {name!r}")
        if not isinstance(stream, DataStream):
            raise ProgramError(
                f"create_temporary_view({name!r}, ...) takes a DataStream, not a {type(stream).__name__}"
            )
        if primary_key is not None:
            keys = (primary_key,) if isinstance(primary_key, str) else tuple(primary_key)
            if not keys or (missing := [key for key in keys if key not in stream.columns]):
                raise ProgramError(
                    f"create_temporary_view({name!r}, ...): the primary key has {missing[0]!r}, but the columns of"
                    f" the stream are {', '.join(stream.columns)}"
                    if keys
                    else f"create_temporary_view({name!r}, ...): the primary key has no column"
                )
            stream = upserts_of(stream, keys) if mode is ChangelogMode.UPSERT else self._changes(name, stream, keys)
        elif mode is not ChangelogMode.UPSERT:
            raise ProgramError(
                f"create_temporary_view({name!r}, ...): the changelog mode {str(mode)!r} needs a primary key"
            )
        self.statements.catalog.add_view(name, stream)

    def _changes(self, name: str, stream: DataStream, keys: tuple[str, ...]) -> DataStream:
        if ROW_KIND not in stream.columns:
            raise ProgramError(
                f"create_temporary_view({name!r}, ...): the changelog mode 'all' needs a column {ROW_KIND}, but the"
                f" columns of the stream are {', '.join(stream.columns)}"
            )
        return changes_of(stream, keys)

    def sql(self, query: str) -> DataStream:
        statement = self.statements.parsed(ScriptStatement.whole(query))
        with self.statements.taken_back(statement.source):
            if not statement.is_query:
                raise RefusedError(
                    "this is a command, but sql(...) takes a query: execute_sql(...) runs commands, explain_sql(...)"
                    " explains a query",
                    statement.position,
                )
        return self.statements.query(statement)

    def explain_sql(self, query: str) -> str:
        """Explain a query without changing the program. Raises `SqlError`."""
        with self._tried():
            stream = self.sql(query)
            return explanation(stream, leading_to(stream.flow.inputs))

    def execute_sql(self, statement: str) -> StatementResult:
        found = statements(statement)
        if len(found) > 1:
            with self.statements.taken_back(found[1]):
                raise RefusedError(
                    "execute_sql(...) runs one statement, but another one starts here", found[1].position
                )
        return self.execute(found[0] if found else ScriptStatement.whole(statement))

    def execute(self, source: ScriptStatement) -> StatementResult:
        with self.statements.taken_back(source):
            if source.members is not None:
                if not source.members:
                    raise RefusedError("the statement set is empty: it needs an INSERT INTO", source.position)
                return self.execute_inserts([self.parsed_insert(each) for each in source.members])
            option = set_option(source.text)
            if option is None:
                return self._run(self.statements.parsed(source))
            if option.key == JOB_NAME:
                self._job_name = option.value
            else:
                self._environment.job_settings = with_option(self._environment.job_settings, option)
        return None

    def query(self, source: ScriptStatement) -> DataStream | None:
        """Return the stream of a query; None for other statements."""
        with self.statements.taken_back(source):
            if source.members is not None or set_option(source.text) is not None:
                return None
        statement = self.statements.parsed(source)
        return self.statements.query(statement) if statement.is_query else None

    def start_query(self, source: ScriptStatement) -> tuple[JobClient, ResultTable] | None:
        """Start the job of a query that collects its rows in a driver-side table; None for other statements."""
        with self._taken_back():
            if (stream := self.query(source)) is None:
                return None
            table = ResultTable(stream.columns, stream.changelog)
            return self.execute_query(stream, CollectSink(table.add, ROWS_KEPT)), table

    def execute_query(self, stream: DataStream, sink: Sink) -> JobClient:
        """Start the job of a query for display, from the start of its input, without checkpoints of earlier runs."""
        with self._taken_back():
            stream.sink_to(sink).name("result").uid(f"{QUERY}.sink")
            self._environment.from_checkpoint(None)
            try:
                return self._environment.execute_async(self._job_name or QUERY)
            finally:
                self._environment.from_checkpoint(AUTO)

    def _run(self, statement: ParsedStatement) -> StatementResult:
        if statement.is_query:
            raise RefusedError(
                "this is a query: sql(...) returns the stream of its rows, INSERT INTO writes them to a table",
                statement.position,
            )
        catalog = self.statements.catalog
        match statement.command:
            case CreateView() as view:
                self.statements.create_view(statement, view)
            case CreateTable() as table:
                self.statements.create_table(statement, table)
            case Insert() as insert:
                return self.execute_inserts([(statement, insert)])
            case Explain() as explained:
                return self._explain(statement, explained)
            case Show(views=views):
                return listed_views(catalog) if views else listed_tables(catalog)
            case Describe() as asked:
                return described(asked, catalog, self._environment.program)
            case Drop() as dropped:
                self.statements.drop(dropped)
            case ChangeFunction():
                self._environment.spark.sql(statement.source.text)
            case None:
                raise self.statements.refused(statement)
        return None

    def _explain(self, statement: ParsedStatement, explained: Explain) -> str:
        inner = explained.command
        if isinstance(inner, Insert):
            return self.explain_inserts([(statement, inner)])
        if inner is not None or not statement.parsed.is_query(explained.statement):
            raise RefusedError("EXPLAIN takes a query or an INSERT INTO", statement.position)
        with self._tried():
            stream = self.statements.query(statement, explained.statement)
            return explanation(stream, leading_to(stream.flow.inputs))

    def parsed_insert(self, source: ScriptStatement) -> tuple[ParsedStatement, Insert]:
        statement = self.statements.parsed(source)
        with self.statements.taken_back(source):
            if not isinstance(statement.command, Insert):
                raise RefusedError("a statement set takes INSERT INTO table SELECT ...", statement.position)
            return statement, statement.command

    def explain_inserts(self, inserts: Sequence[tuple[ParsedStatement, Insert]]) -> str:
        """Explain the job of several INSERTs without changing the program. Raises `SqlError`."""
        with self._tried():
            return explanation_of_inserts([(each.table, self.statements.insert(of, each)) for of, each in inserts])

    def execute_inserts(self, inserts: Sequence[tuple[ParsedStatement, Insert]]) -> JobClient:
        # Flink uses the same default job name.
        name = f"insert-into_{','.join(dict.fromkeys(each.table for _, each in inserts))}"
        with self._taken_back():
            for statement, insert in inserts:
                self.statements.insert(statement, insert)
            return self._environment.execute_async(self._job_name or name)

    @contextmanager
    def _taken_back(self) -> Iterator[None]:
        """Restore the program if a statement is refused, so that its operators do not run with the next job."""
        before = self._environment.program.transformations
        try:
            yield
        except BaseException:
            self._environment.program.remove_operators(
                each for each in self._environment.program.transformations if each not in before
            )
            raise

    @contextmanager
    def _tried(self) -> Iterator[None]:
        """Restore the program at the end of the context."""
        before = self._environment.program.transformations
        try:
            yield
        finally:
            self._environment.program.remove_operators(
                each for each in self._environment.program.transformations if each not in before
            )


JOB_NAME = "job_name"
_FORM = "SET 'key' = 'value'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    key: str
    value: str
    position: Position


_OF_JOBS = {
    name: option for name, option in OPTIONS.items() if option.meaning.sets is not None and option.meaning.field is None
}
SETTINGS = (JOB_NAME, *_OF_JOBS)
_OF_FLINK = {
    "parallelism.default": "parallelism",
    "pipeline.name": JOB_NAME,
    "pipeline.max-parallelism": "max_parallelism",
    "execution.checkpointing.interval": "checkpoint_interval",
    "execution.checkpointing.dir": "checkpoint_dir",
    "state.checkpoints.dir": "checkpoint_dir",
    "state.savepoints.dir": "savepoint_dir",
    "execution.runtime-mode": "runtime_mode",
    "table.exec.mini-batch.allow-latency": "sql_mini_batch_latency",
    "table.exec.state.ttl": "sql_state_ttl",
    "execution.savepoint.path": "from_savepoint",
}


def set_option(text: str) -> SetOption | None:
    """Parse a SET statement; None for other statements. Raises `RefusedError` if it is malformed."""
    found = tokens(text)
    if not found or not found[0].matches("SET"):
        return None
    start = position_at(text, found[0].start)
    equals = next((number for number, token in enumerate(found) if token.matches("=")), None)
    if equals is None or equals < 2 or equals + 1 == len(found):
        raise RefusedError(f"write a setting as {_FORM}; settings are {', '.join(SETTINGS)}", start)
    return SetOption(
        key=_said(text, found[1:equals]).lower(),
        value=_said(text, found[equals + 1 :]),
        position=position_at(text, found[1].start),
    )


def with_option(settings: JobSettings, option: SetOption) -> JobSettings:
    """Return the settings with an option applied, which must not be the job name. Raises `RefusedError`."""
    known = _OF_JOBS.get(option.key)
    if known is None:
        meant = _OF_FLINK.get(option.key) or next(iter(get_close_matches(option.key, SETTINGS, n=1)), None)
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise RefusedError(f"unknown setting {option.key!r}{hint}; known: {', '.join(SETTINGS)}", option.position)
    try:
        return known.applied(settings, known.form.read(option.value))
    except (DurationError, FlykkaError, ValueError) as wrong:
        raise RefusedError(f"{option.key}: {wrong}", option.position) from None


def _said(text: str, found: tuple[Token, ...]) -> str:
    return found[0].value if len(found) == 1 else text[found[0].start : found[-1].end]


def listed_tables(catalog: Catalog) -> pd.DataFrame:
    columns = ("table", "connector", "source", "sink", "comment")
    rows = [
        (
            table.name,
            table.connector,
            "" if table.source is None else str(table.source),
            "" if table.sink is None else str(table.sink.sink),
            table.comment,
        )
        for table in catalog.tables
    ]
    return _frame(columns, rows)


def listed_views(catalog: Catalog) -> pd.DataFrame:
    return _frame(("view",), [(name,) for name in catalog.views])


def described(asked: Describe, catalog: Catalog, program: Program) -> pd.DataFrame:
    """Return the columns and types of a table or view, then rows that begin with `#` for other properties.

    A view, or a table without declared columns, is planned if the program does not read it yet.

    Raises:
        RefusedError: there is no such table or view.
    """
    if asked.name not in catalog:
        known = ", ".join(catalog.names) or "none"
        raise RefusedError(f"unknown table or view {asked.name}; known: {known}", asked.position)
    table = catalog.table(asked.name)
    rows: list[tuple[str, str]] = []
    if table is not None and (table.columns is not None or table.source is None):
        fields = () if table.columns is None else table.columns
        rows += [(field.name, _type(field.dataType.simpleString(), nullable=field.nullable)) for field in fields]
        rows += _facts(table)
        return _frame(("column", "type"), rows)
    stream = catalog.stream(asked.name, program)
    rows += [(field.name, field.dataType.simpleString()) for field in stream.flow.type.prototype.schema]
    if table is not None:
        return _frame(("column", "type"), [*rows, *_facts(table)])
    rows += [("# changelog", str(stream.changelog)), ("# event time", str(stream.flow.type.event_time or "none"))]
    return _frame(("column", "type"), rows)


def _facts(table: DeclaredTable) -> list[tuple[str, str]]:
    facts = [("# connector", table.connector)]
    facts += [] if table.source is None else [("# source", str(table.source))]
    facts += [] if table.sink is None else [("# sink", str(table.sink.sink))]
    facts += [("# watermark", "none" if table.watermark is None else str(table.watermark))]
    facts += [("# primary key", ", ".join(table.primary_key))] if table.primary_key else []
    takes = "none" if table.sink is None else "append-only"
    if table.sink is not None and (table.sink.keys or table.sink.shows):
        takes = f"upserts by {', '.join(table.sink.keys)}" if table.sink.keys else "upserts by any key"
    elif table.sink is not None and table.sink.whole_rows is not None:
        takes = "changes of whole rows"
    return [*facts, ("# changelog", takes), *([("# comment", table.comment)] if table.comment else [])]


def _type(name: str, *, nullable: bool) -> str:
    return name if nullable else f"{name} not null"


def _frame(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))
