"""`flykka simulate`: its options, and what its help says."""

from __future__ import annotations

import argparse
from pathlib import Path

from flykka.cli.arguments import at_least_one
from flykka.simulation.settings import ALL_FAULTS, FaultKind

_DESCRIPTION = """\
Runs whole clusters in virtual time, on one thread each and without Spark: the actors
are the product's own, the rows are real and few. A seed draws a job (sources, forks,
unions, windows, sinks), its settings, the order in which everything happens, and
faults. Then it is looked at whether every row is in the output exactly once, whether
anything that was not committed was ever seen, whether anything is left behind, and
whether the job came to its end; monitors watch every turn.
"""

_FAULTS = """\
faults:
  delay      an actor pauses for a while
  loss       a message is lost that the protocol can do without, such as a heartbeat
  duplicate  such a message comes twice
  crash      a TaskManager dies
  kill       a task dies, or its bridge
  stage      a stage of the data plane fails
  slow       a stage takes seconds
  storage    the storage fails for a while: writing, finalising or discarding
  timer      a timer is lost that can be done without
  clock      the clock goes forward at once
  master     the JobMaster dies, or the ResourceManager
  request    a client cancels, stops, drains, or wants a savepoint
"""

_EPILOG = f"""\
{_FAULTS}
examples:
  flykka simulate                               a thousand seeds
  flykka simulate --seed 4711                   one of them again: the same run
  flykka simulate --faults crash,storage --seeds 200
  flykka simulate --from-seed 1000 --jobs 4 --record failed/

exit codes:
  0  nothing was wrong
  1  something was; the seeds are named, with the commands that run them again
  2  the command line is wrong, or a trace cannot be written
  3  an error of this command itself
"""


def add_simulate_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `simulate`. The function to call with the arguments is their `run`."""
    parser = subparsers.add_parser(
        "simulate",
        help="run whole clusters in virtual time, with faults drawn from seeds",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=at_least_one, default=1_000, metavar="N", help="how many (default: 1000)")
    which.add_argument("--seed", type=_seed, metavar="N", help="this one only")
    parser.add_argument("--from-seed", type=_seed, metavar="N", help="the first one (default: 0)")
    parser.add_argument(
        "--faults",
        type=faults_of,
        default=ALL_FAULTS,
        metavar="KIND[,KIND...]",
        help="what may go wrong: kinds of faults, 'all' (default) or 'none'",
    )
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep the traces of failing seeds in this folder")
    parser.add_argument(
        "-j", "--jobs", type=at_least_one, default=1, metavar="N", help="run so many seeds at a time (default: 1)"
    )
    parser.add_argument("--digest", action="store_true", help="print a digest of all turns of each seed")
    parser.add_argument("--json", action="store_true", help="print the summary, and each failing seed, as JSON")
    parser.set_defaults(run=_run, parser=parser)


def faults_of(text: str) -> frozenset[FaultKind]:
    """The kinds of faults that a text names. Raises `ArgumentTypeError` for one that is none."""
    if text in ("all", "none"):
        return ALL_FAULTS if text == "all" else frozenset()
    kinds = {kind.value: kind for kind in FaultKind}
    words = text.split(",")
    unknown = [word for word in words if word not in kinds]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no fault {unknown[0]!r}; there are {', '.join(kinds)}, and 'all' and 'none' for themselves"
        )
    return frozenset(kinds[word] for word in words)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0, not {text!r}")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.seed is not None and arguments.from_seed is not None:
        arguments.parser.error("--from-seed says where many begin: give --seed N, or --from-seed N with --seeds N")
    from flykka.cli.simulate_command import run

    return run(arguments)
