"""The `flykka` command: its subcommands, and the entry point of its script."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from flykka.cli.arguments import add_commands, unknown_option
from flykka.cli.exit_codes import CANCELLED, EXIT_CODES

_DESCRIPTION = """\
Flink-style jobs as Pykka actors, with their data on Spark.

An app is a Python script that defines jobs with flykka's DataStream API. It can also
be run with `python`; `flykka run` adds a live view of its jobs, options that need no
change of the app, a clean stop, and a summary at the end.
"""

_EPILOG = f"""\
examples:
  flykka run delays.py                         run an app
  flykka run --help                            show the options of a run
  flykka sql delays.sql                        run a SQL script; without one, type statements
  flykka plan delays.py                        draw its graphs without running it
  flykka list --address HOST:PORT              list the jobs of `flykka run ... --rest PORT`
  flykka history /data/checkpoints             serve a web page of ended jobs
  flykka why                                   diagnose why a job makes no progress
  flykka savepoint inspect PATH                show the content of a savepoint or checkpoint
  flykka savepoint verify PATH                 check its files for damage
  flykka savepoint check PATH delays.py        check whether an app can start from it
  flykka trace show flight-record.trace        show what happened before a failure
  flykka replay run.trace                      replay a recorded run without Spark
  flykka debug run.trace --until 142           step through the states of all actors
  flykka whatif run.trace --at 142 --drop      run it again without one message
  flykka simulate --seeds 1000                 run clusters in virtual time, with faults
  flykka connectors                            list the sources and sinks
  flykka class-archive                         once: make Spark start in half the time

{EXIT_CODES}"""

_REMOTE = "flykka.cli.remote.commands"
_COMMANDS = {
    "run": ("flykka.cli.run.command", "run an app, and show its jobs"),
    "sql": ("flykka.cli.sql.command", "run a SQL script, or type statements and see their rows"),
    "plan": ("flykka.cli.plan", "draw the graphs of an app's job without running it"),
    "list": (f"{_REMOTE}:configure_list", "list the jobs of another flykka process"),
    "attach": (f"{_REMOTE}:configure_attach", "wait until one of its jobs has ended"),
    "cancel": (f"{_REMOTE}:configure_cancel", "cancel one of its jobs"),
    "stop": (f"{_REMOTE}:configure_stop", "stop one of its jobs with a savepoint"),
    "checkpoint": (f"{_REMOTE}:configure_checkpoint", "take a checkpoint of one of its jobs now"),
    "token": (
        f"{_REMOTE}:configure_token",
        "print the token of the REST interface of a job on this machine",
    ),
    "rescale": (f"{_REMOTE}:configure_rescale", "change the parallelism of one of its jobs"),
    "history": ("flykka.cli.history", "serve a web page of ended jobs, from their archives"),
    "why": ("flykka.cli.why", "diagnose why a job makes no progress"),
    "ha": ("flykka.cli.ha.command", "show or clean what jobs have left in a high-availability store"),
    "savepoint": ("flykka.cli.savepoint.command", "inspect savepoints and checkpoints, and compare them with an app"),
    "trace": ("flykka.cli.trace.command", "read traces: the messages and effects of every actor"),
    "simulate": ("flykka.cli.simulate", "run whole clusters in virtual time, with faults drawn from seeds"),
    "shrink": ("flykka.cli.shrink", "reduce a failing simulation, and write a test of it"),
    "replay": ("flykka.cli.replay", "replay a recorded run, and compare"),
    "debug": ("flykka.cli.debug", "step through a recorded run, turn by turn"),
    "whatif": ("flykka.cli.whatif", "continue a recorded run from a turn, with a fault"),
    "connectors": ("flykka.cli.connectors", "list the sources and sinks, and what they need"),
    "class-archive": ("flykka.cli.class_archive", "make Spark start in half the time on this machine"),
}

_NEGATIVE = re.compile(r"-\d.*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code. Raises SystemExit for a usage error, as argparse does."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    ours, theirs = _split(words)
    parser = _parser()
    options, rest = parser.parse_known_args(_with_negatives_joined(ours))
    _pass_arguments(options, rest, theirs, parser)
    options.command_line = words
    try:
        code: int = options.run(options)
    except KeyboardInterrupt:
        return CANCELLED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flykka",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"flykka {_version()}")
    add_commands(parser, _COMMANDS)
    return parser


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _with_negatives_joined(words: list[str]) -> list[str]:
    """Join `--option -5s` to `--option=-5s`, so that argparse reports an invalid value, and not a missing one."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].startswith("--") and "=" not in joined[-1] and _NEGATIVE.fullmatch(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _pass_arguments(
    options: argparse.Namespace, rest: list[str], theirs: list[str], parser: argparse.ArgumentParser
) -> None:
    wrong = [word for word in rest if word.startswith("-")]
    if not hasattr(options, "app"):
        if rest or theirs:
            parser.error(f"unrecognized arguments: {' '.join([*rest, *theirs])}")
    elif wrong:
        options.parser.error(unknown_option(wrong[0], options.parser))
    else:
        options.arguments = [*rest, *theirs]


def _version() -> str:
    try:
        return version("flykka")
    except PackageNotFoundError:
        return "(run from its sources)"
