"""What `flykka trace` does: opens a trace, shows it, and says with its exit code how that went."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fsspec.core import url_to_fs
from rich.console import Console

from flykka.cli.trace_report import report_json, write_report
from flykka.cli.trace_statistics import TraceStatistics
from flykka.cli.trace_table import print_table, row_of, write_lines
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.reader import Trace
from flykka.traces.origin import cut_off, origin
from flykka.traces.record_json import record_json
from flykka.traces.selection import Selection

if TYPE_CHECKING:
    import argparse

OK, UNREADABLE, BROKEN = 0, 2, 3

Command = Callable[[Trace, "argparse.Namespace"], None]


def show(arguments: argparse.Namespace) -> int:
    """`flykka trace show`; returns the exit code."""
    return _run(_show, arguments)


def stats(arguments: argparse.Namespace) -> int:
    """`flykka trace stats`; returns the exit code."""
    return _run(_stats, arguments)


def _show(trace: Trace, arguments: argparse.Namespace) -> None:
    notes = sys.stderr if arguments.json else sys.stdout
    if trace.header.ring is not None:
        print(f"# {origin(trace)}", file=notes)
    wanted = Selection(
        actor=arguments.actor,
        type=arguments.type,
        without=tuple(arguments.without),
        first=arguments.first,
        last=arguments.last,
        limit=arguments.limit,
    ).of(trace.records())
    if arguments.json:
        for record in wanted:
            print(json.dumps(record_json(record)))
    else:
        began_ms = next((record.now_ms for record in trace.records()), 0)
        rows = (row_of(record, began_ms) for record in wanted)
        console = Console(highlight=False)
        if console.is_terminal and not console.is_dumb_terminal:
            print_table(rows, console)
        else:
            write_lines(rows, sys.stdout)
    if (damage := trace.truncated) is not None:
        print(f"# {cut_off(damage)}", file=notes)


def _stats(trace: Trace, arguments: argparse.Namespace) -> None:
    statistics, damage = TraceStatistics.of(trace.records()), trace.truncated
    if arguments.json:
        print(json.dumps(report_json(trace, statistics, damage), indent=2))
    else:
        write_report(arguments.file, trace, statistics, damage, sys.stdout)


def _run(command: Command, arguments: argparse.Namespace) -> int:
    try:
        with _opened(arguments.file) as trace:
            command(trace, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has enough, as `head` has. What Python still flushes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (TraceError, OSError, ImportError) as unreadable:
        print(f"flykka trace: {_reason(arguments.file, unreadable)}", file=sys.stderr)
        return UNREADABLE
    except Exception:  # noqa: BLE001 - the exit code tells it from a file that cannot be read.
        traceback.print_exc()
        print(f"flykka trace: could not show {arguments.file}: this is an error of flykka's own", file=sys.stderr)
        return BROKEN
    return OK


@contextmanager
def _opened(address: str) -> Iterator[Trace]:
    """The trace at a path, or a copy of one that is somewhere else."""
    if "://" not in address:
        yield Trace.open(address)
        return
    with TemporaryDirectory(prefix="flykka-") as folder:
        fs, location = url_to_fs(address)
        copy = Path(folder, "copy.trace")
        fs.get_file(location, str(copy))
        yield Trace.open(copy)


def _reason(address: str, unreadable: Exception) -> str:
    match unreadable:
        case FileNotFoundError():
            return f"there is no file {address}"
        case IsADirectoryError():
            return f"{address} is a folder; a trace is a file"
        case OSError(strerror=str(why)):
            return f"{address} cannot be read: {why}"
        case TraceError():
            return str(unreadable)
        case _:
            return f"{address} cannot be read: {unreadable}"
