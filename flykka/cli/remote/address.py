"""The arguments that say which flykka is asked, and what all commands do where it does not answer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from flykka.cli.exit_codes import FAILED
from flykka.client.rest_cluster_client import RestClusterClient
from flykka.errors import FlykkaError

ADDRESS_VARIABLE = "FLYKKA_ADDRESS"
"""Names the server for all commands that are given none."""

EPILOG = """\
The job runs in a process that answers HTTP requests: `flykka run APP.py --rest 8081`.

exit codes:
  0  it is done
  1  nobody answers, there is no such job, or it was refused
  2  the command line is wrong
"""


def add_address(parser: argparse.ArgumentParser, *, is_needed: bool = True) -> None:
    """Add what says which server is asked."""
    default = os.environ.get(ADDRESS_VARIABLE) if is_needed else None
    what = "where flykka answers: HOST:PORT, or a URL"
    if is_needed:
        what += f" (default: what {ADDRESS_VARIABLE} says)"
    parser.add_argument(
        "-m", "--address", metavar="HOST:PORT", default=default, required=is_needed and default is None, help=what
    )
    parser.add_argument("--token-file", metavar="FILE", help="the file with the token that the server wants")
    parser.add_argument("--ca-file", metavar="FILE", help="certificates to trust, for https")


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add what says which job is meant."""
    what = "its name, or how its id begins; not needed where one runs"
    parser.add_argument("job", metavar="JOB", nargs="?", help=what)


def asked(command: str, arguments: argparse.Namespace, ask: Callable[[RestClusterClient], str]) -> int:
    """Ask, and print the answer; the exit code."""
    try:
        client = RestClusterClient(arguments.address, token_file=arguments.token_file, ca_file=arguments.ca_file)
        print(ask(client))
    except FlykkaError as refused:
        print(f"{command}: {refused}", file=sys.stderr)
        return FAILED
    return 0
