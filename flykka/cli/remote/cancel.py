"""`flykka cancel`: ends a job of a running flykka, with nothing more published."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked
from flykka.client.rest_cluster_client import ListedJob, RestClusterClient
from flykka.client.running_jobs import RunningJob

_DESCRIPTION = """\
Cancel a job: its tasks end at once. Its checkpoints go with it, unless it retains
them. `flykka stop` ends a job so that it can be continued.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka cancel`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    add_address(parser)
    parser.set_defaults(run=cancel)


def cancel(arguments: argparse.Namespace) -> int:
    """`flykka cancel`; returns the exit code."""

    def ask(client: RestClusterClient, job: ListedJob | RunningJob) -> str:
        client.cancel(job.job_id)
        return f"job {job.name!r} ({job.job_id}) is being cancelled"

    return asked("flykka cancel", arguments, ask)
