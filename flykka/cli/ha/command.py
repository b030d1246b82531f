"""The commands of `flykka ha`, and what its help says."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import add_commands, describe

EPILOG = """\
STORE is what --high-availability of `flykka run` was given: a folder, or
zookeeper://HOST:PORT/PATH?storage_dir=DIR.

exit codes:
  0  all is well
  1  the store cannot be used, or a driver leads in it
  2  the command line is wrong
"""

_DESCRIPTION = """\
An application with a store of high availability goes on with its jobs when it is
run again. Where nobody is going to do that, as after a crash of an application
that was given up, its run stays open and its jobs stay noted: these commands show
that, and forget it.
"""

_EXAMPLES = """\
examples:
  flykka ha show /data/prices/store
  flykka ha clean /data/prices/store
  flykka ha clean 'zookeeper://zk1:2181/flykka/prices?storage_dir=/shared' --yes
"""

_COMMANDS = {
    "show": ("flykka.cli.ha.store:configure_show", "the run and the jobs that are kept in a store"),
    "clean": ("flykka.cli.ha.store:configure_clean", "conclude the run and forget its jobs, where no driver leads"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, f"{_EXAMPLES}\n{EPILOG}")
    add_commands(parser, _COMMANDS)
