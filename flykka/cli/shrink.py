"""`flykka shrink`: its options, and what its help says."""

from __future__ import annotations

import argparse
from pathlib import Path

from flykka.cli.arguments import at_least_one
from flykka.cli.simulate import faults_of
from flykka.simulation.settings import ALL_FAULTS

_DESCRIPTION = """\
Makes a simulation that fails smaller: jobs, faults, vertices, rows and settings are
taken away, one after the other, as long as the same law is broken. What is left can
be read, and written as a test that needs nothing but flykka. Ctrl-C ends the search
with what is found by then.
"""

_EPILOG = """\
examples:
  flykka shrink 4711                                    what `flykka simulate --seed 4711` has found
  flykka shrink 4711 --faults crash,storage             ... with --faults crash,storage
  flykka shrink failed/seed-4711.trace                  what a kept trace tells of
  flykka shrink 4711 --emit-test tests/histories/       and write a test of it

exit codes:
  0  nothing is wrong: there is nothing to make smaller
  1  something is wrong, and this is what it takes
  2  the command line is wrong, the file is no trace of a simulation, or the test cannot be written
  3  an error of this command itself
"""
DEFAULT_RUNS = 600


def add_shrink_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `shrink`. The function to call with the arguments is their `run`."""
    parser = subparsers.add_parser(
        "shrink",
        help="make a simulation that fails smaller, and a test of it",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("what", metavar="SEED|FILE", help="a seed, or the trace of a simulation")
    parser.add_argument(
        "--faults",
        type=faults_of,
        default=ALL_FAULTS,
        metavar="KIND[,KIND...]",
        help="what the seed was simulated with: kinds of faults, 'all' (default) or 'none'",
    )
    parser.add_argument("--emit-test", type=Path, metavar="DIR", help="write a test into this folder")
    parser.add_argument(
        "--runs", type=at_least_one, default=DEFAULT_RUNS, metavar="N", help=f"at most N runs (default: {DEFAULT_RUNS})"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.shrink_command import run

    return run(arguments)
