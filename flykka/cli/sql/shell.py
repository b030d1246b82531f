"""The prompt of `flykka sql`: reads statements, and runs each when it is complete."""

from __future__ import annotations

import readline
import select
import sys
import termios
import time
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.launch import Launch, LaunchOptions, launched
from flykka.api.table.result_table import ResultTable, Shown
from flykka.cli.exit_codes import OK
from flykka.cli.sql.script_app import printed
from flykka.client.job_client import JobClient
from flykka.spark_bridge.sql.script import ScriptStatement, statements

_PROMPT, _MORE = "flykka> ", "      > "
_WORDS_TO_LEAVE = ("quit", "exit")
_HISTORY = Path("~/.flykka_sql_history").expanduser()
_HISTORY_LENGTH = 1000
_SLOTS = 8
"""The default number of slots. Jobs run concurrently here, so the first job's parallelism is no good default."""
_HELP = """statements end with ; and are CREATE TABLE, CREATE TEMPORARY VIEW, INSERT INTO, EXECUTE STATEMENT SET BEGIN
... END, SELECT, EXPLAIN, SHOW TABLES, SHOW VIEWS, DESCRIBE, DROP and SET. A SELECT shows its rows until q or Ctrl-C;
an INSERT runs in the background. quit; or Ctrl-D leaves, and ends running jobs."""
_PAUSE_S = 0.25
_LINES_AROUND = 8
_QUIT = ("q", "Q")


def shell(options: LaunchOptions) -> int:
    output = RichConsole(force_jupyter=False)
    options = replace(options, values={"slots_per_task_manager": _SLOTS, **options.all_values()})
    with launched(Launch(options)), _history(), StreamExecutionEnvironment.get_execution_environment() as env:
        output.print("help; lists the statements, quit; leaves", style="dim")
        for statement in _typed():
            word = statement.text.strip().lower()
            if word in _WORDS_TO_LEAVE:
                break
            if word == "help":
                output.print(_HELP, highlight=False)
                continue
            _run(env, statement, output)
        # Quitting is not a failure. Running jobs are cancelled with the environment, without waiting until they have
        # ended.
        _cancel(list(env._running), output)
    return OK


def _run(env: StreamExecutionEnvironment, statement: ScriptStatement, output: RichConsole) -> None:
    before = list(env._running)
    try:
        query = env.statement_executor.start_query(statement)
        if query is not None:
            follow(*query, output)
            return
        result = env.statement_executor.execute(statement)
        if isinstance(result, JobClient):
            output.print(Text(f"job {result.job_name} {result.status} {result.job_id}"))
        else:
            output.print(Text("ok" if result is None else printed(result)))
    except KeyboardInterrupt:
        output.print("interrupted", style="dim")
        _cancel([client for client in env._running if client not in before], output)
    except Exception as refused:  # noqa: BLE001 - the prompt outlives whatever was typed
        output.print(Text(f"{type(refused).__name__}: {refused}", style="red"))


def _cancel(clients: Iterable[JobClient], output: RichConsole) -> None:
    for client in clients:
        if not client.done():
            output.print(f"ending {client.job_name}", style="dim")
            client.cancel()


def _typed() -> Iterator[ScriptStatement]:
    """Yield each typed statement when it is complete. Ctrl-C discards an incomplete statement, and Ctrl-D ends the
    input.
    """
    text = ""
    while True:
        try:
            text += input(_MORE if text else _PROMPT) + "\n"
        except KeyboardInterrupt:
            print()
            text = ""
        except EOFError:
            print()
            return
        complete = statements(text)
        if all(each.is_ended for each in complete):
            text = ""
            yield from complete


@contextmanager
def _history() -> Iterator[None]:
    with suppress(OSError):
        readline.read_history_file(_HISTORY)
    readline.set_history_length(_HISTORY_LENGTH)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(_HISTORY)


def follow(client: JobClient, result: ResultTable, output: RichConsole) -> None:
    """Show the result until its job has ended. The keys q and Ctrl-C cancel the job.

    Raises the job's error if it fails.
    """
    limit = max(5, output.size.height - _LINES_AROUND)
    began = time.monotonic()

    def picture(state: str) -> Group:
        return result_picture(result.shown(limit), f"{state}, {time.monotonic() - began:.0f} s")

    with Live(console=output, auto_refresh=False, transient=False) as live, _keys():
        try:
            while not client.done() and not _is_quit():
                live.update(picture("running; q ends it"), refresh=True)
        except KeyboardInterrupt:
            pass  # Ctrl-C acts like q.
        was_running = not client.done()
        if was_running:
            client.cancel()
        live.update(picture("ended" if was_running else str(client.status).lower()), refresh=True)
    if not was_running:
        client.wait()


def result_picture(result: Shown, state: str) -> Group:
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in result.columns:
        table.add_column(Text(name), overflow="ellipsis")
    for row in result.rows:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(value) for value in row))
    last = "" if len(result.rows) == result.total else f"the last {len(result.rows):,} of "
    changes = f", {result.changes:,} changes" if result.changes != result.total else ""
    return Group(table, Text(f"{last}{result.total:,} rows{changes}; {state}", style="dim"))


def _is_quit() -> bool:
    if not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
        return False
    return sys.stdin.read(1) in _QUIT


@contextmanager
def _keys() -> Iterator[None]:
    """Read keys without Enter and without echo during the block."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
