"""`flykka trace check`: checks whether a recorded run violates an invariant of the monitors."""

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
Check a recorded run with the monitors that check every simulation, and print the
violations: a checkpoint that completes without an acknowledgement, two running
attempts of a subtask, output published too early or twice, a batch used after its
release, a message without credit or out of order, an invalid state transition.
The trace of a flight recorder may start in the middle of a run: its missing
beginning causes no violations.
"""

_EPILOG = """\
exit codes:
  0  no violation, as far as the trace goes
  1  violations; their turns are printed
  2  there is no such file, it is not a trace, a newer flykka wrote it, or it is
     damaged: the part before the damage was checked
  3  an internal error of this command

examples:
  flykka trace check run.trace
  flykka trace check flight-record.trace --json | jq .text
  flykka trace check run.trace --progress-within 60
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--json", action="store_true", help="print violations as JSON, one object per line")
    within = "a job must make progress within this time (default: it may wait for data forever)"
    parser.add_argument("--progress-within", type=at_least_one, metavar="SECONDS", help=within)
    parser.set_defaults(run=on_trace("flykka trace check", _check))


def _check(trace: TraceReader, arguments: argparse.Namespace) -> int:
    records = CountingIterator(trace.records())
    is_whole = trace.header.ring is None or not trace.header.ring.not_kept
    within = arguments.progress_within
    monitors = all_monitors(is_whole=is_whole, progress_within_ms=None if within is None else within * 1_000)
    number = 0
    for violation in check(records, monitors):
        number += 1
        if arguments.json:
            document = {"monitor": violation.monitor, "turn": violation.turn, "text": violation.text}
            print(json.dumps(document))
        else:
            print(violation)
    laws = "no violations" if not number else f"{number} violations" if number > 1 else "1 violation"
    notes = [f"{records.count:,} records: {laws}", *shortcomings(trace)]
    if not is_whole:
        notes.append("the part of the run before the trace is unknown")
    for note in notes:
        print(f"# {note}", file=sys.stderr if arguments.json else sys.stdout)
    return DIFFERENT if number else OK
