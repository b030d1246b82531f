"""What `flykka trace story` and `diagram` do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from flykka.cli.trace_file import OK, UNREADABLE, is_the_same_file, output_problem, run_on_trace
from flykka.runtime.trace.file.reader import TraceReader
from flykka.traces.attempt_story import attempt_story
from flykka.traces.checkpoint_story import checkpoint_story
from flykka.traces.diagram import View
from flykka.traces.drawing import HTML_LINES, MERMAID_LINES, begin_of, drawn, streamed
from flykka.traces.job_story import job_story
from flykka.traces.mermaid import mermaid
from flykka.traces.origin import shortcomings
from flykka.traces.page import page
from flykka.traces.perfetto import perfetto
from flykka.traces.story import Story
from flykka.traces.trace import of_checkpoint

if TYPE_CHECKING:
    import argparse


def story(arguments: argparse.Namespace) -> int:
    """`flykka trace story`; returns the exit code."""

    def tell(trace: TraceReader) -> int:
        told = _story(trace, arguments)
        if arguments.json:
            print(json.dumps(told.to_json(everything=arguments.all), indent=2))
        else:
            _print(told.text(everything=arguments.all))
        return OK

    return run_on_trace("flykka trace story", arguments.file, tell)


def diagram(arguments: argparse.Namespace) -> int:
    """`flykka trace diagram`; returns the exit code."""

    output = arguments.output
    if output is not None and is_the_same_file(output, arguments.file):
        print(f"flykka trace diagram: {output} is the trace itself: name another file with -o", file=sys.stderr)
        return UNREADABLE

    def draw(trace: TraceReader) -> int:
        parts = _drawing(trace, arguments)
        if output is None:
            sys.stdout.writelines(parts)
            return OK
        return _written(output, parts)

    return run_on_trace("flykka trace diagram", arguments.file, draw)


def _print(text: str) -> None:
    """On a terminal what tells of a failure is red, and what heads the rest is bold."""
    console = Console(highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        sys.stdout.write(text)
        return
    for line in text.splitlines():
        style = "red" if line.startswith("!") else "" if line.startswith(" ") else "bold"
        console.print(Text(line, style=style), soft_wrap=True)


def _written(output: str, parts: Iterable[str]) -> int:
    try:
        with Path(output).open("w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as refusal:
        print(f"flykka trace diagram: {output_problem(output, refusal)}", file=sys.stderr)
        return UNREADABLE
    print(f"drawn: {output}", file=sys.stderr)
    return OK


def _story(trace: TraceReader, arguments: argparse.Namespace) -> Story:
    if arguments.checkpoint is not None:
        return checkpoint_story(trace, arguments.checkpoint, arguments.job)
    if arguments.attempt is not None:
        return attempt_story(trace, arguments.attempt)
    return job_story(trace, arguments.job or "")


def _drawing(trace: TraceReader, arguments: argparse.Namespace) -> Iterable[str]:
    view = View(
        actors=tuple(arguments.actors),
        collapse=tuple(arguments.collapse),
        first=arguments.first,
        last=arguments.last,
    )
    concerns = None if arguments.checkpoint is None else of_checkpoint(arguments.checkpoint)
    match arguments.format:
        case "mermaid":
            return [mermaid(drawn(trace, view, most=MERMAID_LINES, concerns=concerns))]
        case "html":
            return [page(drawn(trace, view, most=HTML_LINES, concerns=concerns), Path(arguments.file).name)]
        case _:
            lines = streamed(trace, view, concerns)
            return perfetto(trace.header.system, shortcomings(trace), lines, begin_of(trace))
