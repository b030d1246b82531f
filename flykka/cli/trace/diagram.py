"""`flykka trace diagram`: draws the turns of a trace as a sequence diagram."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from flykka.cli.arguments import TRACE_FILE, at_least_one, describe
from flykka.cli.exit_codes import OK, UNREADABLE, fail
from flykka.cli.trace.command import EPILOG, SEVERAL
from flykka.cli.trace.trace_file import is_the_same_file, output_problem, run_on_trace
from flykka.runtime.trace.file.reader import TraceReader
from flykka.traces.diagram import HTML_LINES, MERMAID_LINES, View, diagram_of, stream_lines
from flykka.traces.mermaid import mermaid
from flykka.traces.origin import begin_of, shortcomings
from flykka.traces.page import diagram_page
from flykka.traces.perfetto import perfetto

_DESCRIPTION = """\
Draw the turns as a sequence diagram. `html` is a page that works offline: zoom,
search, and click on a message for its fields and causes. `mermaid` is for Markdown,
`perfetto` for https://ui.perfetto.dev.

examples:
  flykka trace diagram run.trace -o run.html --collapse heartbeats
  flykka trace diagram run.trace --format mermaid --checkpoint 7
  flykka trace diagram run.trace --format perfetto -o run.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--format", choices=("html", "mermaid", "perfetto"), default="html", help="default: html")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    actors = f"only messages to and from these actors; * and ? stand for any text; {SEVERAL}"
    parser.add_argument("--actors", metavar="PATH", nargs="+", action="extend", default=[], help=actors)
    collapse = "summarize heartbeats, metrics, credits, or messages of this class or tag"
    parser.add_argument(
        "--collapse", metavar="TYPE", nargs="+", action="extend", default=[], help=f"{collapse}; {SEVERAL}"
    )
    parser.add_argument("--from", dest="first", metavar="N", type=int, help="only turns from number N on")
    parser.add_argument("--to", dest="last", metavar="N", type=int, help="only turns up to number N")
    parser.add_argument("--checkpoint", metavar="N", type=at_least_one, help="only messages about this checkpoint")
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    output = arguments.output
    if output is None and arguments.format != "mermaid" and sys.stdout.isatty():
        arguments.parser.error(f"{arguments.format} is not for a terminal: write it to a file with -o FILE")
    if output is not None and is_the_same_file(output, arguments.file):
        return fail(f"flykka trace diagram: {output} is the trace itself: name another file with -o", UNREADABLE)
    return run_on_trace("flykka trace diagram", arguments.file, partial(_diagram, arguments=arguments))


def _diagram(trace: TraceReader, arguments: argparse.Namespace) -> int:
    parts = _drawing(trace, arguments)
    if arguments.output is not None:
        return _write(arguments.output, parts)
    sys.stdout.writelines(parts)
    return OK


def _write(output: str, parts: Iterable[str]) -> int:
    try:
        with Path(output).open("w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as refusal:
        return fail(f"flykka trace diagram: {output_problem(output, refusal)}", UNREADABLE)
    print(f"drawn: {output}", file=sys.stderr)
    return OK


def _drawing(trace: TraceReader, arguments: argparse.Namespace) -> Iterable[str]:
    view = View(
        actors=tuple(arguments.actors),
        collapse=tuple(arguments.collapse),
        first=arguments.first,
        last=arguments.last,
        checkpoint=arguments.checkpoint,
    )
    match arguments.format:
        case "mermaid":
            return [mermaid(diagram_of(trace, view, most=MERMAID_LINES))]
        case "html":
            return [diagram_page(diagram_of(trace, view, most=HTML_LINES), Path(arguments.file).name)]
        case _:
            return perfetto(trace.header.system, shortcomings(trace), stream_lines(trace, view), begin_of(trace))
