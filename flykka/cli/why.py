"""`flykka why`: the arguments. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_import

_DESCRIPTION = """\
Why does a job not go on? Asks the processes of yours on this machine that run
jobs, from another terminal: who waits for whom, since when, and how far stages
are. The first line is the answer. It is there also when an actor is stuck: who
does not answer is told as such.

With --trace the same is told of a recorded run, at its end or behind a turn.
"""

_EPILOG = """\
examples:
  flykka why                          the job that runs
  flykka why prices                   one of several, by its name or the begin of its id
  flykka why --trace run.trace --turn 142

exit codes:
  0  there is an answer
  1  there is no such job, or there are several and none was named
  2  the trace is not there or no trace, or there is no such turn
  3  an error of this command itself
"""


def add_why_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `why`. The function to call with the arguments is their `run`."""
    why = subparsers.add_parser(
        "why",
        help="why a job does not go on: who waits for whom",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    why.add_argument("job", metavar="JOB", nargs="?", help="its name, or how its id begins; not needed where one runs")
    why.add_argument(
        "--timeout", metavar="TIME", default="2s", help="how long each actor has for its answer (default: %(default)s)"
    )
    why.add_argument("--trace", metavar="FILE", help="a recorded run instead; an address such as s3://... too")
    why.add_argument("--turn", metavar="N", type=int, help="behind this turn of the recorded run, not at its end")
    add_import(why)
    why.set_defaults(run=_why, parser=why)


def _why(arguments: argparse.Namespace) -> int:
    if arguments.turn is not None and arguments.trace is None:
        arguments.parser.error("--turn N needs --trace FILE")
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.why_command import why, why_recorded

    return why(arguments) if arguments.trace is None else why_recorded(arguments)
