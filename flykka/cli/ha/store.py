"""`flykka ha show` and `flykka ha clean`: show and delete the content of a store."""

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
from flykka.cluster.high_availability.store_contents import StoreContents, StoredJob, forget, leading, store_contents
from flykka.cluster.high_availability.stores import FolderSettings, services_of, store_settings
from flykka.errors import ClusterError, ProgramError

_PATIENCE = 3.0
"""Seconds to wait for leadership of a store without a leader."""

_CLEAN = """\
Conclude the run of an application, and delete the records of its jobs and their
results: when it is run again, the application begins a new run. Refused while a
driver leads. The records are shown and must be confirmed first.

Checkpoints are not deleted: their paths are shown, and a job continues from one with
`flykka run APP.py --from-checkpoint PATH`.
"""

_SHOW = """\
Show the run of the application and its jobs: those that it will continue, and those
that have ended, each with its latest checkpoint. This works at any time, even while
a driver leads.
"""


def configure_show(parser: argparse.ArgumentParser) -> None:
    describe(parser, _SHOW, EPILOG)
    _add_store(parser)
    parser.set_defaults(run=_show, parser=parser)


def configure_clean(parser: argparse.ArgumentParser) -> None:
    describe(parser, _CLEAN, EPILOG)
    _add_store(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.set_defaults(run=_clean, parser=parser)


def _show(options: argparse.Namespace) -> int:
    return _with_store(options, _print)


def _print(services: HighAvailabilityServices) -> int:
    leader = services.leader()
    print(_contents_text(store_contents(services)))
    if leader is not None and leader.rest_address is not None:
        print(f"the last leading driver answers at {leader.rest_address}, if it is still running")
    return OK


def _clean(options: argparse.Namespace) -> int:
    if not options.yes and not sys.stdin.isatty():
        options.parser.error("there is no terminal for a confirmation: pass --yes")
    return _with_store(options, lambda services: _forget(services, asks=not options.yes))


def _forget(services: HighAvailabilityServices, *, asks: bool) -> int:
    with leading(services, _PATIENCE) as store:
        contents = store_contents(services)
        print(_contents_text(contents))
        if contents.is_empty:
            print("there is nothing to delete")
            return OK
        if asks and input("delete the run and its jobs? checkpoints stay [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was deleted")
            return FAILED
        forget(store, contents.run)
    print("deleted: the application begins a new run")
    return OK


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="a folder, or zookeeper://HOST:PORT/PATH?storage_dir=DIR")


def _with_store(options: argparse.Namespace, act: Callable[[HighAvailabilityServices], int]) -> int:
    """Open the store, run `act` and return its exit code. If the store does not exist, exit with a usage error."""
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


def _contents_text(contents: StoreContents) -> str:
    if contents.run is None:
        return "no application has run with this store"
    state = "concluded" if contents.run.is_concluded else "open: the application continues it when it is run again"
    return "\n".join([f"run {contents.run.run_id} ({state})", *(_line(job) for job in contents.jobs)])


def _line(job: StoredJob) -> str:
    name = "" if job.name is None else f" {job.name!r}"
    state = "not ended" if job.status is None else str(job.status)
    checkpoint = "no checkpoint" if job.checkpoint is None else job.checkpoint
    return f"  job {job.job_id}{name}: {state}, {checkpoint}"
