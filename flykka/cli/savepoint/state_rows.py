"""Rows of keyed state, for `flykka savepoint inspect --rows`."""

from __future__ import annotations

from typing import Any

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from flykka.client.saved_state import keyed_operators, state_in
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.spark_bridge.errors import SavedStateError
from flykka.views.text.formats import NOTHING

Rows = list[dict[str, Any]]


def rows_by_operator(checkpoint: CompletedCheckpoint, limit: int) -> dict[str, Rows | str]:
    """At most so many rows of each operator with keyed state, by its uid, or the reason why they cannot be read.

    Starts a Spark session, and stops it.
    """
    operators = keyed_operators(checkpoint)
    if not operators:
        return {}
    from flykka.spark_bridge.session.session import session_is_there, spark_session, stop_session

    adopted = session_is_there()
    session = spark_session("local[1]", short_lived=True)
    try:
        return {each.ref.uid: _rows(checkpoint, each.ref.uid, limit) for each in operators}
    finally:
        if not adopted:
            stop_session(session)


def _rows(checkpoint: CompletedCheckpoint, uid: str, limit: int) -> Rows | str:
    try:
        return state_in(checkpoint, uid).rows(limit)
    except SavedStateError as unreadable:
        return str(unreadable)


def show_rows(output: RichConsole, rows: dict[str, Rows | str]) -> None:
    """Print a table for each operator."""
    for uid, some in rows.items():
        output.print()
        told = some if isinstance(some, str) else f"{'the first rows' if some else 'no rows'} of its state"
        output.print(Text(f"{uid}: {told}"), soft_wrap=True)
        if isinstance(some, str) or not some:
            continue
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in some[0]:
            table.add_column(Text(name), overflow="fold")
        for row in some:
            table.add_row(*(Text(NOTHING if value is None else str(value)) for value in row.values()))
        output.print(table)
