"""The prompt of `flykka sql`: statements are typed, and run when their semicolon is there."""

from __future__ import annotations

import readline
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console as RichConsole
from rich.text import Text

from flykka.api.environment import StreamExecutionEnvironment
from flykka.api.launch import Launch, LaunchOptions, launched
from flykka.cli.exit_codes import OK
from flykka.cli.sql.live_result import follow
from flykka.cli.sql.printed import printed
from flykka.client.job_client import JobClient
from flykka.spark_bridge.sql.script import ScriptStatement, statements

_PROMPT, _MORE = "flykka> ", "      > "
_WORDS_TO_LEAVE = ("quit", "exit")
_HISTORY = Path("~/.flykka_sql_history").expanduser()
_HISTORY_LENGTH = 1000
_SLOTS = 8
"""Jobs run side by side here, and the first one would decide how many there is room for."""
_HELP = """statements end with ; and are CREATE TABLE, CREATE TEMPORARY VIEW, INSERT INTO, EXECUTE STATEMENT SET BEGIN
... END, SELECT, EXPLAIN, SHOW TABLES, SHOW VIEWS, DESCRIBE, DROP and SET. A SELECT shows its rows until q or Ctrl-C;
an INSERT goes on beside. quit; or Ctrl-D leaves, and ends what runs."""


def shell(options: LaunchOptions) -> int:
    """Read statements and run them until one says quit; the exit code."""
    output = RichConsole(force_jupyter=False)
    options = replace(options, values={"slots_per_task_manager": _SLOTS, **options.all_values()})
    with launched(Launch(options)), _history(), StreamExecutionEnvironment.get_execution_environment() as env:
        output.print("help; tells what can be typed, quit; leaves", style="dim")
        for statement in _typed():
            word = statement.text.strip().lower()
            if word in _WORDS_TO_LEAVE:
                break
            if word == "help":
                output.print(_HELP, highlight=False)
                continue
            _run(env, statement, output)
        # Leaving is no failure: what runs is ended with the environment, and nothing waits for it.
        _cancel(list(env._running), output)
    return OK


def _run(env: StreamExecutionEnvironment, statement: ScriptStatement, output: RichConsole) -> None:
    """Run a statement. Whatever it raises is told, and the prompt comes back."""
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
    """The statements that are typed, each when it is ended. Ctrl-C forgets what was typed of one, Ctrl-D ends all."""
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
        found = statements(text)
        if all(each.is_ended for each in found):
            text = ""
            yield from found


@contextmanager
def _history() -> Iterator[None]:
    """Keep what was typed for the next time, where that can be."""
    with suppress(OSError):
        readline.read_history_file(_HISTORY)
    readline.set_history_length(_HISTORY_LENGTH)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(_HISTORY)
