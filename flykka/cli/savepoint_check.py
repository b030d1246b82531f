"""`flykka savepoint check`: an app held against a savepoint before anything of it runs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from flykka.cli.app import App
from flykka.cli.exit_codes import FAILED, OK
from flykka.cli.first_job import first_job
from flykka.client.checkpoints import compatibility, find_checkpoint
from flykka.client.state_compatibility import OperatorMatch, StateCompatibility
from flykka.cluster.launch import LaunchOptions
from flykka.console.formats import NOTHING, format_bytes
from flykka.console.output import lasting_output
from flykka.errors import CheckpointError

if TYPE_CHECKING:
    from flykka.messages.checkpointing.metadata import CompletedCheckpoint
    from flykka.messages.graph.job_graph import JobGraph

_STYLES = {
    OperatorMatch.MATCHED: "green",
    OperatorMatch.ADDED: "cyan",
    OperatorMatch.REMOVED: "yellow",
    OperatorMatch.RENAMED: "yellow",
    OperatorMatch.INCOMPATIBLE: "bold red",
}


def check(path: str, app: App, options: LaunchOptions, *, as_json: bool, cached: bool) -> int:
    """Hold the first job of the app against the savepoint at `path`, and say what came of it; the exit code."""
    try:
        # First: it is known at once, and an app takes seconds.
        checkpoint = find_checkpoint(path, "")
    except CheckpointError as unreadable:
        print(f"flykka savepoint: {unreadable}", file=sys.stderr)
        return FAILED
    made = first_job(app, options, cached=cached)
    if isinstance(made, int):
        return made
    _, job_graph = made
    return _verdict(checkpoint, job_graph, options, as_json=as_json)


def _verdict(checkpoint: CompletedCheckpoint, job_graph: JobGraph, options: LaunchOptions, *, as_json: bool) -> int:
    compared = compatibility(checkpoint, job_graph, allow_non_restored_state=options.allow_non_restored_state)
    if as_json:
        told = {"savepoint": checkpoint.path, "job": job_graph.name, "can_start": not compared.problems}
        print(json.dumps({**told, **asdict(compared)}, indent=2))
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
    outcome = "cannot start" if compared.problems else "can start"
    counts = ((len(compared.of(match)), match) for match in OperatorMatch)
    told = ", ".join(f"{count} {match}" for count, match in counts if count)
    output.print(Text(f"job {job_graph.name!r} {outcome} from {checkpoint.path}: {told}"), soft_wrap=True)


def _table(compared: StateCompatibility) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "uid", "name"):
        table.add_column(column, overflow="fold")
    table.add_column("state", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for operator in compared.operators:
        remark = f"looks like {operator.former_uid}: uid({operator.former_uid!r})" if operator.former_uid else ""
        table.add_row(
            Text(operator.match, style=_STYLES[operator.match]),
            Text(operator.uid or (NOTHING if operator.name else f"id {operator.operator_id}")),
            Text(operator.name or NOTHING),
            NOTHING if operator.state_bytes is None else format_bytes(operator.state_bytes),
            Text(remark),
        )
    return table
