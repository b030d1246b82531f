"""`flykka checkpoint`: has a job of a running flykka take a checkpoint now, whatever its interval is."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked

_DESCRIPTION = """\
Have a job take a checkpoint now, and go on: what it holds for the sinks is
published. Its number is printed when it is complete.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka checkpoint`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    what = "write all state again, so that no file of an earlier checkpoint is needed (default: what is new)"
    parser.add_argument("--full", action="store_true", help=what)
    add_address(parser)
    parser.set_defaults(run=checkpoint)


def checkpoint(arguments: argparse.Namespace) -> int:
    """`flykka checkpoint`; returns the exit code."""
    kind = "FULL" if arguments.full else "CONFIGURED"
    return asked("flykka checkpoint", arguments, lambda client, job: str(client.trigger_checkpoint(job.job_id, kind)))
