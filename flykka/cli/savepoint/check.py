"""`flykka savepoint check`: compares an app with a savepoint without running its job."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from flykka.api.configuration.options import OPTIONS
from flykka.cli.arguments import add_no_cache, describe
from flykka.cli.dry_run.first_job import first_job
from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.cli.launch_options import add_config, add_option, launch_options
from flykka.cli.run.app import app_of
from flykka.cli.savepoint.command import EPILOG
from flykka.client.checkpoints import compatibility, find_checkpoint
from flykka.client.state_compatibility import OperatorMatch, StateCompatibility
from flykka.console.output import lasting_output
from flykka.errors import CheckpointError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.graph.job_graph import JobGraph
from flykka.views.text.formats import NOTHING, format_bytes

_STYLES = {
    OperatorMatch.MATCHED: "green",
    OperatorMatch.ADDED: "cyan",
    OperatorMatch.REMOVED: "yellow",
    OperatorMatch.RENAMED: "yellow",
    OperatorMatch.INCOMPATIBLE: "bold red",
}


_DESCRIPTION = """\
Run the app up to the execution of its first job, and compare the job with the
savepoint, operator by operator, without starting it. An operator is matched, added,
removed, renamed (the uid differs from that of similar state) or incompatible (another
kind, other windows or keys, a state or aggregate of another type, another maximum
parallelism). States and aggregates may be added, removed, or get a wider type: the
conversion of stored ones is shown. `flykka run --from-savepoint` makes the same
checks.

If the plan of the app is cached, the app does not run (see `flykka plan --help`); a
note on stderr says so, and --no-cache runs it. `flykka run` never uses the cache.
"""

_USAGE = "flykka savepoint check PATH APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]"


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG, usage=_USAGE, allow_abbrev=False)
    parser.add_argument("path", metavar="PATH", help="the savepoint")
    parser.add_argument("app", metavar="APP.py", help="the script")
    for name in ("allow_non_restored_state", "parallelism", "master"):
        add_option(parser, OPTIONS[name])
    add_config(parser)
    add_no_cache(parser)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=_check, arguments=[], parser=parser)


def _check(arguments: argparse.Namespace) -> int:
    app = app_of(arguments)
    options = launch_options(arguments, without=("allow_non_restored_state",))
    try:
        # The savepoint is read first because that takes no time, while running an app takes seconds.
        checkpoint = find_checkpoint(arguments.path, "")
    except CheckpointError as unreadable:
        return fail(f"flykka savepoint: {unreadable}", FAILED)
    job = first_job(app, options, cached=not arguments.no_cache)
    if isinstance(job, int):
        return job
    _, job_graph = job
    return _verdict(checkpoint, job_graph, may_drop=bool(arguments.allow_non_restored_state), as_json=arguments.json)


def _verdict(checkpoint: CompletedCheckpoint, job_graph: JobGraph, *, may_drop: bool, as_json: bool) -> int:
    compared = compatibility(checkpoint, job_graph, allow_non_restored_state=may_drop)
    if as_json:
        heading = {"savepoint": checkpoint.path, "job": job_graph.name, "can_start": not compared.problems}
        print(json.dumps({**heading, **asdict(compared)}, indent=2))
    else:
        with lasting_output():
            _show(RichConsole(force_jupyter=False), checkpoint, job_graph, compared)
    return FAILED if compared.problems else OK


def _show(
    output: RichConsole, checkpoint: CompletedCheckpoint, job_graph: JobGraph, compared: StateCompatibility
) -> None:
    output.print(_table(compared))
    for problem in compared.problems:
        output.print(Text(f"- {problem}"), soft_wrap=True)
    for setting in compared.settings:
        output.print(Text(f"- {setting}: the job would mix results of both settings"), soft_wrap=True)
    outcome = "cannot start" if compared.problems else "can start"
    counts = ((len(compared.operators_with(match)), match) for match in OperatorMatch)
    summary = ", ".join(f"{count} {match}" for count, match in counts if count)
    output.print(Text(f"job {job_graph.name!r} {outcome} from {checkpoint.path}: {summary}"), soft_wrap=True)


def _table(compared: StateCompatibility) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "uid", "name"):
        table.add_column(column, overflow="fold")
    table.add_column("state", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for operator in compared.operators:
        former = operator.former_uid
        hint = [f"probably the state of {former}: to restore it, set uid({former!r})"] if former else []
        remark = "; ".join([*hint, *operator.changes])
        table.add_row(
            Text(operator.match, style=_STYLES[operator.match]),
            Text(operator.uid or (NOTHING if operator.name else f"id {operator.operator_id}")),
            Text(operator.name or NOTHING),
            NOTHING if operator.state_bytes is None else format_bytes(operator.state_bytes),
            Text(remark),
        )
    return table
