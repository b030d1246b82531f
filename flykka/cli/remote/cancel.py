"""`flykka cancel`: ends a job of a running flykka, with nothing more published."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked
from flykka.client.rest_cluster_client import ListedJob, RestClusterClient
from flykka.client.running_jobs import RunningJob

_DESCRIPTION = """\
Cancel a job: its tasks end at once. The same command continues it from its last
completed checkpoint, unless that is deleted. `flykka stop` ends a job with a
checkpoint of its own.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka cancel`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    parser.add_argument("--delete-checkpoints", action="store_true", help="delete the checkpoints of the job")
    add_address(parser)
    parser.set_defaults(run=cancel)


def cancel(arguments: argparse.Namespace) -> int:
    """`flykka cancel`; returns the exit code."""

    def ask(client: RestClusterClient, job: ListedJob | RunningJob) -> str:
        client.cancel(job.job_id, delete_checkpoints=arguments.delete_checkpoints)
        return f"job {job.name!r} ({job.job_id}) is being cancelled"

    return asked("flykka cancel", arguments, ask)
