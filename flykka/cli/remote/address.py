"""The arguments that say which flykka is asked, how it is found where they say nothing, and what all commands do."""

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
"""Names the server for all commands that are given none."""

EPILOG = """\
The job runs in a process that answers HTTP requests: `flykka run APP.py`, or a
program with `env.enable_rest()`. One of yours on this machine is found without
an address.

exit codes:
  0  it is done
  1  nobody answers, there is no such job, or it was refused
  2  the command line is wrong
"""


def add_address(parser: argparse.ArgumentParser) -> None:
    what = (
        f"where flykka answers: HOST:PORT, or a URL (default: what {ADDRESS_VARIABLE} says, or else where a job of"
        " yours runs on this machine)"
    )
    parser.add_argument("-m", "--address", metavar="HOST:PORT", default=os.environ.get(ADDRESS_VARIABLE), help=what)
    parser.add_argument("--token-file", metavar="FILE", help="the file with the token that the server wants")
    parser.add_argument("--ca-file", metavar="FILE", help="certificates to trust, for https")


def add_job(parser: argparse.ArgumentParser) -> None:
    what = "its name, or how its id begins; not needed where one runs"
    parser.add_argument("job", metavar="JOB", nargs="?", help=what)


def asked(
    command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient, ListedJob | RunningJob], str]
) -> int:
    """Ask about the job that is meant, and print the answer; the exit code."""
    return asked_for_code(command, arguments, lambda client, job: (ask(client, job), OK))


def asked_for_code(
    command: str,
    arguments: argparse.Namespace,
    ask: Callable[[RestClusterClient, ListedJob | RunningJob], tuple[str, int]],
) -> int:
    """Ask about the job that is meant, and print the answer; the exit code is that of the answer."""

    def answer() -> tuple[str, int]:
        if arguments.address is not None:
            client = _client(command, arguments, arguments.address)
            return ask(client, client.find(arguments.job))
        address, job = _found(running_jobs(), arguments.job)
        client = _client(command, arguments, address)
        # Of a job that runs nobody has to be asked for its id: its JobManager may be what does not answer.
        return ask(client, job or client.find(arguments.job))

    return _print(command, answer)


def asked_all(command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient], str]) -> int:
    """Ask the server that was named, or all there are, and print the answers; the worst exit code."""
    running = running_jobs()
    addresses = sorted({job.address for job in running if job.address is not None})
    if arguments.address is not None:
        addresses = [arguments.address]
    elif not addresses:
        return _print(command, lambda: (_found(running, None)[0], OK))
    return max(_print(command, partial(_ask_at, command, arguments, ask, address)) for address in addresses)


def _ask_at(
    command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient], str], address: str
) -> tuple[str, int]:
    return ask(_client(command, arguments, address)), OK


def _client(command: str, arguments: argparse.Namespace, address: str) -> RestClusterClient:
    def say(text: str) -> None:
        print(f"{command}: {text}; it is asked again", file=sys.stderr)

    return RestClusterClient(address, token_file=arguments.token_file, ca_file=arguments.ca_file, on_retry=say)


def _print(command: str, answer: Callable[[], tuple[str, int]]) -> int:
    try:
        text, code = answer()
    except FlykkaError as refused:
        return fail(f"{command}: {refused}", FAILED)
    print(text)
    return code


def _found(running: Sequence[RunningJob], wanted: str | None) -> tuple[str, RunningJob | None]:
    """Return where to ask, and the job; without it where its process must be asked which one is meant.

    Raises:
        UnknownJobError: there is nobody to ask, or there are several.
    """
    fitting = [job for job in running if wanted is None or wanted == job.name or job.job_id.startswith(wanted)]
    # A process may still tell of a job that has ended.
    candidates = fitting or running
    addresses = sorted({job.address for job in candidates if job.address is not None})
    if len(addresses) == 1:
        return addresses[0], fitting[0] if len(fitting) == 1 else None
    listed = ", ".join(f"{job.name!r} {job.job_id} (process {job.process})" for job in candidates)
    if addresses:
        raise UnknownJobError(f"there are {len(candidates)} jobs, of which one must be named: {listed}")
    if candidates:
        raise UnknownJobError(
            f"no HTTP requests are answered for {listed}: `flykka run` and env.enable_rest() make a REST interface,"
            " where flykka[web] is installed"
        )
    raise UnknownJobError("no job of yours runs on this machine; where one runs on another, its --address is needed")
