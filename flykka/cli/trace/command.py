"""The commands of `flykka trace`, and their help."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_commands, describe

EPILOG = """\
exit codes:
  0  read, up to the last complete record if the file is truncated
  1  two runs differ
  2  there is no such file, it is not a trace, a newer flykka wrote it, it is
     damaged, or it contains nothing that matches
  3  an internal error of this command
"""

SEVERAL = "may be repeated"
_COMMANDS = {
    "show": ("flykka.cli.trace.show", "show a table of turns"),
    "stats": ("flykka.cli.trace.stats", "show statistics"),
    "story": ("flykka.cli.trace.story", "show everything about a checkpoint, an attempt or a job"),
    "diagram": ("flykka.cli.trace.diagram", "draw a sequence diagram"),
    "diff": ("flykka.cli.trace.diff", "find the first difference between two runs"),
    "check": ("flykka.cli.trace.check", "check for violations of the protocol"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, "Read traces: the messages and effects of every actor.", EPILOG)
    add_commands(parser, _COMMANDS)
