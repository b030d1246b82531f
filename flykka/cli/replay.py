"""`flykka replay`: recorded runs, taken again and compared. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_import, at_least_one

_DESCRIPTION = """\
Take every turn of a recorded run again, in the recorded order, and compare what
each actor does with what it did. The first difference is told with its fields,
its line of code and the chain of its causes. Needs no Spark, no Java, no data
and no app: what these said is in the trace.
"""

_EPILOG = """\
examples:
  flykka replay run.trace
  flykka replay run.trace --actor /user/job-1/checkpoint-coordinator
  flykka replay run.trace --import shop.messages
  flykka replay histories/*.trace --junit replay.xml

exit codes:
  0  everything that was replayed is as recorded
  1  a run is not as recorded
  2  a file cannot be read or written, or is damaged (what comes before that was
     replayed), nothing of a run could be replayed, or a recorded message cannot
     be read here
  3  an error of this command itself
"""


def add_replay_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `replay`. The function to call with the arguments is their `run`."""
    replay = subparsers.add_parser(
        "replay",
        help="take a recorded run again, and compare",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    replay.add_argument(
        "files", metavar="FILE", nargs="+", help="a trace; an address such as s3://bucket/run.trace too"
    )
    replay.add_argument("--actor", metavar="PATH", help="only this actor; * and ? stand for any text")
    replay.add_argument("--until", metavar="N", type=at_least_one, help="only turns up to number N")
    add_import(replay)
    form = replay.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything, as one JSON object")
    form.add_argument("--junit", metavar="FILE", help="write the results to this file too, as JUnit's XML")
    replay.set_defaults(run=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.replay_command import replay

    return replay(arguments)
