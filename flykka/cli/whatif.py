"""`flykka whatif`: the arguments. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_import
from flykka.runtime.durations import duration_ms
from flykka.runtime.errors import DurationError

_DESCRIPTION = """\
Let a recorded run go on by itself from some turn, with one thing changed, and
compare what comes of it: the message of the turn is lost, late, or comes twice;
an actor dies; a stage fails. It takes seconds, in virtual time, and touches
nothing that the run has left behind.

What Spark, the storage and the clients said is taken from the record as long as
it fits. Behind that, bridges answer by the protocol alone, without rows: a fork
tells what the actors would have decided, and nothing about the data.
"""

_EPILOG = """\
examples:
  flykka whatif run.trace --at 120 --drop
  flykka whatif run.trace --at 120 --delay 5s
  flykka whatif run.trace --at 120 --crash task-manager-1 --record fork.trace

exit codes:
  0  every job ends as it did
  1  a job ends otherwise
  2  there is no such file, it is no trace, or the fault is not possible at that turn
  3  an error of this command itself
"""


def add_whatif_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `whatif`. The function to call with the arguments is their `run`."""
    whatif = subparsers.add_parser(
        "whatif",
        help="let a recorded run go on from a turn, with a fault",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whatif.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    whatif.add_argument("--at", metavar="N", type=int, required=True, help="begin right before turn N")
    faults = whatif.add_mutually_exclusive_group()
    faults.add_argument("--drop", action="store_true", help="the message of the turn is lost")
    faults.add_argument("--delay", metavar="TIME", type=_duration, help="it comes later, such as 5s")
    faults.add_argument("--duplicate", action="store_true", help="it comes twice")
    faults.add_argument("--crash", metavar="PATH", help="before it comes, this actor dies, and all below it")
    faults.add_argument("--fail-stage", action="store_true", help="before it comes, a stage of its task fails")
    limit = "so much virtual time at most, from the turn on (default: 1h)"
    whatif.add_argument("--limit", metavar="TIME", type=_duration, default="1h", help=limit)
    whatif.add_argument("--record", metavar="FILE", help="write the run with the fork to a trace of its own")
    whatif.add_argument("--json", action="store_true", help="everything, as one JSON object")
    add_import(whatif)
    whatif.set_defaults(run=_whatif)


def _whatif(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.whatif_command import whatif

    return whatif(arguments)


def _duration(text: str) -> str:
    try:
        duration_ms(text, "the duration")
    except DurationError as refusal:
        raise argparse.ArgumentTypeError(str(refusal)) from None
    return text
