"""`flykka trace story`, `diagram` and `diff`: their command lines."""

from __future__ import annotations

import argparse
import sys

from flykka.cli.arguments import at_least_one

_STORY = """\
What concerns one checkpoint, one attempt or one job, in the order in which it
came about: seconds since it began, the turn, and what happened. What many tasks
do alike is one line, with the last of them. Where the trace has one job only, the
story is of that unless you say otherwise.

examples:
  flykka trace story run.trace
  flykka trace story run.trace --checkpoint 7
  flykka trace story run.trace --attempt 'window (2/4)' --all
  flykka trace story run.trace --job 0c63cb
"""

_DIAGRAM = """\
A sequence diagram of the turns. `html` is one page that needs no network: zoom,
search, and click on a message for its fields and its causes. `mermaid` is for
Markdown, `perfetto` for https://ui.perfetto.dev.

examples:
  flykka trace diagram run.trace -o run.html --collapse heartbeats
  flykka trace diagram run.trace --format mermaid --checkpoint 7
  flykka trace diagram run.trace --format perfetto -o run.json
"""

_DIFF = """\
Compares two runs actor by actor: what it was told, by whom, and what it did. When
that was, and how the turns of different actors lay between each other, is no
difference; neither is an id, as long as it is another one throughout.

examples:
  flykka trace diff a.trace b.trace --without heartbeats --without metrics
  flykka trace diff a.trace b.trace --ignore path --ignore files
"""

_SEVERAL = "may be given several times"


def add_story(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Add `trace story`."""
    raw = argparse.RawDescriptionHelpFormatter
    story = commands.add_parser(
        "story", help="what concerns a checkpoint, an attempt or a job", description=_STORY, epilog=epilog,
        formatter_class=raw,
    )  # fmt: skip
    story.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    story.add_argument("--checkpoint", metavar="N", type=at_least_one, help="the checkpoint of this id")
    story.add_argument("--attempt", metavar="ID", help="an attempt: a text that only its id or name has in it")
    story.add_argument("--job", metavar="ID", help="a job, or whose checkpoint it is: its id, or how that begins")
    story.add_argument("--all", action="store_true", help="every step on its own line, messages on their way too")
    story.add_argument("--json", action="store_true", help="the story as one JSON object")
    story.set_defaults(run=_story, parser=story)


def add_diagram(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Add `trace diagram`."""
    raw = argparse.RawDescriptionHelpFormatter
    diagram = commands.add_parser(
        "diagram", help="a sequence diagram", description=_DIAGRAM, epilog=epilog, formatter_class=raw
    )
    diagram.add_argument("file", metavar="FILE", help="a trace; an address such as s3://bucket/run.trace too")
    diagram.add_argument("--format", choices=("html", "mermaid", "perfetto"), default="html", help="default: html")
    diagram.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: standard output)")
    actors = f"only what these actors were told, and told others; * and ? stand for any text; {_SEVERAL}"
    diagram.add_argument("--actors", metavar="PATH", nargs="+", action="extend", default=[], help=actors)
    collapse = "not one by one: heartbeats, metrics, credits, or messages of this class or tag"
    diagram.add_argument(
        "--collapse", metavar="TYPE", nargs="+", action="extend", default=[], help=f"{collapse}; {_SEVERAL}"
    )
    diagram.add_argument("--from", dest="first", metavar="N", type=int, help="only turns from number N on")
    diagram.add_argument("--to", dest="last", metavar="N", type=int, help="only turns up to number N")
    diagram.add_argument("--checkpoint", metavar="N", type=at_least_one, help="only what concerns this checkpoint")
    diagram.set_defaults(run=_diagram, parser=diagram)


def add_diff(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Add `trace diff`."""
    raw = argparse.RawDescriptionHelpFormatter
    diff = commands.add_parser(
        "diff", help="where two runs first differ", description=_DIFF, epilog=epilog, formatter_class=raw
    )
    diff.add_argument("file", metavar="A", help="a trace; an address such as s3://bucket/run.trace too")
    diff.add_argument("other", metavar="B", help="the trace to compare it with")
    diff.add_argument("--actor", metavar="PATH", help="compare only this actor; * and ? stand for any text")
    without = f"not heartbeats, metrics, credits, or messages of this class or tag; {_SEVERAL}"
    diff.add_argument("--without", metavar="TYPE", action="append", default=[], help=without)
    ignore = f"not the fields of this name; * and ? stand for any text; {_SEVERAL}"
    diff.add_argument("--ignore", metavar="FIELD", action="append", default=[], help=ignore)
    diff.add_argument("--strict", action="store_true", help="times, ids and incarnations as well")
    diff.add_argument("--json", action="store_true", help="what was found, as one JSON object")
    diff.set_defaults(run=_diff)


def _story(arguments: argparse.Namespace) -> int:
    chosen = [name for name in ("checkpoint", "attempt", "job") if getattr(arguments, name) is not None]
    if len(chosen) > 1 and chosen != ["checkpoint", "job"]:
        arguments.parser.error("a story is of one thing: --checkpoint N (of --job ID), --attempt ID, or --job ID")
    from flykka.cli.trace_view_commands import story

    return story(arguments)


def _diagram(arguments: argparse.Namespace) -> int:
    if arguments.output is None and arguments.format != "mermaid" and sys.stdout.isatty():
        arguments.parser.error(f"{arguments.format} is not for a terminal: say where to write it with -o FILE")
    from flykka.cli.trace_view_commands import diagram

    return diagram(arguments)


def _diff(arguments: argparse.Namespace) -> int:
    from flykka.cli.trace_diff import diff

    return diff(arguments)
