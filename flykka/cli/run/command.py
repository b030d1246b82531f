"""The arguments of `flykka run`: what they are called, what is said about them, and what is wrong with them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from flykka.api.configuration.option import OptionGroup
from flykka.api.configuration.options import OPTIONS
from flykka.api.configuration.readers import flag
from flykka.cli.arguments import describe
from flykka.cli.exit_codes import EXIT_CODES
from flykka.cli.launch_options import add_config, add_option, launch_options
from flykka.cli.run.app import app_of

_USAGE = "flykka run APP.py [OPTIONS] [ARGUMENT ...] [-- ARGUMENT ...]"

_DESCRIPTION = """\
Run an app: a Python script that makes jobs. It runs as with `python APP.py`, and
every job that it executes is shown: live where there is a terminal, else as plain
lines. At the end of each job there is a summary.

What is no option of flykka's is handed to the app; what looks like an option and
is meant for the app goes behind `--`.

An option given here has the last word: it wins over what the app says for its
environment as a whole (such as env.set_parallelism or env.set_checkpoint_dir).
What the app says of a single operator (such as stream.set_parallelism) stays.

Each option has one name everywhere: --checkpoint-interval here is
checkpoint_interval in a file (flykka.yaml, or [tool.flykka] of pyproject.toml, in
the working folder, or --config), FLYKKA_CHECKPOINT_INTERVAL as an environment
variable, and a key of get_execution_environment(configuration={...}). The command
line wins over environment variables, these over the app, the app over the file.
"""

_EPILOG = f"""\
while it runs:
  Ctrl-C once stops: the jobs take a last checkpoint, publish what it holds and
  finish; the checkpoint is kept. With a savepoint directory the last one is a
  savepoint.
  Ctrl-C twice cancels; the last checkpoint that was complete is kept, unless
  --retention deletes it.
  SIGTERM is as good as a Ctrl-C; SIGHUP only stops.

run again, the same command continues where the jobs left off, stopped, cancelled
or killed; that needs a checkpoint folder that was named. A job that has come to the end of
its input, or whose rows are there without a checkpoint, is refused: no row is
published twice. --fresh and --overwrite say what else is wanted.

examples:
  flykka run delays.py
  flykka run delays.py --parallelism 4 --task-managers 2
  flykka run delays.py --checkpoint-dir /data/checkpoints --checkpoint-interval 10s
  flykka run delays.py --overwrite /data/delays
  flykka run delays.py --savepoint-dir /data/savepoints
  flykka run delays.py --from-savepoint /data/savepoints/savepoint-ab12cd-1f03a9c2-1
  flykka run delays.py --master 'local[4]' flights/ -- --airport JFK

{EXIT_CODES}"""

_OF_START = [option for option in OPTIONS.values() if option.group is OptionGroup.START]
_FLAGS = tuple(name for option in _OF_START if option.form.read is flag for name in option.flags)
_STARTS = tuple(name for option in _OF_START if option.form.read is not flag for name in option.flags)
"""Options with a value that say where the first job starts."""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG, usage=_USAGE, allow_abbrev=False)
    parser.set_defaults(run=_run, arguments=[], parser=parser)
    parser.add_argument("app", metavar="APP.py", help="the script")
    add_run_options(parser)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a launch: its cluster, its jobs, and how they are watched."""
    for heading in OptionGroup:
        group = parser.add_argument_group(heading)
        for option in OPTIONS.values():
            if option.group is heading:
                add_option(group, option)
        if heading is OptionGroup.REST:
            group.add_argument("--no-rest", action="store_true", help="answer none, unless something else says so")
    add_config(parser)
    parser.add_argument("--verbose", action="store_true", help="show errors with all their frames and Spark's traces")


def _run(options: argparse.Namespace) -> int:
    app, launch = app_of(options), launch_options(options)
    # What follows takes a second to load, and a wrong command line should not have to wait for it.
    from flykka.cli.run.execution import run

    return run(
        app,
        launch,
        continue_with=lambda *start: shlex.join(continuing(options.command_line, *start)),
        verbose=options.verbose,
    )


def continuing(command_line: Sequence[str], *start: str) -> list[str]:
    """The command line that continues what this one has begun: the same, but for the options that say where to start.

    `start` are those that are needed; without any a job continues where it left off.
    """
    words = list(command_line)
    theirs = words[words.index("--") :] if "--" in words else []
    return ["flykka", *_without_start(words[: len(words) - len(theirs)]), *start, *theirs]


def _without_start(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in _STARTS:
            skips = True
        elif word not in _FLAGS and not word.startswith(tuple(f"{option}=" for option in _STARTS)):
            kept.append(word)
    return kept
