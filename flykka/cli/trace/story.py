"""`flykka trace story`: shows everything about one checkpoint, attempt or job."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial

from rich.console import Console
from rich.text import Text

from flykka.cli.arguments import TRACE_FILE, at_least_one, describe
from flykka.cli.exit_codes import OK
from flykka.cli.trace.command import EPILOG
from flykka.cli.trace.trace_file import run_on_trace
from flykka.runtime.trace.file.reader import TraceReader
from flykka.traces.trace import story_of

_DESCRIPTION = """\
Show everything about one checkpoint, attempt or job in order: the seconds since its
start, the turn, and the event. Similar events of many tasks are one line, with the
last of them. If the trace has only one job, its story is the default.

examples:
  flykka trace story run.trace
  flykka trace story run.trace --checkpoint 7
  flykka trace story run.trace --attempt 'window (2/4)' --all
  flykka trace story run.trace --job 0c63cb
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--checkpoint", metavar="N", type=at_least_one, help="the checkpoint of this id")
    parser.add_argument("--attempt", metavar="ID", help="an attempt, by a unique part of its id or name")
    parser.add_argument("--job", metavar="ID", help="a job, or the job of the checkpoint, by the beginning of its id")
    parser.add_argument("--all", action="store_true", help="every step on its own line, including messages in flight")
    parser.add_argument("--json", action="store_true", help="print the story as one JSON object")
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    chosen = [name for name in ("checkpoint", "attempt", "job") if getattr(arguments, name) is not None]
    if len(chosen) > 1 and chosen != ["checkpoint", "job"]:
        arguments.parser.error("give only one of --checkpoint N (of --job ID), --attempt ID and --job ID")
    return run_on_trace("flykka trace story", arguments.file, partial(_story, arguments=arguments))


def _story(trace: TraceReader, arguments: argparse.Namespace) -> int:
    story = story_of(trace, checkpoint=arguments.checkpoint, attempt=arguments.attempt, job=arguments.job)
    if arguments.json:
        print(json.dumps(story.to_json(everything=arguments.all), indent=2))
    else:
        _print(story.text(everything=arguments.all))
    return OK


def _print(text: str) -> None:
    console = Console(highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        sys.stdout.write(text)
        return
    for line in text.splitlines():
        style = "red" if line.startswith("!") else "" if line.startswith(" ") else "bold"
        console.print(Text(line, style=style), soft_wrap=True)
