"""`flykka trace`: what actors did, read from a trace. No Spark is needed for it, and none is loaded."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import at_least_one
from flykka.cli.trace_check import add_check
from flykka.cli.trace_views import add_diagram, add_diff, add_story

_EPILOG = """\
exit codes:
  0  read, to the last whole record where the file is cut off
  1  two runs are not the same
  2  there is no such file, it is no trace, a newer flykka wrote it, it is
     damaged, or it has nothing of what was asked for
  3  an error of this command itself
"""

_SHOW = """\
One line per turn: its number, the seconds since the trace began, the actor, what
it was told, by whom (and in which turn), and what came of it. Failures are red.
Elsewhere than on a terminal the lines are plain, for grep.

examples:
  flykka trace show run.trace --actor '*checkpoint-coordinator'
  flykka trace show run.trace --type '*Checkpoint*' --from 1000 --limit 50
  flykka trace show run.trace --without heartbeats --without metrics
  flykka trace show run.trace --json | jq 'select(.failure)'
"""

_STATS = """\
When and by which version it was recorded, how many turns were taken, which
messages and actors there were, which messages waited longest, checkpoints,
failures, dead letters and kills.
"""


def add_trace_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of `trace`. Their `run` is to be called with the arguments."""
    raw = argparse.RawDescriptionHelpFormatter
    text = "read traces: what every actor was told, and what it did"
    trace = subparsers.add_parser(
        "trace", help=text, description=f"{text.capitalize()}.", epilog=_EPILOG, formatter_class=raw
    )
    commands = trace.add_subparsers(title="commands", metavar="COMMAND", required=True)

    show = commands.add_parser("show", help="a table of turns", description=_SHOW, epilog=_EPILOG, formatter_class=raw)
    show.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    show.add_argument("--actor", metavar="PATH", help="only turns of this actor; * and ? stand for any text")
    show.add_argument("--type", metavar="TYPE", help="only messages of this class or tag; * and ? stand for any text")
    without = "no heartbeats, metrics, credits, or messages of this class or tag; may be given several times"
    show.add_argument("--without", metavar="TYPE", action="append", default=[], help=without)
    show.add_argument("--from", dest="first", metavar="N", type=int, help="only turns from number N on")
    show.add_argument("--to", dest="last", metavar="N", type=int, help="only turns up to number N")
    show.add_argument("--limit", metavar="N", type=at_least_one, help="at most N turns")
    show.add_argument("--json", action="store_true", help="whole records, one JSON object per line")
    show.set_defaults(run=_show)

    stats = commands.add_parser(
        "stats", help="what it amounts to", description=_STATS, epilog=_EPILOG, formatter_class=raw
    )
    stats.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    stats.add_argument("--json", action="store_true", help="everything, as one JSON object")
    stats.set_defaults(run=_stats)
    add_story(commands, _EPILOG)
    add_diagram(commands, _EPILOG)
    add_diff(commands, _EPILOG)
    add_check(commands)


def _show(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.trace_commands import show

    return show(arguments)


def _stats(arguments: argparse.Namespace) -> int:
    from flykka.cli.trace_commands import stats

    return stats(arguments)
