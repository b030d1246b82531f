"""A store that a command line names, and its contents in words."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from flykka.actors.errors import HighAvailabilityError
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.cli.exit_codes import FAILED
from flykka.cluster.high_availability.leftovers import LeftJob, Leftovers
from flykka.cluster.high_availability.stores import FolderSettings, services_of, store_settings
from flykka.errors import ClusterError, ProgramError


def add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="a folder, or zookeeper://HOST:PORT/PATH?storage_dir=DIR")


def with_store(options: argparse.Namespace, act: Callable[[HighAvailabilityServices], int]) -> int:
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
        print(f"flykka ha: {refused}", file=sys.stderr)
        return FAILED


def shown(found: Leftovers) -> str:
    """The contents of a store, a line each."""
    if found.run is None:
        return "no application has run with this store"
    state = "concluded" if found.run.is_concluded else "open: the application goes on with it when it is run again"
    return "\n".join([f"run {found.run.run_id} ({state})", *(_line(job) for job in found.jobs)])


def _line(job: LeftJob) -> str:
    name = "" if job.name is None else f" {job.name!r}"
    state = "not ended" if job.status is None else str(job.status)
    checkpoint = "no checkpoint" if job.checkpoint is None else job.checkpoint
    return f"  job {job.job_id}{name}: {state}, {checkpoint}"
