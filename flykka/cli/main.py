"""The command `flykka`."""

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

An app is a Python script that writes jobs down with flykka's DataStream API. It
can be run by `python` as well; `flykka run` adds what one wants while developing
and operating: a live view of its jobs, options that need no change of the app, a
clean stop, and a summary at the end.
"""

_EPILOG = f"""\
examples:
  flykka run delays.py                         run an app
  flykka run --help                            the options of a run
  flykka sql delays.sql                        run a script of SQL; without one, type it
  flykka plan delays.py                        draw its graphs, without running it
  flykka list --address HOST:PORT              the jobs of `flykka run ... --rest PORT`
  flykka history /data/checkpoints             the jobs that have ended, on a page
  flykka why                                   why a job that runs does not go on
  flykka savepoint inspect PATH                what is in a savepoint or a checkpoint
  flykka savepoint verify PATH                 whether its files are as they were written
  flykka savepoint check PATH delays.py        whether an app can start from it
  flykka trace show flight-record.trace        what happened before a failure
  flykka replay run.trace                      a recorded run again, without Spark
  flykka debug run.trace --until 142           what every actor knew, turn by turn
  flykka whatif run.trace --at 142 --drop      the same run without one message
  flykka simulate --seeds 1000                 clusters in virtual time, with faults
  flykka connectors                            the sources and sinks that there are
  flykka class-archive                         once: Spark starts in half the time

{EXIT_CODES}"""

_REMOTE = "flykka.cli.remote.commands"
_COMMANDS = {
    "run": ("flykka.cli.run.command", "run an app, and show what its jobs do"),
    "sql": ("flykka.cli.sql.command", "run a script of SQL, or type statements and see their rows"),
    "plan": ("flykka.cli.plan", "draw the graphs of an app's job, without running it"),
    "list": (f"{_REMOTE}:configure_list", "the jobs of a flykka that runs elsewhere"),
    "attach": (f"{_REMOTE}:configure_attach", "wait for the end of a job there"),
    "cancel": (f"{_REMOTE}:configure_cancel", "end a job there"),
    "stop": (f"{_REMOTE}:configure_stop", "end a job there with a savepoint"),
    "checkpoint": (f"{_REMOTE}:configure_checkpoint", "have a job there take a checkpoint now"),
    "token": (
        f"{_REMOTE}:configure_token",
        "print the token of the REST interface of a job on this machine",
    ),
    "rescale": (f"{_REMOTE}:configure_rescale", "have a job there go on with another parallelism"),
    "history": ("flykka.cli.history", "show jobs that have ended, from their archives, on a page"),
    "why": ("flykka.cli.why", "why a job does not go on: who waits for whom"),
    "ha": ("flykka.cli.ha.command", "what jobs have left in a store of high availability, and how it is forgotten"),
    "savepoint": ("flykka.cli.savepoint.command", "look into savepoints and checkpoints, and hold them against an app"),
    "trace": ("flykka.cli.trace.command", "read traces: what every actor was told, and what it did"),
    "simulate": ("flykka.cli.simulate", "run whole clusters in virtual time, with faults drawn from seeds"),
    "shrink": ("flykka.cli.shrink", "make a simulation that fails smaller, and a test of it"),
    "replay": ("flykka.cli.replay", "take a recorded run again, and compare"),
    "debug": ("flykka.cli.debug", "walk through a recorded run, turn by turn"),
    "whatif": ("flykka.cli.whatif", "let a recorded run go on from a turn, with a fault"),
    "connectors": ("flykka.cli.connectors", "the sources and sinks that there are, and what they need"),
    "class-archive": ("flykka.cli.class_archive", "let Spark start in half the time on this machine"),
}

_NEGATIVE = re.compile(r"-\d.*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code. Raises SystemExit, as argparse does, where it is wrong."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    ours, theirs = _parted(words)
    parser = _parser()
    options, rest = parser.parse_known_args(_with_negatives_joined(ours))
    _hand_on(options, rest, theirs, parser)
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


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """Split arguments into those before `--` and those behind it."""
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _with_negatives_joined(words: list[str]) -> list[str]:
    """`--option -5s` as `--option=-5s`: argparse would miss a value, where the value is what is wrong."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].startswith("--") and "=" not in joined[-1] and _NEGATIVE.fullmatch(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _hand_on(options: argparse.Namespace, rest: list[str], theirs: list[str], parser: argparse.ArgumentParser) -> None:
    """Hand unknown arguments to the app, where there is one."""
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
