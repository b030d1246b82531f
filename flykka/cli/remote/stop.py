"""`flykka stop`: ends a job of a running flykka with a savepoint, from which it can be continued."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked

_DESCRIPTION = """\
Stop a job: it takes a savepoint, publishes what that holds, and finishes. The path
of the savepoint is printed: `flykka run APP.py --from-savepoint PATH` goes on there.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka stop`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    what = "where the savepoint goes, on the side of the job (default: as the job has it)"
    parser.add_argument("-p", "--savepoint-dir", metavar="DIR", help=what)
    what = "let every open window fire first, as at the end of the input: for a job that is not meant to go on"
    parser.add_argument("-d", "--drain", action="store_true", help=what)
    add_address(parser)
    parser.set_defaults(run=stop)


def stop(arguments: argparse.Namespace) -> int:
    """`flykka stop`; returns the exit code."""

    directory, drain = arguments.savepoint_dir, arguments.drain
    return asked(
        "flykka stop", arguments, lambda client, job: client.stop_with_savepoint(job.job_id, directory, drain=drain)
    )
