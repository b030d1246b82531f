"""`flykka trace show`: shows a table of turns, or complete records as JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flykka.cli.arguments import TRACE_FILE, at_least_one, describe
from flykka.cli.exit_codes import OK
from flykka.cli.trace.command import EPILOG, SEVERAL
from flykka.cli.trace.trace_file import on_trace
from flykka.errors import TraceSelectionError
from flykka.runtime.trace.file.order import exactly_in_order, nearly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Record
from flykka.traces.origin import beforehand, begin_of, cut_off
from flykka.traces.record_json import record_json
from flykka.traces.selection import CountingIterator, Selection, patterns_of
from flykka.views.text.turns import TurnRow, ids_cut_short, row_lines, row_of

_DESCRIPTION = """\
Show one line per turn: its number, the seconds since the start of the trace, the
actor, the message, its sender (and the turn that sent it), and the effects. Failures
are red. Without a terminal the lines are plain, for grep.

examples:
  flykka trace show run.trace --actor '*checkpoint-coordinator'
  flykka trace show run.trace --type '*Checkpoint*' --from 1000 --limit 50
  flykka trace show run.trace --without heartbeats --without metrics
  flykka trace show run.trace --json | jq 'select(.failure)'
"""

_ROWS_AT_A_TIME = 50
_PATH = re.compile(r"/user(?:/[^\s/,;()#]+)*/([^\s/,;()#]+)")
_TABLE_WIDTH = 80
"""The minimum width of the table. In narrower terminals lines wrap, because columns would have only a few letters."""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--actor", metavar="PATH", help="only turns of this actor; * and ? stand for any text")
    parser.add_argument("--type", metavar="TYPE", help="only messages of this class or tag; * and ? stand for any text")
    without = "omit heartbeats, metrics, credits, or messages of this class or tag; " + SEVERAL
    parser.add_argument("--without", metavar="TYPE", action="append", default=[], help=without)
    parser.add_argument("--from", dest="first", metavar="N", type=int, help="only turns from number N on")
    parser.add_argument("--to", dest="last", metavar="N", type=int, help="only turns up to number N")
    parser.add_argument("--limit", metavar="N", type=at_least_one, help="at most N turns")
    parser.add_argument("--json", action="store_true", help="print complete records, one JSON object per line")
    parser.set_defaults(run=on_trace("flykka trace show", _show))


def _show(trace: TraceReader, arguments: argparse.Namespace) -> int:
    notes = sys.stderr if arguments.json else sys.stdout
    for note in beforehand(trace):
        print(f"# {note}", file=notes)
    records = CountingIterator(
        Selection(
            actor=arguments.actor,
            type=arguments.type,
            without=patterns_of(arguments.without),
            first=arguments.first,
            last=arguments.last,
            limit=arguments.limit,
        ).select(_ordered(trace, arguments.last))
    )
    if arguments.json:
        for record in records:
            print(json.dumps(record_json(record)))
    else:
        began_ms = begin_of(trace)
        rows = (row_of(record, began_ms) for record in records)
        console = Console(highlight=False)
        if console.is_terminal and not console.is_dumb_terminal and console.width >= _TABLE_WIDTH:
            _print_table(rows, console)
        else:
            sys.stdout.writelines(f"{line}\n" for line in row_lines(rows))
    # Damage at the end of the file is irrelevant if reading stopped before it.
    if arguments.last is None and records.count != arguments.limit and (damage := trace.truncated) is not None:
        print(f"# {cut_off(damage)}", file=notes)
    if records.count == 0 and _is_selective(arguments):
        raise TraceSelectionError(f"{arguments.file}: no turn matches; `flykka trace stats` lists messages and actors")
    return OK


def _is_selective(arguments: argparse.Namespace) -> bool:
    filters = (arguments.actor, arguments.type, arguments.first, arguments.last)
    return bool(arguments.without) or any(each is not None for each in filters)


def _ordered(trace: TraceReader, last: int | None) -> Iterator[Record]:
    """Yield the records in display order. They are streamed, or sorted exactly if only the `last` records are shown."""
    return nearly_in_order(trace.records()) if last is None else exactly_in_order(trace)


def _print_table(rows: Iterator[TurnRow], console: Console) -> None:
    """Print the table screen by screen, so that output starts immediately even for a long trace. Long ids are
    truncated.
    """
    shows_header = True
    while screenful := list(islice(rows, _ROWS_AT_A_TIME)):
        console.print(_table(screenful, shows_header=shows_header))
        shows_header = False


def _table(rows: Iterable[TurnRow], *, shows_header: bool) -> Table:
    table = Table(box=None, expand=True, show_header=shows_header, header_style="bold", pad_edge=False)
    table.add_column("turn", width=7, justify="right")
    table.add_column("s", width=9, justify="right")
    table.add_column("actor", ratio=3, overflow="fold")
    table.add_column("message", ratio=5, overflow="fold")
    table.add_column("from (turn)", ratio=2, overflow="fold")
    table.add_column("effects", ratio=4, overflow="fold")
    for row in rows:
        effects = Text(_shortened(row.effects))
        if row.failure:
            effects.append(f"{'; ' if row.effects else ''}FAILED {row.failure}", style="bold red")
        actor = ids_cut_short(row.recipient.removeprefix("/user/"))
        columns = (row.turn, row.time, actor, _shortened(row.message), _shortened(row.came.removeprefix("from ")))
        table.add_row(*map(Text, columns), effects, style=row.style)
    return table


def _shortened(text: str) -> str:
    return ids_cut_short(_PATH.sub(r"\1", text))
