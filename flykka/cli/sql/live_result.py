"""The table of a query that runs, on a terminal: it follows the rows until the query ends, or is ended by a key."""

from __future__ import annotations

import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flykka.api.table.result_table import ResultTable, Shown
from flykka.client.job_client import JobClient

_PAUSE_S = 0.25
_LINES_AROUND = 8
_QUIT = ("q", "Q")


def follow(client: JobClient, result: ResultTable, output: RichConsole) -> None:
    """Show the result until its job has ended; q or Ctrl-C cancels that.

    Raises what the job has failed of.
    """
    limit = max(5, output.size.height - _LINES_AROUND)
    began = time.monotonic()

    def picture(state: str) -> Group:
        return result_picture(result.shown(limit), f"{state}, {time.monotonic() - began:.0f} s")

    with Live(console=output, auto_refresh=False, transient=False) as live, _keys():
        try:
            while not client.done() and not _is_quit():
                live.update(picture("running; q ends it"), refresh=True)
        except KeyboardInterrupt:
            pass  # As q.
        was_running = not client.done()
        if was_running:
            client.cancel()
        live.update(picture("ended" if was_running else str(client.status).lower()), refresh=True)
    if not was_running:
        client.wait()


def result_picture(shown: Shown, state: str) -> Group:
    """The rows as a table, and a line about them."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in shown.columns:
        table.add_column(Text(name), overflow="ellipsis")
    for row in shown.rows:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(value) for value in row))
    last = "" if len(shown.rows) == shown.total else f"the last {len(shown.rows):,} of "
    changes = f", {shown.changes:,} changes" if shown.changes != shown.total else ""
    return Group(table, Text(f"{last}{shown.total:,} rows{changes}; {state}", style="dim"))


def _is_quit() -> bool:
    """True if q was typed within a moment."""
    if not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
        return False
    return sys.stdin.read(1) in _QUIT


@contextmanager
def _keys() -> Iterator[None]:
    """Read keys as they are typed, and do not show them."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
