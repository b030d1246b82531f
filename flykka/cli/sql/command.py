"""The arguments of `flykka sql`."""

from __future__ import annotations

import argparse
import shlex
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from flykka.api.environment import StreamExecutionEnvironment
from flykka.cli.arguments import describe
from flykka.cli.exit_codes import EXIT_CODES
from flykka.cli.launch_options import launch_options
from flykka.cli.run.app import App
from flykka.cli.run.command import add_run_options, continuing
from flykka.cli.sql.printed import printed
from flykka.client.job_client import JobClient
from flykka.errors import SqlError
from flykka.spark_bridge.connectors.console import ConsoleSink
from flykka.spark_bridge.sql.script import ScriptStatement, statements

_USAGE = "flykka sql [FILE.sql] [OPTIONS]"

_DESCRIPTION = """\
Run a script of SQL statements, each ended by a semicolon: CREATE TABLE, CREATE
TEMPORARY VIEW, INSERT INTO, EXECUTE STATEMENT SET BEGIN ... END, SELECT, EXPLAIN,
SHOW, DESCRIBE, DROP, SET. Each INSERT, each statement set and each SELECT is a
job, and the next statement begins when it has ended; the jobs are shown as by
`flykka run`. The rows of a SELECT are printed as they come.

Without a file, statements are typed, or read from stdin where that is no
terminal. What is typed runs at once: a SELECT shows its rows in a table that
follows them, until q or Ctrl-C; an INSERT starts its job and goes on beside.

An option given here has the last word over SET in the script.
"""

_EPILOG = f"""\
examples:
  flykka sql counts.sql --checkpoint-dir /data/checkpoints --checkpoint-interval 10s
  flykka sql
  echo "SHOW TABLES;" | flykka sql

{EXIT_CODES}"""
_ROWS = 10_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka sql`."""
    describe(parser, _DESCRIPTION, _EPILOG, usage=_USAGE, allow_abbrev=False)
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument("file", metavar="FILE.sql", nargs="?", help="the script (default: what is typed)")
    add_run_options(parser)


def _run(options: argparse.Namespace) -> int:
    launch = launch_options(options)
    if options.file is None and sys.stdin.isatty():
        from flykka.cli.sql.shell import shell

        return shell(launch)
    name, text = ("stdin", sys.stdin.read()) if options.file is None else (options.file, _read(options))
    from flykka.cli.run.execution import run
    from flykka.cli.sql.command import ScriptApp

    return run(
        ScriptApp(name, text),
        launch,
        continue_with=lambda *start: shlex.join(continuing(options.command_line, *start)),
        verbose=options.verbose,
    )


def _read(options: argparse.Namespace) -> str:
    parser: argparse.ArgumentParser = options.parser
    try:
        written = Path(options.file).read_bytes()
        return written.decode("utf-16" if written.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        parser.error(f"{options.file} cannot be read: {getattr(refused, 'strerror', None) or refused}")


class ScriptApp(App):
    """A script of SQL as an app: its statements run one after the other, and its jobs too.

    `path` is what it is called in errors.
    """

    needs_jobs = False

    def __init__(self, path: str, text: str) -> None:
        super().__init__(path)
        self._text = text

    def run(self) -> None:
        """Run the statements, and wait for each job before the next one. Raises what they raise."""
        env = StreamExecutionEnvironment.get_execution_environment()
        for statement in statements(self._text):
            self._run(env, statement)

    def explained(self, raised: BaseException, *, whole: bool = False) -> str:
        """Return the text for an error: of a statement with its place in the file."""
        if isinstance(raised, SqlError) and not whole:
            return f"{self.path}: {raised}"
        return super().explained(raised, whole=whole)

    def _run(self, env: StreamExecutionEnvironment, statement: ScriptStatement) -> None:
        query = env.statement_executor.query(statement)
        if query is not None:
            env.statement_executor.execute_query(query, ConsoleSink(limit=_ROWS, truncate=False)).wait()
            return
        result = env.statement_executor.execute(statement)
        if isinstance(result, JobClient):
            result.wait()
        elif result is not None:
            print(printed(result), flush=True)
