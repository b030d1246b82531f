"""Statements: parses and plans SQL statements, and adds their operators to the program of an environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Protocol

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.stream_type import APPEND_ONLY
from flykka.api.table.catalog import Catalog
from flykka.api.table.changing_rows import columns_of_rows
from flykka.api.table.declared_table import DeclaredTable, declared_table
from flykka.api.table.planner import Planner
from flykka.api.table.refusals import RefusedError
from flykka.api.table.upsert_tables import UpsertTable, WholeRowTable, is_materialised
from flykka.errors import ProgramError, SqlError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.errors import SparkBridgeError
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.rows.type_support import with_lengths_noted
from flykka.spark_bridge.sql.analysis import Statement
from flykka.spark_bridge.sql.commands import CreateTable, CreateView, Drop, Insert
from flykka.spark_bridge.sql.parsing import ParsedStatement, parse
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.plan_node import PlanNode, Position, SqlTextError
from flykka.spark_bridge.sql.script import ScriptStatement
from flykka.views.text.formats import counted

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings
    from flykka.api.streams.program import Program
    from flykka.api.streams.transformation import Transformation
    from flykka.api.streams.watermark_strategy import WatermarkStrategy
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.program.prototype import DataFrame, SparkSession
    from flykka.spark_bridge.program.sink import Sink
    from flykka.spark_bridge.program.source import Source
    from flykka.spark_bridge.sql.conflict_clause import ConflictClause
    from flykka.spark_bridge.sql.connectors.table_connector import TableSink


def name_operators(
    program: Program, made: Iterable[Transformation], scope: str, streams: Mapping[str, DataStream]
) -> None:
    """Give uids to the operators of a statement, inputs first.

    `scope` is the table or view that the operators belong to; `streams` are the streams that they read, by name. A uid
    depends on an operator's kind and inputs, not on its position in the text. So adding a condition or column changes
    no uid, and a savepoint fits the changed query. Equal operators are numbered in plan order.
    """
    taken = {each.uid for each in program.transformations}
    origins = {each.source: name for name, stream in streams.items() for each in stream.flow.inputs}
    for each in made:
        upstream = ",".join(dict.fromkeys(origins.get(read.source, read.source.uid) for read in each.inputs))
        if each.explicit_uid is None:
            kind = each.kind.lower().replace("_", "-")
            # The sink of a table keeps its uid, and so its staged rows, if its inputs change.
            called = kind if each.kind is OperatorKind.SINK else f"{kind}({upstream})"
            program.set_uid(each, _free(f"{scope}.{called}", taken))
            taken.add(each.uid)
        is_stateless = each.kind is OperatorKind.STATELESS
        origins.setdefault(each, upstream if is_stateless else each.uid.removeprefix(f"{scope}."))


def _free(uid: str, taken: set[str]) -> str:
    return next(each for number in count(1) if (each := uid if number == 1 else f"{uid}-{number}") not in taken)


_INSTEAD = {
    "CreateTableAsSelect": "CREATE TABLE ... AS SELECT would be both a table and a job: declare the table, and"
    " INSERT INTO it",
    "UnresolvedWith": "WITH comes after the table: INSERT INTO table WITH name AS (SELECT ...) SELECT ...",
    **dict.fromkeys(
        ("CreateFunction", "CreateUserDefinedFunction", "DropFunction"),
        "functions belong to this session: use CREATE TEMPORARY FUNCTION, DROP TEMPORARY FUNCTION",
    ),
    "CreateView": "views of streams belong to this environment: CREATE TEMPORARY VIEW name AS SELECT ...",
    "CreateTempViewUsing": "tables of streams belong to this environment: CREATE TABLE name (columns) USING"
    " connector OPTIONS (...)",
}


QUERY = "query"


_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"


_RUNS = (
    "what can run: SELECT, CREATE TABLE ... USING, CREATE TEMPORARY VIEW, CREATE TEMPORARY FUNCTION, INSERT INTO,"
    " EXECUTE STATEMENT SET BEGIN ... END, EXPLAIN, SHOW TABLES, SHOW VIEWS, DESCRIBE, DROP TABLE, DROP VIEW, SET"
)


class Environment(Protocol):
    job_settings: JobSettings

    @property
    def spark(self) -> SparkSession: ...

    @property
    def program(self) -> Program: ...

    @property
    def sql_state_ttl_ms(self) -> int | None:
        """The time-to-live (ms) of rows in joins that are planned from now on. None keeps rows forever."""

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        name: str | None = None,
        uid: str | None = None,
    ) -> DataStream: ...

    def from_dataframe(self, frame: DataFrame) -> DataStream: ...

    def from_checkpoint(self, checkpoint: str | None) -> object: ...

    def execute_async(self, job_name: str = ..., *, attached: bool = True) -> JobClient: ...


class Statements:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.catalog = Catalog()

    def parsed(self, source: ScriptStatement) -> ParsedStatement:
        with self.taken_back(source):
            return parse(self._environment.spark, source)

    def query(
        self,
        statement: ParsedStatement,
        query: PlanNode | None = None,
        *,
        scope: str = QUERY,
        columns: tuple[str, ...] = (),
    ) -> DataStream:
        """Add the operators of a query to the program, and return their stream.

        `query` is a part of the statement, by default the whole statement. `columns` renames the result columns;
        `scope` is the prefix of the operators' uids.

        Raises:
            SqlError: the query cannot be parsed, or cannot run on streams.
        """
        with self.taken_back(statement.source):
            parsed = statement.parsed
            plan = parsed.plan if query is None else query
            streams = self._streams(parsed, plan)
            with self._named(scope, streams):
                analyzed = parsed.analyzed(plan, _prototypes(streams))
                if columns:
                    _check_number(columns, analyzed, parsed.plan.position)
                    analyzed = parsed.renamed(analyzed, columns)
                return self._planner(streams, statement).result(analyzed)

    def create_view(self, statement: ParsedStatement, view: CreateView) -> None:
        def plan() -> DataStream:
            return self.query(statement, view.query, scope=view.name, columns=view.columns)

        with self.taken_back(statement.source):
            if view.name in self.catalog and not view.replaces:
                raise RefusedError(
                    f"there is already a table or view {view.name}: CREATE OR REPLACE TEMPORARY VIEW replaces it,"
                    f" DROP VIEW {view.name} removes it",
                    statement.position,
                )
            self.catalog.add_view(view.name, plan(), plan)

    def create_table(self, statement: ParsedStatement, table: CreateTable) -> None:
        with self.taken_back(statement.source):
            if table.name in self.catalog and not table.replaces:
                if table.if_not_exists:
                    return
                raise RefusedError(
                    f"there is already a table or view {table.name}: CREATE OR REPLACE TABLE replaces it,"
                    " IF NOT EXISTS keeps it",
                    statement.position,
                )
            made = declared_table(table, table.watermark, self._environment.spark)
            self.catalog.add_table(made, lambda: made.stream(self._environment.from_source))

    def drop(self, dropped: Drop) -> None:
        is_there = dropped.name in self.catalog and (self.catalog.table(dropped.name) is None) == dropped.is_view
        if is_there:
            self.catalog.drop(dropped.name)
        elif not dropped.if_exists:
            what, names = (
                ("view", self.catalog.views)
                if dropped.is_view
                else ("table", tuple(table.name for table in self.catalog.tables))
            )
            raise RefusedError(
                f"unknown {what} {dropped.name}; known: {', '.join(names) or 'none'}",
                dropped.position,
            )

    def insert(self, statement: ParsedStatement, insert: Insert) -> DataStream:
        """Write the rows of a query to the sink of a table, and return their stream.

        Raises:
            SqlError: the table is unknown, cannot be written or has different columns; the query cannot run; or the
                query's rows change and the table only appends.
        """
        with self.taken_back(statement.source), _placed(insert.position):
            table = self._target(insert)
            assert table.sink is not None, "it was checked"
            target = _table_of_rows(table, table.sink, insert.conflict)
            streams = self._streams(statement.parsed, insert.query)
            with self._named(table.name, streams):
                analyzed = statement.parsed.analyzed(insert.query, _prototypes(streams))
                stored = self._stored(statement.parsed, insert, table, analyzed)
                stream = self._planner(streams, statement).result(stored, target)
                _check_changelog(table, table.sink, stream)
                written = stream.select_expr(*table.sink.encoded) if table.sink.encoded else stream
                written.sink_to(_sink_for(stream, table.sink)).name(f"{table.name}: {table.sink.sink}")
                return stream

    def _planner(self, streams: Mapping[str, DataStream], statement: ParsedStatement) -> Planner:
        environment = self._environment
        return Planner(streams, environment.from_dataframe, environment.sql_state_ttl_ms, statement.as_of)

    @contextmanager
    def taken_back(self, source: ScriptStatement) -> Iterator[None]:
        """Restore the program if a statement is refused, and raise the error as `SqlError`."""
        before = self._environment.program.transformations
        try:
            yield
        except (SqlTextError, RefusedError) as wrong:
            program = self._environment.program
            program.remove_operators(each for each in program.transformations if each not in before)
            raise self._error(source.script, wrong) from None

    def refused(self, statement: ParsedStatement) -> RefusedError:
        hint = _INSTEAD.get(statement.parsed.plan.kind, f"this command cannot run on streams; {_RUNS}")
        return RefusedError(hint, statement.position)

    def _streams(self, statement: Statement, query: PlanNode) -> dict[str, DataStream]:
        found: dict[str, DataStream] = {}
        for name, position in sorted(statement.reads(query).items()):
            if name in self.catalog:
                with _placed(position):
                    found[name] = self.catalog.stream(name, self._environment.program)
        return found

    @contextmanager
    def _named(self, scope: str, streams: Mapping[str, DataStream]) -> Iterator[None]:
        """Give uids to the operators that are added within the context."""
        program = self._environment.program
        before = program.transformations
        yield
        name_operators(program, [each for each in program.transformations if each not in before], scope, streams)

    def _target(self, insert: Insert) -> DeclaredTable:
        if insert.table not in self.catalog:
            known = ", ".join(table.name for table in self.catalog.tables if table.sink is not None) or "none"
            raise RefusedError(
                f"unknown table {insert.table}; tables with a sink: {known}. CREATE TABLE"
                f" {insert.table} (...) USING connector OPTIONS (...) declares it",
                insert.position,
            )
        table = self.catalog.table(insert.table)
        if table is None:
            raise RefusedError(f"{insert.table} is a view; INSERT INTO writes to tables", insert.position)
        if table.sink is None:
            raise RefusedError(f"the table {table.name} cannot be written: {table.unwritable}", insert.position)
        return table

    def _stored(self, statement: Statement, insert: Insert, table: DeclaredTable, plan: PlanNode) -> PlanNode:
        if insert.columns:
            _check_number(insert.columns, plan, insert.position)
        plan = statement.renamed(plan, insert.columns) if insert.columns else plan
        if table.columns is None:
            return plan
        columns = self._environment.spark.createDataFrame([], with_lengths_noted(table.columns))
        return statement.stored(plan, table.name, columns, by_name=insert.by_name or bool(insert.columns))

    def _error(self, text: str, wrong: SqlTextError | RefusedError) -> SqlError:
        place, why = wrong.position, " ".join(str(wrong).split())
        if isinstance(wrong, SqlTextError) and wrong.condition == _NOT_FOUND:
            known = ", ".join(self.catalog.names) or "none"
            why = (
                f"{why} Tables and views of streams: {known}; CREATE TABLE and create_temporary_view(name, stream) add"
                " one."
            )
        return SqlError(why, text, None if place is None else place.line, None if place is None else place.column)


def _prototypes(streams: Mapping[str, DataStream]) -> dict[str, DataFrame]:
    return {
        name: stream.flow.type.prototype.select(*map(named, columns_of_rows(stream)))
        for name, stream in streams.items()
    }


def _check_number(columns: tuple[str, ...], plan: PlanNode, position: Position | None) -> None:
    if len(columns) != len(plan.output):
        raise RefusedError(
            f"{counted(len(columns), 'column name')} ({', '.join(columns)}) for"
            f" {counted(len(plan.output), 'column')} of the query: {', '.join(each.name for each in plan.output)}",
            position,
        )


@contextmanager
def _placed(position: Position | None) -> Iterator[None]:
    """Set the position of errors that have none."""
    try:
        yield
    except (SqlTextError, RefusedError) as wrong:
        wrong.position = wrong.position or position
        raise
    except SqlError:
        raise  # The error belongs to another text: the definition of a view.
    except (ProgramError, SparkBridgeError) as wrong:
        raise RefusedError(str(wrong), position) from None


def _table_of_rows(
    table: DeclaredTable, sink: TableSink, clause: ConflictClause | None
) -> UpsertTable | WholeRowTable | None:
    """Return the form that rows must have; None for any form that can be appended. Raises `RefusedError`."""
    if sink.keys:
        rule = None if clause is None else clause.rule
        return UpsertTable(
            name=table.name, keys=sink.keys, sequence=sink.sequence_by, rule=rule, unordered=sink.unordered
        )
    if clause is not None:
        raise RefusedError(
            f"ON CONFLICT is for tables with one row per key, but {table.name}, USING {table.connector}, has no key:"
            " leave the clause out. Tables USING delta or postgres with PRIMARY KEY (columns) NOT ENFORCED have keys",
            clause.position,
        )
    return None if sink.whole_rows is None else WholeRowTable()


def _sink_for(stream: DataStream, sink: TableSink) -> Sink:
    kind = stream.changelog.row_kind
    if sink.whole_rows is not None and kind is not None:
        return sink.whole_rows(kind)
    return sink.unsequenced if sink.unsequenced is not None and is_materialised(stream) else sink.sink


def _check_changelog(table: DeclaredTable, sink: TableSink, stream: DataStream) -> None:
    keys, kind = stream.changelog.keys, stream.changelog.row_kind
    if sink.keys and kind not in (None, ROW_KIND):
        raise RefusedError(
            f"the rows are {stream.changelog}, with their kind in a column {ROW_KIND}, but {table.name} has a column of"
            " this name: rename it",
            None,
        )
    if stream.changelog == APPEND_ONLY or sink.shows or sink.keys or sink.whole_rows is not None:
        return
    what = (
        "changes of whole rows"
        if keys is None
        else f"upserts by ({', '.join(keys)})"
        if keys
        else "upserts of one row, without a key"
    )
    raise RefusedError(
        f"the rows are {what}: only the newest are current, but {table.name}, USING {table.connector}, would keep all"
        " rows ever emitted. Tables USING delta or postgres with PRIMARY KEY"
        f" ({', '.join(keys or ()) or 'column'}) NOT ENFORCED take them, so do those without a key,"
        " and USING print shows them; GROUP BY window(...) gives each result once",
        None,
    )
