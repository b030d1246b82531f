"""The arguments of `flykka sql`."""

from __future__ import annotations

import argparse
import shlex
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from flykka.cli.arguments import describe
from flykka.cli.exit_codes import EXIT_CODES
from flykka.cli.launch_options import launch_options
from flykka.cli.run.command import add_run_options, continuing

_USAGE = "flykka sql [FILE.sql] [OPTIONS]"

_DESCRIPTION = """\
Run a script of SQL statements, each ended by a semicolon: CREATE TABLE, CREATE
TEMPORARY VIEW, INSERT INTO, EXECUTE STATEMENT SET BEGIN ... END, SELECT, EXPLAIN,
SHOW, DESCRIBE, DROP, SET. Each INSERT, each statement set and each SELECT is a job,
and the next statement starts when it has ended; the jobs are shown as by
`flykka run`. The rows of a SELECT are printed as they arrive.

Without a file, statements are typed, or read from stdin if that is not a terminal.
Typed statements run immediately: a SELECT shows its latest rows in a table, until q
or Ctrl-C; an INSERT starts its job in the background.

Options given here override SET in the script.
"""

_EPILOG = f"""\
examples:
  flykka sql counts.sql --checkpoint-dir /data/checkpoints --checkpoint-interval 10s
  flykka sql
  echo "SHOW TABLES;" | flykka sql

{EXIT_CODES}"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG, usage=_USAGE, allow_abbrev=False)
    parser.set_defaults(run=_run, parser=parser)
    parser.add_argument("file", metavar="FILE.sql", nargs="?", help="the script (default: typed statements)")
    add_run_options(parser)


def _run(options: argparse.Namespace) -> int:
    launch = launch_options(options)
    if options.file is None and sys.stdin.isatty():
        from flykka.cli.sql.shell import shell

        return shell(launch)
    name, text = ("stdin", sys.stdin.read()) if options.file is None else (options.file, _read_script(options))
    from flykka.cli.run.execution import run
    from flykka.cli.sql.script_app import ScriptApp

    return run(
        ScriptApp(name, text),
        launch,
        continue_with=lambda *start: shlex.join(continuing(options.command_line, *start)),
        verbose=options.verbose,
    )


def _read_script(options: argparse.Namespace) -> str:
    parser: argparse.ArgumentParser = options.parser
    try:
        content = Path(options.file).read_bytes()
        return content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8")
    except (OSError, UnicodeDecodeError) as refused:
        parser.error(f"{options.file} cannot be read: {getattr(refused, 'strerror', None) or refused}")
