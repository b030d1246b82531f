"""`flykka connectors`: lists the available sources and sinks, and what to install for the unavailable ones."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from flykka.cli.arguments import describe
from flykka.cli.exit_codes import FAILED, OK, fail

_WIDTH = 200
_DESCRIPTION = """\
Show the installed connectors: those of flykka, and those of other packages, which
declare them as entry points of the group flykka.connectors.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, allow_abbrev=False)
    parser.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> int:
    from flykka.spark_bridge.connectors.connector import connectors
    from flykka.spark_bridge.errors import SparkBridgeError

    table = Table("connector", "source", "sink", "needs", box=None, pad_edge=False, header_style="bold")
    try:
        available = connectors()
    except SparkBridgeError as broken:
        return fail(f"flykka connectors: {broken}", FAILED)
    for each in available:
        source = "" if each.source is None else f"{each.source}\n{each.reads}"
        sink = "" if each.sink is None else f"{each.sink}\n{each.writes}"
        missing = "" if each.is_installed else f"pip install 'flykka\\[{each.extra}]'"
        table.add_row(each.name, source, sink, missing)
    # Output to a pipe is not truncated, because a pipe has no width.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print(table)
    return OK
