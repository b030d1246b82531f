"""`flykka debug`: the arguments. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_import

_DESCRIPTION = """\
Walk through a recorded run: every turn is taken again by the actors' own code,
and between two turns one can look at what every actor knows. Nothing of what the
run did outside happens again: no Spark, no files, no clients.

Type `help` for the commands. They can come from a pipe as well:

  echo 'state' | flykka debug run.trace --break 'CheckpointCoordinator <- DeclineCheckpoint'
"""

_EPILOG = """\
examples:
  flykka debug run.trace --until 142
  flykka debug run.trace --break 'JobMaster <- *Failed' --break 'DeclineCheckpoint(checkpoint_id=7)'

exit codes:
  0  everything that was replayed is as it was recorded
  1  a turn was not as it was recorded
  2  there is no such file, it is no trace, or there is no such turn
  3  an error of this command itself
"""


def add_debug_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `debug`. The function to call with the arguments is their `run`."""
    debug = subparsers.add_parser(
        "debug",
        help="walk through a recorded run, turn by turn",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    debug.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    stop = "stop behind turns of this actor with this message; either may be left out, may be given several times"
    debug.add_argument(
        "--break", dest="breakpoints", metavar="ACTOR <- MESSAGE", action="append", default=[], help=stop
    )
    debug.add_argument("--until", metavar="N", type=int, help="begin behind turn N")
    add_import(debug)
    debug.set_defaults(run=_debug)


def _debug(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.debug_command import debug

    return debug(arguments)
