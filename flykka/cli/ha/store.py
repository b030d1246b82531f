"""`flykka ha show` and `flykka ha clean`: what is kept in a store, and how it is forgotten."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from flykka.actors.errors import HighAvailabilityError
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.cli.arguments import describe
from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.cli.ha.command import EPILOG
from flykka.cluster.high_availability.leftovers import LeftJob, Leftovers, forget, leading, leftovers
from flykka.cluster.high_availability.stores import FolderSettings, services_of, store_settings
from flykka.errors import ClusterError, ProgramError

_PATIENCE = 3.0
"""Seconds until a store in which nobody leads must have been won."""

_CLEAN = """\
Conclude the run of an application, and forget its jobs and their results: run again,
the application begins a new run. It is refused while a driver leads. What is
forgotten is shown before, and asked about.

Checkpoints are not deleted: their paths are shown, and a job goes on from one with
`flykka run APP.py --from-checkpoint PATH`.
"""

_SHOW = """\
Show the run of the application and its jobs: those that it goes on with, and those
that have ended in it, each with its latest checkpoint. Anybody may look, also while
a driver leads.
"""


def configure_show(parser: argparse.ArgumentParser) -> None:
    describe(parser, _SHOW, EPILOG)
    _add_store(parser)
    parser.set_defaults(run=_show, parser=parser)


def configure_clean(parser: argparse.ArgumentParser) -> None:
    describe(parser, _CLEAN, EPILOG)
    _add_store(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=_clean, parser=parser)


def _show(options: argparse.Namespace) -> int:
    return _with_store(options, _print)


def _print(services: HighAvailabilityServices) -> int:
    leader = services.leader()
    print(_shown(leftovers(services)))
    if leader is not None and leader.rest_address is not None:
        print(f"the driver that has led last answers at {leader.rest_address}, if it lives")
    return OK


def _clean(options: argparse.Namespace) -> int:
    if not options.yes and not sys.stdin.isatty():
        options.parser.error("there is nobody to be asked: say --yes")
    return _with_store(options, lambda services: _forget(services, asks=not options.yes))


def _forget(services: HighAvailabilityServices, *, asks: bool) -> int:
    with leading(services, _PATIENCE) as store:
        found = leftovers(services)
        print(_shown(found))
        if found.is_empty:
            print("there is nothing to forget")
            return OK
        if asks and input("forget the run and its jobs? checkpoints stay [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was forgotten")
            return FAILED
        forget(store, found.run)
    print("forgotten: the application begins a new run")
    return OK


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="a folder, or zookeeper://HOST:PORT/PATH?storage_dir=DIR")


def _with_store(options: argparse.Namespace, act: Callable[[HighAvailabilityServices], int]) -> int:
    """Do something with the store that was named; the exit code. Ends with a usage error where there is none."""
    try:
        settings = store_settings(options.store)
    except ProgramError as refused:
        options.parser.error(str(refused))
    if (
        isinstance(settings, FolderSettings)
        and "://" not in settings.directory
        and not os.path.isdir(settings.directory)
    ):
        options.parser.error(f"there is no folder {settings.directory}")
    try:
        services = services_of(settings)
        try:
            return act(services)
        finally:
            services.close()
    except (ClusterError, HighAvailabilityError) as refused:
        return fail(f"flykka ha: {refused}", FAILED)


def _shown(found: Leftovers) -> str:
    if found.run is None:
        return "no application has run with this store"
    state = "concluded" if found.run.is_concluded else "open: the application goes on with it when it is run again"
    return "\n".join([f"run {found.run.run_id} ({state})", *(_line(job) for job in found.jobs)])


def _line(job: LeftJob) -> str:
    name = "" if job.name is None else f" {job.name!r}"
    state = "not ended" if job.status is None else str(job.status)
    checkpoint = "no checkpoint" if job.checkpoint is None else job.checkpoint
    return f"  job {job.job_id}{name}: {state}, {checkpoint}"
