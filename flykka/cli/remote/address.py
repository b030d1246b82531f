"""Selects the running flykka for a command, by arguments or by discovery, and runs the steps shared by all commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from flykka.cli.exit_codes import FAILED, OK, fail
from flykka.client.rest_cluster_client import ListedJob, RestClusterClient
from flykka.client.running_jobs import RunningJob, running_jobs
from flykka.errors import FlykkaError, UnknownJobError

ADDRESS_VARIABLE = "FLYKKA_ADDRESS"
"""The environment variable with the server's address, for commands without an address argument."""

EPILOG = """\
The job runs in a process that serves HTTP requests: `flykka run APP.py`, or a
program with `env.enable_rest()`. A process of yours on this machine is found
without an address.

exit codes:
  0  success
  1  no answer, there is no such job, or it was refused
  2  the command line is wrong
"""


def add_address(parser: argparse.ArgumentParser) -> None:
    what = (
        f"the address of flykka: HOST:PORT, or a URL (default: {ADDRESS_VARIABLE}, else the address of a job of yours"
        " on this machine)"
    )
    parser.add_argument("-m", "--address", metavar="HOST:PORT", default=os.environ.get(ADDRESS_VARIABLE), help=what)
    parser.add_argument("--token-file", metavar="FILE", help="the file with the token that the server requires")
    parser.add_argument("--ca-file", metavar="FILE", help="certificates to trust, for https")


def add_job(parser: argparse.ArgumentParser) -> None:
    what = "its name, or the beginning of its id; not needed if only one is running"
    parser.add_argument("job", metavar="JOB", nargs="?", help=what)


def ask_about_job(
    command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient, ListedJob | RunningJob], str]
) -> int:
    return ask_for_code(command, arguments, lambda client, job: (ask(client, job), OK))


def ask_for_code(
    command: str,
    arguments: argparse.Namespace,
    ask: Callable[[RestClusterClient, ListedJob | RunningJob], tuple[str, int]],
) -> int:
    def answer() -> tuple[str, int]:
        if arguments.address is not None:
            client = _client(command, arguments, arguments.address)
            return ask(client, client.find(arguments.job))
        address, job = _discover(running_jobs(), arguments.job)
        client = _client(command, arguments, address)
        # The id of a local job is already known, and its JobManager may not respond.
        return ask(client, job or client.find(arguments.job))

    return _print(command, answer)


def ask_servers(command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient], str]) -> int:
    """Send a request to the specified server, or to all running servers. Returns the worst exit code."""
    running = running_jobs()
    addresses = sorted({job.address for job in running if job.address is not None})
    if arguments.address is not None:
        addresses = [arguments.address]
    elif not addresses:
        return _print(command, lambda: (_discover(running, None)[0], OK))
    return max(_print(command, partial(_request_at, command, arguments, ask, address)) for address in addresses)


def _request_at(
    command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient], str], address: str
) -> tuple[str, int]:
    return ask(_client(command, arguments, address)), OK


def _client(command: str, arguments: argparse.Namespace, address: str) -> RestClusterClient:
    def notify(text: str) -> None:
        print(f"{command}: {text}; retrying", file=sys.stderr)

    return RestClusterClient(address, token_file=arguments.token_file, ca_file=arguments.ca_file, on_retry=notify)


def _print(command: str, answer: Callable[[], tuple[str, int]]) -> int:
    try:
        text, code = answer()
    except FlykkaError as refused:
        return fail(f"{command}: {refused}", FAILED)
    print(text)
    return code


def _discover(running: Sequence[RunningJob], name_or_id: str | None) -> tuple[str, RunningJob | None]:
    """Return the address of the server, and the job. The job is None if the server must resolve its name.

    Raises:
        UnknownJobError: there is no server, or there are several.
    """
    matches = [
        job for job in running if name_or_id is None or name_or_id == job.name or job.job_id.startswith(name_or_id)
    ]
    # A process may still list an ended job.
    candidates = matches or [job for job in running if job.address is not None] or running
    listed = ", ".join(f"{job.name!r} {job.job_id} (process {job.process})" for job in candidates)
    match list({job.address for job in candidates}):
        case [str(address)]:
            return address, matches[0] if len(matches) == 1 else None
        case [None]:
            raise UnknownJobError(
                f"{listed} has no REST interface: `flykka run` and env.enable_rest() start one if flykka[web] is"
                " installed"
            )
        case []:
            raise UnknownJobError(
                "no job of yours is running on this machine; for a job on another machine pass its --address"
            )
        case _:
            raise UnknownJobError(f"there are {len(candidates)} jobs, so one must be specified: {listed}")
