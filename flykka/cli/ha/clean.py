"""`flykka ha clean`: a store without the jobs of a run that nobody goes on with."""

from __future__ import annotations

import argparse
import sys

from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.cli.arguments import describe
from flykka.cli.exit_codes import FAILED, OK
from flykka.cli.ha.command import EPILOG
from flykka.cli.ha.store import add_store, shown, with_store
from flykka.cluster.high_availability.leftovers import forget, leading, leftovers

_PATIENCE = 3.0
"""Seconds until a store in which nobody leads must have been won."""

_DESCRIPTION = """\
Conclude the run of an application, and forget its jobs and their results: run again,
the application begins a new run. It is refused while a driver leads. What is
forgotten is shown before, and asked about.

Checkpoints are not deleted: their paths are shown, and a job goes on from one with
`flykka run APP.py --from-checkpoint PATH`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka ha clean`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_store(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=_clean, parser=parser)


def _clean(options: argparse.Namespace) -> int:
    if not options.yes and not sys.stdin.isatty():
        options.parser.error("there is nobody to be asked: say --yes")
    return with_store(options, lambda services: _forget(services, asks=not options.yes))


def _forget(services: HighAvailabilityServices, *, asks: bool) -> int:
    with leading(services, _PATIENCE) as store:
        found = leftovers(services)
        print(shown(found))
        if found.is_empty:
            print("there is nothing to forget")
            return OK
        if asks and input("forget the run and its jobs? checkpoints stay [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was forgotten")
            return FAILED
        forget(store, found.run)
    print("forgotten: the application begins a new run")
    return OK
