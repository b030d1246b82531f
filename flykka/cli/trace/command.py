"""The commands of `flykka trace`, and what its help says."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_commands, describe

EPILOG = """\
exit codes:
  0  read, to the last whole record where the file is cut off
  1  two runs are not the same
  2  there is no such file, it is no trace, a newer flykka wrote it, it is
     damaged, or it has nothing of what was asked for
  3  an error of this command itself
"""

SEVERAL = "may be given several times"
_COMMANDS = {
    "show": ("flykka.cli.trace.show", "a table of turns"),
    "stats": ("flykka.cli.trace.stats", "what it amounts to"),
    "story": ("flykka.cli.trace.story", "what concerns a checkpoint, an attempt or a job"),
    "diagram": ("flykka.cli.trace.diagram", "a sequence diagram"),
    "diff": ("flykka.cli.trace.diff", "where two runs first differ"),
    "check": ("flykka.cli.trace.check", "whether a law of the protocol was broken"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, "Read traces: what every actor was told, and what it did.", EPILOG)
    add_commands(parser, _COMMANDS)
