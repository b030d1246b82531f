"""`flykka list`: the jobs of a running flykka."""

from __future__ import annotations

import argparse
from datetime import datetime

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, asked_all
from flykka.client.rest_cluster_client import ListedJob, RestClusterClient

_DESCRIPTION = """\
The jobs of a running flykka: when each was started, its id, its name, its state.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka list`."""
    describe(parser, _DESCRIPTION, EPILOG)
    parser.add_argument("-a", "--all", action="store_true", help="those that have ended too")
    add_address(parser)
    parser.set_defaults(run=list_jobs)


def list_jobs(arguments: argparse.Namespace) -> int:
    """`flykka list`; returns the exit code."""

    def ask(client: RestClusterClient) -> str:
        jobs = [job for job in client.jobs() if arguments.all or job.ended_ms < 0]
        return "\n".join(map(_line, jobs)) or "no job runs"

    return asked_all("flykka list", arguments, ask)


def _line(job: ListedJob) -> str:
    started = "-" if job.started_ms < 0 else f"{datetime.fromtimestamp(job.started_ms / 1000):%Y-%m-%d %H:%M:%S}"
    return f"{started:19}  {job.job_id}  {job.name} ({job.status})"
