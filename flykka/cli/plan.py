"""`flykka plan`: runs an app up to its first `execute`, and displays the job that it would execute."""

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
Draw an app's first job without running it: the operators as they are defined (stream
graph), the tasks to which they are chained (job graph), and the subtasks in their
slots (execution graph).

The app runs up to its first execute(). Its output goes to stderr. Spark is started,
because sources and operators are checked when they are defined.

Plans are cached: the next time the plan is drawn in a second without running the
app, and a note on stderr says so. A cached plan is used as long as the app, its
arguments, the modules that it imports, the files that it opens, the environment
variables named in these and the installed packages are the same; a plan for which
Spark has read data, for example to infer a schema, is not cached. Other inputs of an
app (the clock, a database, the existence of a path) are not noticed: use --no-cache.
`flykka run` never uses a cached plan. Plans are in $FLYKKA_CACHE_DIR, else in flykka/
below $XDG_CACHE_HOME, else in ~/.cache/flykka, and may be deleted at any time.
"""

_EPILOG = """\
examples:
  flykka plan delays.py
  flykka plan delays.py --parallelism 4 --graph job --graph execution
  flykka plan delays.py --format html --output plan.html
  flykka plan delays.py --format json flights/ | jq .nodes

exit codes:
  0    the plan was drawn
  1    the app raised an error, or executes no job
  2    the command line is wrong
  An app that calls sys.exit(N) before it executes a job ends with N, if that is not 0.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    usage = "flykka plan APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]"
    describe(parser, _DESCRIPTION, _EPILOG, usage=usage, allow_abbrev=False)
    parser.set_defaults(run=_plan, arguments=[], parser=parser)
    parser.add_argument("app", metavar="APP.py", help="the script")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="text for the terminal (default), or a file format"
    )
    parser.add_argument(
        "--graph", choices=GRAPHS, action="append", help="draw only this one; may be repeated (default: all three)"
    )
    parser.add_argument("--output", metavar="FILE", help="write to a file (default: print)")
    add_option(parser, OPTIONS["master"])
    add_option(parser, OPTIONS["parallelism"])
    add_config(parser)
    add_no_cache(parser)
    parser.add_argument("--verbose", action="store_true", help="show errors with all their frames and Spark's traces")


def _plan(options: argparse.Namespace) -> int:
    job = first_job(app_of(options), launch_options(options), verbose=options.verbose, cached=not options.no_cache)
    if isinstance(job, int):
        return job
    graphs = tuple(graph for graph in GRAPHS if graph in (options.graph or GRAPHS))
    return _drawn(*job, graphs=graphs, form=options.format, output=options.output)


def _drawn(plan: ProgramPlan, job_graph: JobGraph, *, graphs: Sequence[str], form: str, output: str | None) -> int:
    if form == "text" and output is None:
        with lasting_output():
            RichConsole(force_jupyter=False).print(rendered(plan, graphs))
        return OK
    text = _text(plan, job_graph, graphs, form)
    if output is None:
        print(text, end="")
        return OK
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as refused:
        return fail(f"flykka: {output} cannot be written: {refused.strerror}", FAILED)
    return OK


def _text(plan: ProgramPlan, job_graph: JobGraph, graphs: Sequence[str], form: str) -> str:
    match form:
        case "json":
            return json.dumps(document(plan, job_graph), indent=2) + "\n"
        case "mermaid":
            return mermaid(plan, graphs)
        case "html":
            return page(plan, graphs)
        case _:
            # The file has no colours and a fixed width, because any program may display it.
            buffer = StringIO()
            RichConsole(file=buffer, width=100, force_terminal=False, no_color=True).print(rendered(plan, graphs))
            return buffer.getvalue()
