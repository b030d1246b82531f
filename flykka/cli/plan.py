"""`flykka plan`: an app up to its first `execute`, and what would be executed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console as RichConsole

from flykka.api.configuration.options import OPTIONS
from flykka.cli.arguments import add_no_cache, describe
from flykka.cli.dry_run.first_job import first_job
from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.cli.launch_options import add_config, add_option, launch_options
from flykka.cli.run.app import app_of
from flykka.console.output import lasting_output
from flykka.messages.graph.job_graph import JobGraph
from flykka.views.plan.document import document
from flykka.views.plan.mermaid import mermaid
from flykka.views.plan.page import page
from flykka.views.plan.program_plan import ProgramPlan
from flykka.views.plan.terminal import rendered

GRAPHS = ("stream", "job", "execution")
FORMATS = ("text", "json", "mermaid", "html")

_DESCRIPTION = """\
Draw what an app's first job would be, and do not run it: the operators as they are
written (stream graph), the tasks that they are chained to (job graph), and the
subtasks in their slots (execution graph).

The app runs up to its first execute(). What it prints goes to stderr. Spark is
started, for sources and operators are tried when they are written down.

A plan that was drawn before is drawn again without running the app, in a second,
and stderr says so. It is the same plan as long as the app, its arguments, the
modules that it imports, the files that it opens, the environment variables that
these name and the installed packages are the same; a plan for which Spark has read
data, to infer a schema say, is not kept. What else an app may look at (the clock, a
database, whether a path is there) is not noticed: --no-cache looks again. `flykka
run` never uses a kept plan. They are in $FLYKKA_CACHE_DIR, else in flykka/ below
$XDG_CACHE_HOME, else in ~/.cache/flykka, and may be removed at any time.
"""

_EPILOG = """\
examples:
  flykka plan delays.py
  flykka plan delays.py --parallelism 4 --graph job --graph execution
  flykka plan delays.py --format html --output plan.html
  flykka plan delays.py --format json flights/ | jq .nodes

exit codes:
  0    the plan was drawn
  1    the app has raised an error, or executes no job
  2    the command line is wrong
  An app that calls sys.exit(N) before it executes a job ends with N, if that is not 0.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    usage = "flykka plan APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]"
    describe(parser, _DESCRIPTION, _EPILOG, usage=usage, allow_abbrev=False)
    parser.set_defaults(run=_plan, arguments=[], parser=parser)
    parser.add_argument("app", metavar="APP.py", help="the script")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="text for the terminal (default), or one to keep"
    )
    parser.add_argument(
        "--graph", choices=GRAPHS, action="append", help="draw this one only; may be given again (default: all three)"
    )
    parser.add_argument("--output", metavar="FILE", help="write to a file (default: print)")
    add_option(parser, OPTIONS["master"])
    add_option(parser, OPTIONS["parallelism"])
    add_config(parser)
    add_no_cache(parser)
    parser.add_argument("--verbose", action="store_true", help="show errors with all their frames and Spark's traces")


def _plan(options: argparse.Namespace) -> int:
    made = first_job(app_of(options), launch_options(options), verbose=options.verbose, cached=not options.no_cache)
    if isinstance(made, int):
        return made
    graphs = tuple(graph for graph in GRAPHS if graph in (options.graph or GRAPHS))
    return _drawn(*made, graphs=graphs, form=options.format, output=options.output)


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
        return fail(f"flykka: {output} cannot be written: {refused.strerror}", FAILED)
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
            # A file may be read anywhere: no colours, and the width of a page.
            written = StringIO()
            RichConsole(file=written, width=100, force_terminal=False, no_color=True).print(rendered(made, graphs))
            return written.getvalue()
