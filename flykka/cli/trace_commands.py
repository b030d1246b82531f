"""What `flykka trace` does: opens a trace, shows it, and says with its exit code how that went."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from flykka.cli.trace_file import OK, run_on_trace
from flykka.cli.trace_report import report_json, write_report
from flykka.cli.trace_statistics import TraceStatistics
from flykka.cli.trace_table import print_table, row_of, write_lines
from flykka.errors import TraceSelectionError
from flykka.runtime.trace.file.order import exactly_in_order, nearly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Record
from flykka.traces.origin import beforehand, cut_off
from flykka.traces.record_json import record_json
from flykka.traces.selection import Counted, Selection, patterns_of

if TYPE_CHECKING:
    import argparse

Command = Callable[[TraceReader, "argparse.Namespace"], None]


_TABLE_WIDTH = 80
"""On a narrower terminal the columns would be of a few letters each."""


def show(arguments: argparse.Namespace) -> int:
    """`flykka trace show`; returns the exit code."""
    return _run("show", _show, arguments)


def stats(arguments: argparse.Namespace) -> int:
    """`flykka trace stats`; returns the exit code."""
    return _run("stats", _stats, arguments)


def _show(trace: TraceReader, arguments: argparse.Namespace) -> None:
    notes = sys.stderr if arguments.json else sys.stdout
    for note in beforehand(trace):
        print(f"# {note}", file=notes)
    wanted = Counted(
        Selection(
            actor=arguments.actor,
            type=arguments.type,
            without=patterns_of(arguments.without),
            first=arguments.first,
            last=arguments.last,
            limit=arguments.limit,
        ).of(_ordered(trace, arguments.last))
    )
    if arguments.json:
        for record in wanted:
            print(json.dumps(record_json(record)))
    else:
        began_ms = next((record.now_ms for record in trace.records()), 0)
        rows = (row_of(record, began_ms) for record in wanted)
        console = Console(highlight=False)
        if console.is_terminal and not console.is_dumb_terminal and console.width >= _TABLE_WIDTH:
            print_table(rows, console)
        else:
            write_lines(rows, sys.stdout)
    # Where reading has stopped before the end, nobody asks how the file ends.
    if arguments.last is None and wanted.count != arguments.limit and (damage := trace.truncated) is not None:
        print(f"# {cut_off(damage)}", file=notes)
    if wanted.count == 0 and _is_selective(arguments):
        raise TraceSelectionError(
            f"{arguments.file}: no turn is as asked for; `flykka trace stats` tells what there is"
        )


def _is_selective(arguments: argparse.Namespace) -> bool:
    asked = (arguments.actor, arguments.type, arguments.first, arguments.last)
    return bool(arguments.without) or any(each is not None for each in asked)


def _ordered(trace: TraceReader, last: int | None) -> Iterator[Record]:
    """The records as they are shown: from the first one on at once, or, where reading stops, with none left out."""
    return nearly_in_order(trace.records()) if last is None else exactly_in_order(trace)


def _stats(trace: TraceReader, arguments: argparse.Namespace) -> None:
    statistics, damage = TraceStatistics.of(trace.records()), trace.truncated
    if arguments.json:
        print(json.dumps(report_json(trace, statistics, damage), indent=2))
    else:
        write_report(arguments.file, trace, statistics, damage, sys.stdout)


def _run(name: str, command: Command, arguments: argparse.Namespace) -> int:
    def run(trace: TraceReader) -> int:
        command(trace, arguments)
        return OK

    return run_on_trace(f"flykka trace {name}", arguments.file, run)
