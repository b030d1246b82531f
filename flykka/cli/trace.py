"""`flykka trace`: what actors did, read from a trace. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fsspec.core import url_to_fs
from rich.console import Console

from flykka.cli.trace_json import record_json
from flykka.cli.trace_report import cut_off, origin, report_json, write_report
from flykka.cli.trace_selection import Selection
from flykka.cli.trace_statistics import TraceStatistics
from flykka.cli.trace_table import print_table, row_of, write_lines
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.reader import Trace

OK, UNREADABLE, BROKEN = 0, 2, 3

_EPILOG = """\
exit codes:
  0  read, to the last whole record where the file is cut off
  2  there is no such file, it is no trace, or a newer flykka wrote it
  3  an error of this command itself
"""

_SHOW = """\
One line per turn: its number, the seconds since the trace began, the actor, what
it was told, by whom (and in which turn), and what came of it. Failures are red.
Elsewhere than on a terminal the lines are plain, for grep.

examples:
  flykka trace show run.trace --actor '*checkpoint-coordinator'
  flykka trace show run.trace --type '*Checkpoint*' --from 1000 --limit 50
  flykka trace show run.trace --json | jq 'select(.failure)'
"""

_STATS = """\
When and by which version it was recorded, how many turns were taken, which
messages and actors there were, checkpoints, failures, dead letters and kills.
"""


def add_trace_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `trace show` and `trace stats`. The function to call with the arguments is their `run`."""
    raw = argparse.RawDescriptionHelpFormatter
    text = "read traces: what every actor was told, and what it did"
    trace = subparsers.add_parser("trace", help=text, description=f"{text}.", epilog=_EPILOG, formatter_class=raw)
    commands = trace.add_subparsers(title="commands", metavar="COMMAND", required=True)

    show = commands.add_parser("show", help="a table of turns", description=_SHOW, epilog=_EPILOG, formatter_class=raw)
    show.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    show.add_argument("--actor", metavar="PATH", help="only turns of this actor; * and ? stand for any text")
    show.add_argument("--type", metavar="TYPE", help="only messages of this class or tag; * and ? stand for any text")
    show.add_argument("--from", dest="first", metavar="N", type=int, help="only turns from number N on")
    show.add_argument("--to", dest="last", metavar="N", type=int, help="only turns up to number N")
    show.add_argument("--limit", metavar="N", type=_positive, help="at most N turns")
    show.add_argument("--json", action="store_true", help="whole records, one JSON object per line")
    show.set_defaults(run=_guarded(_show))

    stats = commands.add_parser(
        "stats", help="what it amounts to", description=_STATS, epilog=_EPILOG, formatter_class=raw
    )
    stats.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    stats.add_argument("--json", action="store_true", help="everything, as one JSON object")
    stats.set_defaults(run=_guarded(_stats))


def _show(trace: Trace, arguments: argparse.Namespace) -> None:
    notes = sys.stderr if arguments.json else sys.stdout
    if trace.header.ring is not None:
        print(f"# {origin(trace)}", file=notes)
    wanted = Selection(
        actor=arguments.actor,
        type=arguments.type,
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


def _guarded(command: Callable[[Trace, argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """`command` over the trace that the arguments name, with its exit code."""

    def run(arguments: argparse.Namespace) -> int:
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

    return run


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


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
