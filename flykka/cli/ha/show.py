"""`flykka ha show`: what is kept in a store."""

from __future__ import annotations

import argparse

from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.cli.arguments import describe
from flykka.cli.exit_codes import OK
from flykka.cli.ha.command import EPILOG
from flykka.cli.ha.store import add_store, shown, with_store
from flykka.cluster.high_availability.leftovers import leftovers

_DESCRIPTION = """\
Show the run of the application and its jobs: those that it goes on with, and those
that have ended in it, each with its latest checkpoint. Anybody may look, also while
a driver leads.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka ha show`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_store(parser)
    parser.set_defaults(run=_show, parser=parser)


def _show(options: argparse.Namespace) -> int:
    return with_store(options, _print)


def _print(services: HighAvailabilityServices) -> int:
    leader = services.leader()
    print(shown(leftovers(services)))
    if leader is not None and leader.rest_address is not None:
        print(f"the driver that has led last answers at {leader.rest_address}, if it lives")
    return OK
