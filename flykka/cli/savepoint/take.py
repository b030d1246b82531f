"""`flykka savepoint take`: has a job of a running flykka take a savepoint and go on."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked

_DESCRIPTION = """\
Have a job take a savepoint, and go on. Its path is printed when it is complete.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka savepoint take`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    what = "where it goes, on the side of the job (default: as the job has it)"
    parser.add_argument("-p", "--savepoint-dir", metavar="DIR", help=what)
    add_address(parser)
    parser.set_defaults(run=take)


def take(arguments: argparse.Namespace) -> int:
    """`flykka savepoint take`; returns the exit code."""

    directory = arguments.savepoint_dir
    return asked(
        "flykka savepoint take", arguments, lambda client, job: client.trigger_savepoint(job.job_id, directory)
    )
