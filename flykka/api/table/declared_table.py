"""Tables of CREATE TABLE: the source, sink, or both that a connector creates from the options."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from flykka.api.streams.watermark_strategy import WatermarkStrategy
from flykka.api.table.changing_rows import upserts_of
from flykka.api.table.refusals import RefusedError
from flykka.errors import FlykkaError, ProgramError
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.errors import SparkBridgeError
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.rows.type_support import without_lengths
from flykka.spark_bridge.sql.connectors.registry import TABLE_CONNECTORS
from flykka.spark_bridge.sql.connectors.table_connector import (
    PARTITIONED_BY,
    PRIMARY_KEY,
    Declared,
    OptionError,
    TableOptions,
    TableSink,
)
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.watermark_clause import TableWatermark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import SparkSession, StructType
    from flykka.spark_bridge.program.source import Source
    from flykka.spark_bridge.sql.commands import CreateTable
    from flykka.spark_bridge.sql.connectors.table_connector import TableConnector

T = TypeVar("T")


IDLE_TIMEOUT, QUIET_PERIOD = "idle_timeout", "quiet_period"


WATERMARK_FOR = "WATERMARK FOR"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """A declared table. If `columns` is None, the table has the columns of its source.

    `unreadable` and `unwritable` are the reasons for a missing source or sink.
    """

    name: str
    connector: str
    columns: StructType | None
    comment: str
    primary_key: tuple[str, ...]
    watermark: TableWatermark | None
    strategy: WatermarkStrategy | None
    source: Source | None
    sink: TableSink | None
    unreadable: str
    unwritable: str

    def stream(self, from_source: Callable[..., DataStream]) -> DataStream:
        """Return a stream of the rows, created by `from_source` of the environment, with the declared columns.

        A source of changes is read as upserts by the primary key, unless the row-kind column is declared.

        Raises:
            ProgramError: the table cannot be read, its columns differ from the declared columns, or a source of changes
                has no primary key.
        """
        if self.source is None:
            raise ProgramError(f"the table {self.name} cannot be read: {self.unreadable}")
        stream = from_source(self.source, self.strategy, name=self.name, uid=self.name)
        if self.columns is None:
            return stream
        found = {name.lower(): kind for name, kind in stream.flow.type.prototype.dtypes}
        for field in without_lengths(self.columns):
            kind = found.get(field.name.lower())
            if kind is None:
                raise ProgramError(
                    f"the table {self.name} declares the column {field.name}, which {self.source} does not have: it has"
                    f" {', '.join(stream.columns)}"
                )
            if kind != field.dataType.simpleString():
                raise ProgramError(
                    f"the table {self.name} declares {field.name} as {field.dataType.simpleString()}, but it is"
                    f" {kind} in {self.source}: declare it as {kind}"
                )
        names = self.columns.names
        if ROW_KIND in stream.columns and ROW_KIND not in names:
            return self._changes(stream, names)
        return stream if stream.columns == names else stream.select(*map(named, names))

    def _changes(self, stream: DataStream, names: Sequence[str]) -> DataStream:
        if not self.primary_key:
            raise ProgramError(
                f"the rows of the table {self.name} are changes: with PRIMARY KEY (column) NOT ENFORCED each replaces"
                f" the one before it; a column {ROW_KIND} STRING gives all changes as rows"
            )
        return upserts_of(stream.select(*map(named, names), ROW_KIND), self.primary_key)


def declared_table(said: CreateTable, watermark: TableWatermark | None, session: SparkSession) -> DeclaredTable:
    """Create the table of a CREATE TABLE statement.

    Raises:
        RefusedError: the connector is unknown, or an option is unknown, wrong or missing.
    """
    connector = _connector(said)
    own = {key: text for key, text in said.options.items() if key.lower() not in (IDLE_TIMEOUT, QUIET_PERIOD)}
    names = {} if said.columns is None else {name.lower(): name for name in said.columns.names}
    primary_key, partition_by = (
        tuple(names.get(name.lower(), name) for name in columns) for columns in (said.primary_key, said.partition_by)
    )
    declared = Declared(
        name=said.name,
        columns=said.columns,
        primary_key=primary_key,
        partition_by=partition_by,
        options=TableOptions(own),
        session=session,
    )
    try:
        _check_columns(declared, watermark)
        connector.check(declared)
        source, unreadable = _made(connector.source, declared)
        sink, unwritable = _made(connector.sink, declared)
        if source is None and sink is None:
            raise OptionError(unreadable or unwritable)
        strategy = _strategy(said, watermark)
    except OptionError as wrong:
        places = {**said.positions, **({} if watermark is None else {WATERMARK_FOR: watermark.position})}
        place = places.get(wrong.option or "") or said.connector_position
        raise RefusedError(str(wrong), place) from None
    except (FlykkaError, SparkBridgeError, DurationError, ValueError) as wrong:
        raise RefusedError(str(wrong), said.connector_position) from None
    return DeclaredTable(
        name=said.name,
        connector=connector.name,
        columns=said.columns,
        comment=said.comment,
        primary_key=primary_key,
        watermark=watermark,
        strategy=strategy,
        source=source,
        sink=sink,
        unreadable=unreadable or _only(connector, "written"),
        unwritable=unwritable or _only(connector, "read"),
    )


def _connector(said: CreateTable) -> TableConnector:
    found = TABLE_CONNECTORS.get(said.connector)
    if found is None:
        near = get_close_matches(said.connector, TABLE_CONNECTORS, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise RefusedError(
            f"unknown connector {said.connector!r}{meant}; known: {', '.join(sorted(TABLE_CONNECTORS))}",
            said.connector_position,
        )
    return found


def _check_columns(declared: Declared, watermark: TableWatermark | None) -> None:
    if declared.columns is None:
        return
    kinds = {field.name.lower(): field.dataType.simpleString() for field in declared.columns}
    named = [(PRIMARY_KEY, key) for key in declared.primary_key]
    named += [(PARTITIONED_BY, column) for column in declared.partition_by]
    named += [] if watermark is None else [(WATERMARK_FOR, watermark.column)]
    for clause, column in named:
        if column.lower() not in kinds:
            raise OptionError(
                f"{clause} names {column}, but the columns of {declared.name} are {', '.join(declared.columns.names)}",
                clause,
            )
    if watermark is not None and kinds[watermark.column.lower()] != "timestamp":
        raise OptionError(
            f"the watermark needs a column of type TIMESTAMP, but {watermark.column} has type"
            f" {kinds[watermark.column.lower()].upper()}",
            WATERMARK_FOR,
        )


def _made(make: Callable[[Declared], T | None] | None, declared: Declared) -> tuple[T | None, str]:
    """Create the source or sink of a table; return None and the reason if a required option is missing."""
    if make is None:
        return None, ""
    try:
        return make(declared), ""
    except OptionError as wrong:
        if wrong.option is not None:
            raise
        return None, str(wrong)


def _only(connector: TableConnector, what: str) -> str:
    if connector.source is not None and connector.sink is not None:
        return "the option 'slot' is missing: the replication slot from which changes are read"
    return f"tables USING {connector.name} can only be {what}"


def _strategy(said: CreateTable, watermark: TableWatermark | None) -> WatermarkStrategy | None:
    options = TableOptions(said.options)
    idle, quiet = options.text(IDLE_TIMEOUT), options.text(QUIET_PERIOD)
    if watermark is None:
        if idle is not None or quiet is not None:
            given = IDLE_TIMEOUT if idle is not None else QUIET_PERIOD
            raise OptionError(f"the option {given!r} needs a watermark: WATERMARK FOR at AS at - INTERVAL ...", given)
        return None
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(watermark.delay_ms)
    strategy = strategy.with_timestamp_column(watermark.column)
    strategy = strategy if idle is None else strategy.with_idleness(idle)
    return strategy if quiet is None else strategy.with_quiet_period(quiet)
