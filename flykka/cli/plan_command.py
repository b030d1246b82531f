"""The arguments of `flykka plan`: what they are called, what is said about them, and what is wrong with them."""

from __future__ import annotations

import argparse

from flykka.cli.app import App
from flykka.cli.arguments import add_no_cache, at_least_one
from flykka.cluster.launch import LaunchOptions

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


def add_plan_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add `plan`. The function to call with the arguments is their `run`; `arguments` are those of the app."""
    parser = subparsers.add_parser(
        "plan",
        help="draw the graphs of an app's job, without running it",
        usage="flykka plan APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=_perform, arguments=[], parser=parser)
    parser.add_argument("app", metavar="APP.py", help="the script")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="text for the terminal (default), or one to keep"
    )
    parser.add_argument(
        "--graph", choices=GRAPHS, action="append", help="draw this one only; may be given again (default: all three)"
    )
    parser.add_argument("--output", metavar="FILE", help="write to a file (default: print)")
    parser.add_argument("--master", metavar="URL", help="where Spark runs (default: what the app says, else local[*])")
    parser.add_argument(
        "--parallelism",
        metavar="N",
        type=at_least_one,
        help="of every operator that has none of its own (default: what the app says, else 1)",
    )
    add_no_cache(parser)
    parser.add_argument("--verbose", action="store_true", help="show errors with all their frames and Spark's traces")
    return parser


def _perform(options: argparse.Namespace) -> int:
    app = App(options.app, options.arguments)
    if (problem := app.problem()) is not None:
        options.parser.error(problem)
    launch = LaunchOptions(master=options.master, parallelism=options.parallelism)
    graphs = tuple(graph for graph in GRAPHS if graph in (options.graph or GRAPHS))
    # What follows takes a while to load, and a wrong command line should not have to wait for it.
    from flykka.cli.plan import plan

    return plan(
        app,
        launch,
        graphs=graphs,
        form=options.format,
        output=options.output,
        verbose=options.verbose,
        cached=not options.no_cache,
    )
