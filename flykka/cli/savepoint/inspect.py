"""`flykka savepoint inspect`: shows a savepoint or checkpoint as a table or as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from flykka.cli.arguments import at_least_one, describe
from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.cli.savepoint.command import EPILOG
from flykka.client.checkpoints import missing_state, read_checkpoint
from flykka.client.saved_state import keyed_operators, state_in
from flykka.client.savepoint_summary import OperatorSummary, operator_summaries
from flykka.console.output import lasting_output
from flykka.errors import CheckpointError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.runtime.durations import format_ms
from flykka.spark_bridge.errors import SavedStateError
from flykka.views.text.formats import NOTHING, format_bytes, format_count

_DESCRIPTION = """\
Show the job and the time of a savepoint, and for each operator its uid, name and
parallelism, and the kinds, schema and size of its state. Spark is started only to show
state rows, by key or by key and window. flykka.state.read(PATH, UID) returns all rows as
DataFrames.
"""

ROWS = 10
Rows = list[dict[str, Any]]


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("path", metavar="PATH", help="the savepoint")
    parser.add_argument(
        "--rows",
        metavar="N",
        nargs="?",
        const=ROWS,
        type=at_least_one,
        help=f"show at most N rows of the keyed state of each operator ({ROWS} if N is omitted)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.set_defaults(run=_inspect)


def _inspect(arguments: argparse.Namespace) -> int:
    try:
        checkpoint = read_checkpoint(arguments.path)
    except CheckpointError as unreadable:
        return fail(f"flykka savepoint: {unreadable}", FAILED)
    operators, missing = operator_summaries(checkpoint), missing_state(checkpoint)
    rows = rows_by_operator(checkpoint, arguments.rows) if arguments.rows and missing is None else {}
    if arguments.json:
        # Values that JSON does not support, such as timestamps, become strings.
        document = _as_json(checkpoint, operators, missing) | ({"rows": rows} if arguments.rows else {})
        print(json.dumps(document, indent=2, default=str))
    else:
        with lasting_output():
            console = RichConsole(force_jupyter=False)
            _show(console, checkpoint, operators)
            show_rows(console, rows)
    if missing is not None:
        return fail(f"flykka savepoint: {missing}", FAILED)
    return OK


def _as_json(
    checkpoint: CompletedCheckpoint, operators: tuple[OperatorSummary, ...], missing: str | None
) -> dict[str, Any]:
    return {
        "path": checkpoint.path,
        "type": checkpoint.snapshot_type,
        "checkpoint_id": checkpoint.checkpoint_id,
        "job_id": checkpoint.job_id,
        "job_name": checkpoint.job_name or None,
        "timestamp_ms": checkpoint.timestamp_ms,
        "duration_ms": checkpoint.duration_ms,
        "state_bytes": sum(operator.state_bytes for operator in operators),
        "missing": missing,
        "operators": [asdict(operator) for operator in operators],
    }


def _show(output: RichConsole, checkpoint: CompletedCheckpoint, operators: tuple[OperatorSummary, ...]) -> None:
    time = datetime.fromtimestamp(checkpoint.timestamp_ms / 1000, UTC)
    size = format_bytes(sum(operator.state_bytes for operator in operators))
    job = f"job {checkpoint.job_name!r} ({checkpoint.job_id})" if checkpoint.job_name else f"job {checkpoint.job_id}"
    lines = [
        f"{checkpoint.snapshot_type.lower()} {checkpoint.checkpoint_id} of {job}",
        f"taken {time:%Y-%m-%d %H:%M:%S} UTC in {format_ms(checkpoint.duration_ms)}, {size} of state",
        f"at {checkpoint.path}",
    ]
    for line in lines:
        output.print(Text(line), soft_wrap=True)
    output.print(_table(operators))
    for operator in operators:
        for detail in _details(operator):
            output.print(Text(detail), soft_wrap=True)


def _table(operators: tuple[OperatorSummary, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("uid", "kind"):
        table.add_column(column, overflow="fold")
    for column in ("parallelism", "size"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for operator in operators:
        has_state = bool(operator.state_kinds)
        table.add_row(
            Text(_name(operator)),
            Text(operator.kind.lower().replace("_", " ") if operator.kind else NOTHING),
            f"{operator.parallelism} (up to {operator.max_parallelism})",
            format_bytes(operator.state_bytes) if has_state else NOTHING,
            Text("; ".join(operator.state_kinds) or "none"),
        )
    return table


def _details(operator: OperatorSummary) -> Iterator[str]:
    if operator.uid is not None and operator.name not in (None, operator.uid):
        yield f"{_name(operator)}: {operator.name}"
    for each in operator.schema.operator_state if operator.schema is not None else ():
        yield f"{_name(operator)}: list {each.name} of {each.element} ({each.mode})"
    if (schema := operator.schema) is not None and schema.is_keyed:
        state = f"window ({schema.columns}), {schema.windows}" if schema.windows else f"key ({schema.columns})"
        yield f"{_name(operator)}: keys ({schema.keys}), state of each {state}"
    if operator.files and operator.key_groups:
        rows = "" if operator.rows is None else f", {format_count(operator.rows)} rows"
        files = f"{operator.files} {'file' if operator.files == 1 else 'files'}"
        yield f"{_name(operator)}: {operator.key_groups} key groups{rows} in {files}"


def _name(operator: OperatorSummary) -> str:
    return operator.uid or operator.name or f"id {operator.operator_id}"


def rows_by_operator(checkpoint: CompletedCheckpoint, limit: int) -> dict[str, Rows | str]:
    """Return up to `limit` state rows of each operator with keyed state by uid, or the reason why they cannot be read.

    Starts and stops a Spark session.
    """
    operators = keyed_operators(checkpoint)
    if not operators:
        return {}
    from flykka.spark_bridge.session.session import session_is_there, spark_session, stop_session

    adopted = session_is_there()
    session = spark_session("local[1]", short_lived=True)
    try:
        return {each.ref.uid: _rows(checkpoint, each.ref.uid, limit) for each in operators}
    finally:
        if not adopted:
            stop_session(session)


def _rows(checkpoint: CompletedCheckpoint, uid: str, limit: int) -> Rows | str:
    try:
        return state_in(checkpoint, uid).rows(limit)
    except SavedStateError as unreadable:
        return str(unreadable)


def show_rows(output: RichConsole, rows: dict[str, Rows | str]) -> None:
    for uid, some in rows.items():
        output.print()
        heading = some if isinstance(some, str) else f"{'the first rows' if some else 'no rows'} of its state"
        output.print(Text(f"{uid}: {heading}"), soft_wrap=True)
        if isinstance(some, str) or not some:
            continue
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in some[0]:
            table.add_column(Text(name), overflow="fold")
        for row in some:
            table.add_row(*(Text(NOTHING if value is None else str(value)) for value in row.values()))
        output.print(table)
