"""The cell magic `%%flykka_sql`: runs statements, and shows the rows of a SELECT in a live table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from flykka.errors import ProgramError
from flykka.ipython import Bundle, interactive_shell, publish
from flykka.notebook.turns import bundle, records
from flykka.views.html.markup import note

if TYPE_CHECKING:
    import pandas as pd

    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.api.table.result_table import ResultTable, Shown
    from flykka.client.job_client import JobClient

_ROWS = 100
_PAUSE_S = 0.25


def run_cell(line: str, cell: str) -> None:
    """Run the statements of a cell one after the other, in the environment that the line names.

    The default is the only environment of the notebook. A SELECT shows its last rows until it ends or is interrupted.
    An INSERT starts its job in the background and displays the job.

    Raises:
        SqlError: a statement is invalid or cannot be run.
        ProgramError: the named environment does not exist; or none is named, and there is not exactly one.
    """
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.sql.script import statements

    env = _environment(line.strip())
    for statement in statements(cell):
        query = env.statement_executor.start_query(statement)
        if query is not None:
            _follow(*query)
            continue
        result = env.statement_executor.execute(statement)
        if isinstance(result, JobClient):
            result._ipython_display_()
        elif isinstance(result, str):
            print(result)
        elif result is not None:
            publish(_frame_bundle(result), f"flykka-{uuid4().hex}", update=False)


def _environment(name: str) -> StreamExecutionEnvironment:
    from flykka.api.environment import StreamExecutionEnvironment

    shell = interactive_shell()
    assert shell is not None, "the magic was called outside of IPython"
    names = [name] if name else [each for each in shell.user_ns if not each.startswith("_")]
    values = {each: shell.user_ns.get(each) for each in names}
    environments = {each: env for each, env in values.items() if isinstance(env, StreamExecutionEnvironment)}
    if len({id(env) for env in environments.values()}) == 1:
        return next(iter(environments.values()))
    if environments:
        raise ProgramError(
            f"there are several environments: name one of them with %%flykka_sql {next(iter(environments))}"
        )
    what = f"{name} is not an environment" if name else "there is no environment yet"
    raise ProgramError(f"{what}: create one with env = StreamExecutionEnvironment.get_execution_environment()")


def _follow(client: JobClient, result: ResultTable) -> None:
    """Show the result until its job has ended or is interrupted. Raises the job's error if it fails."""
    display_id = f"flykka-{uuid4().hex}"
    publish(_bundle(result.shown(_ROWS), "running"), display_id, update=False)
    changes = 0
    was_running = False
    try:
        while not client.done():
            time.sleep(_PAUSE_S)
            snapshot = result.shown(_ROWS)
            if snapshot.changes != changes:
                changes = snapshot.changes
                publish(_bundle(snapshot, "running"), display_id, update=True)
    except KeyboardInterrupt:
        was_running = not client.done()
        client.cancel()
    state = "ended by an interrupt" if was_running else str(client.status).lower()
    publish(_bundle(result.shown(_ROWS), state), display_id, update=True)
    if not was_running:
        client.wait()


def _bundle(snapshot: Shown, state: str) -> Bundle:
    rows = [tuple("NULL" if value is None else value for value in row) for row in snapshot.rows]
    last = "" if len(rows) == snapshot.total else f"the last {len(rows):,} of "
    changes = f", {snapshot.changes:,} changes" if snapshot.changes != snapshot.total else ""
    status = f"{last}{snapshot.total:,} rows{changes}; {state}"
    return bundle(
        [records([(name, "") for name in snapshot.columns], rows), note(status)],
        ["\t".join(snapshot.columns), *("\t".join(row) for row in rows), status],
    )


def _frame_bundle(frame: pd.DataFrame) -> Bundle:
    rows = [tuple(map(str, row)) for row in frame.itertuples(index=False)]
    columns = [str(name) for name in frame.columns]
    return bundle(
        [records([(name, "") for name in columns], rows)],
        ["\t".join(columns), *("\t".join(row) for row in rows)],
    )
