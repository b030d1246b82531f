"""`flykka trace check`: whether a recorded run has broken a law of the protocol, as the monitors know them."""

from __future__ import annotations

import argparse
import json
import sys

from flykka.cli.arguments import TRACE_FILE, at_least_one, describe
from flykka.cli.exit_codes import DIFFERENT, OK
from flykka.cli.trace.trace_file import on_trace
from flykka.monitors.monitors import all_monitors, check
from flykka.runtime.trace.file.reader import TraceReader
from flykka.traces.origin import shortcomings
from flykka.traces.selection import CountingIterator

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


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--json", action="store_true", help="what is wrong as JSON, one object per line")
    within = "a job must make progress within so many seconds (default: it may wait for data for ever)"
    parser.add_argument("--progress-within", type=at_least_one, metavar="SECONDS", help=within)
    parser.set_defaults(run=on_trace("flykka trace check", _check))


def _check(trace: TraceReader, arguments: argparse.Namespace) -> int:
    records = CountingIterator(trace.records())
    is_whole = trace.header.ring is None or not trace.header.ring.not_kept
    within = arguments.progress_within
    monitors = all_monitors(is_whole=is_whole, progress_within_ms=None if within is None else within * 1_000)
    found = 0
    for violation in check(records, monitors):
        found += 1
        if arguments.json:
            told = {"monitor": violation.monitor, "turn": violation.turn, "text": violation.text}
            print(json.dumps(told))
        else:
            print(violation)
    laws = "no law is broken" if not found else f"laws are broken {found} times" if found > 1 else "a law is broken"
    notes = [f"{records.count:,} records: {laws}", *shortcomings(trace)]
    if not is_whole:
        notes.append("of what came before it nothing is known")
    for note in notes:
        print(f"# {note}", file=sys.stderr if arguments.json else sys.stdout)
    return DIFFERENT if found else OK
