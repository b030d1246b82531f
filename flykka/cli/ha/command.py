"""The commands of `flykka ha`, and their help."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_commands, describe

EPILOG = """\
STORE is the value of --high-availability of `flykka run`: a folder, or
zookeeper://HOST:PORT/PATH?storage_dir=DIR.

exit codes:
  0  success
  1  the store cannot be used, or a driver leads in it
  2  the command line is wrong
"""

_DESCRIPTION = """\
An application with a high-availability store continues its jobs when it is run
again. If it will not be run again, for example after the crash of an application
that was abandoned, its run stays open and its jobs stay recorded: these commands
show and delete these records.
"""

_EXAMPLES = """\
examples:
  flykka ha show /data/prices/store
  flykka ha clean /data/prices/store
  flykka ha clean 'zookeeper://zk1:2181/flykka/prices?storage_dir=/shared' --yes
"""

_COMMANDS = {
    "show": ("flykka.cli.ha.store:configure_show", "show the run and the jobs in a store"),
    "clean": ("flykka.cli.ha.store:configure_clean", "conclude the run and delete its jobs, if no driver leads"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, f"{_EXAMPLES}\n{EPILOG}")
    add_commands(parser, _COMMANDS)
