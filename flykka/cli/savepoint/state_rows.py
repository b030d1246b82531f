"""Rows of keyed state, for `flykka savepoint inspect --rows`."""

from __future__ import annotations

from typing import Any

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from flykka.client.saved_state import keyed_operators, state_in
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.views.text.formats import NOTHING

Rows = list[dict[str, Any]]


def rows_by_operator(checkpoint: CompletedCheckpoint, limit: int) -> dict[str, Rows]:
    """At most so many rows of each operator with keyed state, by its uid. Starts a Spark session, and stops it."""
    operators = keyed_operators(checkpoint)
    if not operators:
        return {}
    from flykka.spark_bridge.session.session import session_is_there, spark_session, stop_session

    adopted = session_is_there()
    session = spark_session("local[1]", short_lived=True)
    try:
        return {each.ref.uid: state_in(checkpoint, each.ref.uid).rows(limit) for each in operators}
    finally:
        if not adopted:
            stop_session(session)


def show_rows(output: RichConsole, rows: dict[str, Rows]) -> None:
    """Print a table for each operator."""
    for uid, some in rows.items():
        output.print()
        output.print(Text(f"{uid}: {'the first rows' if some else 'no rows'} of its state"), soft_wrap=True)
        if not some:
            continue
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in some[0]:
            table.add_column(Text(name), overflow="fold")
        for row in some:
            table.add_row(*(Text(NOTHING if value is None else str(value)) for value in row.values()))
        output.print(table)
