"""A table of turns: on a terminal in columns, elsewhere a line each, for `grep`. Neither keeps what it has shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flykka.runtime.trace.effect_text import effects_text
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_text

_ROWS_AT_A_TIME = 50
_LONG_ID = re.compile(r"[0-9a-f]{16,}")
_PATH = re.compile(r"/user(?:/[^\s/,;()#]+)*/([^\s/,;()#]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record, as it is shown. `came` says what it came of."""

    turn: str
    time: str
    recipient: str
    said: str
    came: str
    effects: str
    failure: str = ""
    style: str = ""


def row_of(record: Record, began_ms: int) -> Row:
    """The row of a record; times count from `began_ms`."""
    failure = said = came = style = ""
    match record:
        case Turn():
            said, came = message_text(record.message), _came(record)
            failure = "" if record.failure is None else failure_text(record.failure)
            style = "red" if failure_of(record) is not None else "dim" if record.kind == "signal" else ""
        case Killed():
            said, style = "KILLED", "bold red"
        case Spawned():
            said, style = "SPAWNED", "dim"
        case DeadLetterRecord():
            said, style = f"DEAD LETTER {message_text(record.message)}", "yellow"
            came = "" if record.sender is None else f"from {record.sender.path}"
    return Row(
        turn=str(record.sequence),
        time=f"{(record.now_ms - began_ms) / 1000:+.3f}",
        recipient=recipient_of(record).path,
        said=said,
        came=came,
        effects=effects_text(record),
        failure=failure,
        style=style,
    )


def _came(turn: Turn) -> str:
    sender = "timer" if turn.kind == "timer" else "" if turn.sender is None else f"from {turn.sender.path}"
    return sender if turn.cause is None else f"{sender} ({turn.cause})".lstrip()


def write_lines(rows: Iterable[Row], out: TextIO) -> None:
    """A row a line."""
    for row in rows:
        parts = [f"{row.turn:>7} {row.time:>10}  {row.recipient} <- {row.said}", row.came, row.effects]
        if row.failure:
            parts.append(f"FAILED {row.failure}")
        out.write("  | ".join(filter(None, parts)) + "\n")


def print_table(rows: Iterator[Row], console: Console) -> None:
    """Columns, a screenful at a time, so that a long trace begins to show at once; long ids are cut short."""
    shows_header = True
    while screenful := list(islice(rows, _ROWS_AT_A_TIME)):
        console.print(_table(screenful, shows_header=shows_header))
        shows_header = False


def _table(rows: Iterable[Row], *, shows_header: bool) -> Table:
    table = Table(box=None, expand=True, show_header=shows_header, header_style="bold", pad_edge=False)
    table.add_column("turn", width=7, justify="right")
    table.add_column("s", width=9, justify="right")
    table.add_column("actor", ratio=3, overflow="fold")
    table.add_column("message", ratio=5, overflow="fold")
    table.add_column("from (turn)", ratio=2, overflow="fold")
    table.add_column("what came of it", ratio=4, overflow="fold")
    for row in rows:
        effects = Text(_named(row.effects))
        if row.failure:
            effects.append(f"{'; ' if row.effects else ''}FAILED {row.failure}", style="bold red")
        actor = ids_cut_short(row.recipient.removeprefix("/user/"))
        columns = (row.turn, row.time, actor, _named(row.said), _named(row.came.removeprefix("from ")))
        table.add_row(*map(Text, columns), effects, style=row.style)
    return table


def _named(text: str) -> str:
    """The text with the names of actors in the place of their paths, and ids cut short."""
    return ids_cut_short(_PATH.sub(r"\1", text))


def ids_cut_short(text: str) -> str:
    """The text with the first few letters of each long id."""
    return _LONG_ID.sub(_first_few, text)


def _first_few(identifier: re.Match[str]) -> str:
    return identifier[0][:6]
