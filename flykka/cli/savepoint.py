"""`flykka savepoint`: what is in a savepoint, and whether an app can start from it."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_no_cache, at_least_one

_EPILOG = """\
PATH is the folder of a savepoint or of a checkpoint, or its _metadata file; an
address such as s3://bucket/savepoints/savepoint-ab12cd-1f03a9c2-1 too.

exit codes:
  0  all is well
  1  it cannot be read, is not whole, or does not fit the app
  2  the command line is wrong
"""

_DESCRIPTION = """\
A savepoint is a folder that holds all the state of a job, and may be moved.
`client.trigger_savepoint()` takes one while the job goes on, and
`flykka run --savepoint-dir DIR` takes one when it is stopped with Ctrl-C. Start a job
from it with `flykka run APP.py --from-savepoint PATH`.
"""

_EXAMPLES = """\
examples:
  flykka savepoint inspect savepoints/savepoint-ab12cd-1f03a9c2-1
  flykka savepoint check savepoints/savepoint-ab12cd-1f03a9c2-1 delays.py
  flykka savepoint check checkpoints/<job id>/chk-7 delays.py --parallelism 4
  flykka savepoint inspect --json checkpoints/<job id>/chk-7 | jq .operators
"""

_INSPECT = """\
Which job it is of, and when it was taken; per operator its uid and name, how
parallel it ran, what state it has, of which schema and size. Nothing is started.
"""

_CHECK = """\
A dry run: the app is run until it wants to execute its first job, which is held
against the savepoint, operator by operator, and not started. An operator is
matched, added, removed, renamed (another uid than that of state which looks like
its own) or incompatible (another kind, other windows, keys or aggregates, another
maximum parallelism). The same is looked at by `flykka run --from-savepoint`.

An app that `flykka plan` or this command has seen before is not run again as long
as nothing has changed that it is known to read (see `flykka plan --help`); stderr
says so, and --no-cache looks again. A run never rests on it.
"""

_USAGE = "flykka savepoint check PATH APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]"


def add_savepoint_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `savepoint inspect` and `savepoint check`. The function to call with the arguments is their `run`."""
    raw = argparse.RawDescriptionHelpFormatter
    savepoint = subparsers.add_parser(
        "savepoint",
        help="look into savepoints and checkpoints, and hold them against an app",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLES}\n{_EPILOG}",
        formatter_class=raw,
    )
    commands = savepoint.add_subparsers(title="commands", metavar="COMMAND", required=True)

    inspect = commands.add_parser(
        "inspect", help="what is in it", description=_INSPECT, epilog=_EPILOG, formatter_class=raw
    )
    inspect.add_argument("path", metavar="PATH", help="the savepoint")
    inspect.add_argument("--json", action="store_true", help="everything, as one JSON object")
    inspect.set_defaults(run=_inspect)

    check = commands.add_parser(
        "check",
        help="whether an app can start from it",
        usage=_USAGE,
        description=_CHECK,
        epilog=_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    check.add_argument("path", metavar="PATH", help="the savepoint")
    check.add_argument("app", metavar="APP.py", help="the script")
    check.add_argument(
        "-n",
        "--allow-non-restored-state",
        action="store_true",
        help="state of operators that the job does not have may be dropped",
    )
    check.add_argument("--parallelism", metavar="N", type=at_least_one, help="as for `flykka run`")
    check.add_argument("--master", metavar="URL", help="as for `flykka run`")
    add_no_cache(check)
    check.add_argument("--json", action="store_true", help="everything, as one JSON object")
    check.set_defaults(run=_check, arguments=[], parser=check)


def _inspect(arguments: argparse.Namespace) -> int:
    # Imported when it is wanted: `flykka --help` is to be there at once.
    from flykka.cli.savepoint_commands import inspect

    return inspect(arguments.path, as_json=arguments.json)


def _check(arguments: argparse.Namespace) -> int:
    from flykka.cli.app import App

    app = App(arguments.app, arguments.arguments)
    if (problem := app.problem()) is not None:
        arguments.parser.error(problem)
    from flykka.cli.savepoint_check import check
    from flykka.cluster.launch import LaunchOptions

    options = LaunchOptions(
        master=arguments.master,
        parallelism=arguments.parallelism,
        allow_non_restored_state=arguments.allow_non_restored_state,
    )
    return check(arguments.path, app, options, as_json=arguments.json, cached=not arguments.no_cache)
