"""`flykka attach`: waits for the end of a job of a running flykka, which may be to end with the waiting."""

from __future__ import annotations

import argparse
import sys

from flykka.cli.arguments import describe
from flykka.cli.exit_codes import CANCELLED, FAILED, OK
from flykka.cli.remote.address import add_address, add_job, asked_for_code
from flykka.client.remote_job_result import ClientHeartbeats, RemoteJobResult
from flykka.client.rest_cluster_client import ListedJob, RestClusterClient
from flykka.client.running_jobs import RunningJob

_DESCRIPTION = """\
Wait until a job has ended, and tell how. With --shutdown-on-attached-exit the job
is cancelled where this command is ended before: by Ctrl-C at once, and where it
dies without a word after three minutes.
"""

_EPILOG = """\
exit codes:
  0    the job has finished, or was stopped
  1    it has failed; or nobody answers, or there is no such job
  2    the command line is wrong
  130  it was cancelled
"""

_CODES = {"SUCCEEDED": OK, "FAILED": FAILED, "CANCELED": CANCELLED}


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka attach`."""
    describe(parser, _DESCRIPTION, _EPILOG)
    add_job(parser)
    what = "cancel the job when this command ends before it"
    parser.add_argument("-sae", "--shutdown-on-attached-exit", action="store_true", help=what)
    add_address(parser)
    parser.set_defaults(run=attach)


def attach(arguments: argparse.Namespace) -> int:
    """`flykka attach`; returns the exit code."""

    def ask(client: RestClusterClient, job: ListedJob | RunningJob) -> tuple[str, int]:
        ends_with_this = arguments.shutdown_on_attached_exit
        try:
            result = client.wait(job.job_id, heartbeats=ClientHeartbeats() if ends_with_this else None)
        except KeyboardInterrupt:
            if not ends_with_this:
                return f"job {job.name!r} ({job.job_id}) runs on", CANCELLED
            client.cancel(job.job_id)
            return f"job {job.name!r} ({job.job_id}) is being cancelled", CANCELLED
        return _told(job, result), _CODES.get(result.application_status, FAILED)

    return asked_for_code("flykka attach", arguments, ask)


def _told(job: ListedJob | RunningJob, result: RemoteJobResult) -> str:
    words = {"SUCCEEDED": "has finished", "FAILED": "has failed", "CANCELED": "was cancelled"}
    ended = words.get(result.application_status, f"has ended {result.application_status}")
    lines = [f"job {job.name!r} ({job.job_id}) {ended} after {result.net_runtime_ms / 1_000:.1f} s"]
    lines += [f"{name}: {value}" for name, value in sorted(result.accumulators.items())]
    if result.cause is not None:
        print(result.cause.rstrip(), file=sys.stderr)
    return "\n".join(lines)
