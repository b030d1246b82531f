"""`flykka trace check`: whether a recorded run has broken a law of the protocol, as the monitors know them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.cli.arguments import at_least_one

if TYPE_CHECKING:
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import Record

_DESCRIPTION = """\
Shows a recorded run to the monitors that watch every simulation, and prints what they
find: a checkpoint that completes without an acknowledgement, two living attempts of a
subtask, output published too early or twice, a batch used behind its release, a
message without credit or out of order, a state that may not follow another.
Of a flight recorder's trace nothing is expected that may have come before it.
"""

_EPILOG = """\
exit codes:
  0  no law is broken, as far as the trace goes
  1  one is: the turns that did it are named
  2  there is no such file, it is no trace, a newer flykka wrote it, or it is
     damaged: what comes before that was checked
  3  an error of this command itself

examples:
  flykka trace check run.trace
  flykka trace check flight-record.trace --json | jq .text
  flykka trace check run.trace --progress-within 60
"""


def add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `check` to the commands of `flykka trace`."""
    check = commands.add_parser(
        "check",
        help="whether a law of the protocol was broken",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    check.add_argument("--json", action="store_true", help="what is wrong as JSON, one object per line")
    within = "a job must make progress within so many seconds (default: it may wait for data for ever)"
    check.add_argument("--progress-within", type=at_least_one, metavar="SECONDS", help=within)
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.trace_file import run_on_trace

    return run_on_trace("flykka trace check", arguments.file, lambda trace: _shown(trace, arguments))


def _shown(trace: TraceReader, arguments: argparse.Namespace) -> int:
    from flykka.cli.trace_file import DIFFERENT, OK
    from flykka.monitors.monitors import all_monitors, check
    from flykka.traces.origin import shortcomings

    count = _Count()
    is_whole = trace.header.ring is None or not trace.header.ring.not_kept
    within = arguments.progress_within
    monitors = all_monitors(is_whole=is_whole, progress_within_ms=None if within is None else within * 1_000)
    found = 0
    for violation in check(count.of(trace.records()), monitors):
        found += 1
        if arguments.json:
            told = {"monitor": violation.monitor, "turn": violation.turn, "text": violation.text}
            print(json.dumps(told))
        else:
            print(violation)
    laws = "no law is broken" if not found else f"laws are broken {found} times" if found > 1 else "a law is broken"
    notes = [f"{count.records:,} records: {laws}", *shortcomings(trace)]
    if not is_whole:
        notes.append("of what came before it nothing is known")
    for note in notes:
        print(f"# {note}", file=sys.stderr if arguments.json else sys.stdout)
    return DIFFERENT if found else OK


class _Count:
    """How many records were looked at."""

    def __init__(self) -> None:
        self.records = 0

    def of(self, records: Iterator[Record]) -> Iterator[Record]:
        """The same ones, counted."""
        for record in records:
            self.records += 1
            yield record
