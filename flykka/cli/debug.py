"""`flykka debug`: a prompt in a recorded run. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse
import sys

from flykka.cli.arguments import TRACE_FILE, add_import, describe
from flykka.cli.debugger import Debugger
from flykka.cli.exit_codes import DIFFERENT, OK, UNREADABLE
from flykka.cli.trace.trace_file import import_modules, run_on_trace
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.replay.session.breakpoint import Breakpoint
from flykka.runtime.trace.file.reader import TraceReader

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka debug`."""
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    stop = "stop behind turns of this actor with this message; either may be left out, may be given several times"
    parser.add_argument(
        "--break", dest="breakpoints", metavar="ACTOR <- MESSAGE", action="append", default=[], help=stop
    )
    parser.add_argument("--until", metavar="N", type=int, help="begin behind turn N")
    add_import(parser)
    parser.set_defaults(run=debug)


def debug(arguments: argparse.Namespace) -> int:
    """`flykka debug`; returns the exit code."""
    return run_on_trace("flykka debug", arguments.file, lambda trace: _debug(trace, arguments))


def _debug(trace: TraceReader, arguments: argparse.Namespace) -> int:
    # The actors take a second to load, which `--help` should not have to wait for.
    from flykka.replay.replayer import Replayer

    import_modules(arguments.modules)
    session = Replayer(modules=arguments.modules).session(trace)
    try:
        breakpoints = [Breakpoint.parse(text) for text in arguments.breakpoints]
        if arguments.until is not None:
            session.at(arguments.until)
    except ReplaySessionError as refusal:
        print(f"flykka debug: {refusal}", file=sys.stderr)
        return UNREADABLE
    debugger = Debugger(session, breakpoints)
    debugger.go_to_first_breakpoint()
    debugger.run()
    return DIFFERENT if debugger.has_diverged else OK
