"""SHOW TABLES, SHOW VIEWS and DESCRIBE, as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flykka.api.table.refusals import RefusedError

if TYPE_CHECKING:
    import pandas as pd

    from flykka.api.streams.program import Program
    from flykka.api.table.catalog import Catalog
    from flykka.api.table.declared_table import DeclaredTable
    from flykka.spark_bridge.sql.commands import Describe


def listed_tables(catalog: Catalog) -> pd.DataFrame:
    """A row for each table: its name, its connector, and what it is read from and written to."""
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
    """A row for each view of a stream or a query."""
    return _frame(("view",), [(name,) for name in catalog.views])


def described(asked: Describe, catalog: Catalog, program: Program) -> pd.DataFrame:
    """The columns of a table or a view with their types, and behind a line with `#` what else is known of it.

    A view is planned for it where the program has not read it yet, and so is a table whose columns were not declared.

    Raises:
        RefusedError: there is none.
    """
    if asked.name not in catalog:
        known = ", ".join(catalog.names) or "none"
        raise RefusedError(f"there is no table or view {asked.name} of streams; there are {known}", asked.position)
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
    return [*facts, ("# changelog", takes), *([("# comment", table.comment)] if table.comment else [])]


def _type(name: str, *, nullable: bool) -> str:
    return name if nullable else f"{name} not null"


def _frame(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))
