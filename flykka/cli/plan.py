"""`flykka plan`: an app up to its first `execute`, and what would be executed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console as RichConsole

from flykka.cli.app import App
from flykka.cli.exit_codes import FAILED, OK
from flykka.cli.first_job import first_job
from flykka.cluster.launch import LaunchOptions
from flykka.console.output import lasting_output
from flykka.messages.graph.job_graph import JobGraph
from flykka.plan.document import document
from flykka.plan.mermaid import mermaid
from flykka.plan.page import page
from flykka.plan.program_plan import ProgramPlan
from flykka.plan.terminal import rendered


def plan(
    app: App,
    options: LaunchOptions,
    *,
    graphs: Sequence[str],
    form: str,
    output: str | None,
    verbose: bool,
    cached: bool,
) -> int:
    """Draw what the app's first job would be; the exit code."""
    made = first_job(app, options, verbose=verbose, cached=cached)
    if isinstance(made, int):
        return made
    return _drawn(*made, graphs=graphs, form=form, output=output)


def _drawn(made: ProgramPlan, job_graph: JobGraph, *, graphs: Sequence[str], form: str, output: str | None) -> int:
    if form == "text" and output is None:
        with lasting_output():
            RichConsole(force_jupyter=False).print(rendered(made, graphs))
        return OK
    text = _text(made, job_graph, graphs, form)
    if output is None:
        print(text, end="")
        return OK
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as refused:
        print(f"flykka: {output} cannot be written: {refused.strerror}", file=sys.stderr)
        return FAILED
    return OK


def _text(made: ProgramPlan, job_graph: JobGraph, graphs: Sequence[str], form: str) -> str:
    match form:
        case "json":
            return json.dumps(document(made, job_graph), indent=2) + "\n"
        case "mermaid":
            return mermaid(made, graphs)
        case "html":
            return page(made, graphs)
        case _:
            # A file is read by who knows what: no colours, and the width of a page.
            written = StringIO()
            RichConsole(file=written, width=100, force_terminal=False, no_color=True).print(rendered(made, graphs))
            return written.getvalue()
