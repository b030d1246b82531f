"""The arguments of `flykka run`: their names, help texts and checks."""

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
Run an app: a Python script that executes jobs. It runs as with `python APP.py`, and
every job that it executes is shown: live on a terminal, else as plain lines, with a
summary at the end.

Arguments that are not options of flykka are passed to the app; put options for the
app after `--`.

Options given here override the settings that the app makes for its environment (such
as env.set_parallelism or env.set_checkpoint_dir), but not those that it makes for a
single operator (such as stream.set_parallelism).

Each option has one name everywhere: --checkpoint-interval here is
checkpoint_interval in a file (flykka.yaml, or [tool.flykka] of pyproject.toml, in
the working folder, or --config), FLYKKA_CHECKPOINT_INTERVAL as an environment
variable, and a key of get_execution_environment(configuration={...}). The command line
overrides environment variables, these override the app, and the app overrides the
file.
"""

_EPILOG = f"""\
while it runs:
  Ctrl-C once stops: the jobs take a final checkpoint, publish its output and finish;
  the checkpoint is retained. With a savepoint directory it is a savepoint.
  Ctrl-C twice cancels; the last completed checkpoint is retained, unless --retention
  deletes it. Batch jobs cannot be stopped: Ctrl-C once cancels them.
  SIGTERM acts like Ctrl-C; SIGHUP only stops.

Run again, the same command continues jobs that were stopped, cancelled or killed; this
requires an explicit checkpoint folder. A job that has finished, or whose output exists
without a checkpoint, is refused, so that no row is published twice. Use --fresh or
--overwrite to start it again.

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
"""The options that set from where the first job starts, if they have a value."""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG, usage=_USAGE, allow_abbrev=False)
    parser.set_defaults(run=_run, arguments=[], parser=parser)
    parser.add_argument("app", metavar="APP.py", help="the script")
    add_run_options(parser)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    for heading in OptionGroup:
        group = parser.add_argument_group(heading)
        for option in OPTIONS.values():
            if option.group is heading:
                add_option(group, option)
        if heading is OptionGroup.REST:
            group.add_argument("--no-rest", action="store_true", help="start no server, unless another option does")
    add_config(parser)
    parser.add_argument("--verbose", action="store_true", help="show errors with all their frames and Spark's traces")


def _run(options: argparse.Namespace) -> int:
    app, launch = app_of(options), launch_options(options)
    # Imported here because the import takes a second, which a wrong command line should not wait for.
    from flykka.cli.run.execution import run

    return run(
        app,
        launch,
        continue_with=lambda *start: shlex.join(continuing(options.command_line, *start)),
        verbose=options.verbose,
    )


def continuing(command_line: Sequence[str], *start: str) -> list[str]:
    """Return the command line that continues the jobs of this one. Its start options are removed, and `start` is added.

    Without start options, jobs continue where they stopped.
    """
    words = list(command_line)
    theirs = words[words.index("--") :] if "--" in words else []
    return ["flykka", *_without_start(words[: len(words) - len(theirs)]), *start, *theirs]


def _without_start(words: Sequence[str]) -> list[str]:
    others: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in _STARTS:
            skips = True
        elif word not in _FLAGS and not word.startswith(tuple(f"{option}=" for option in _STARTS)):
            others.append(word)
    return others
