"""`flykka token`: prints the token of the REST interface of a job, for other clients than flykka's own."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked
from flykka.client.rest_cluster_client import RestClusterClient
from flykka.errors import ClusterError

_DESCRIPTION = """\
Print the token of the REST interface of a job of yours on this machine: requests
that change something need it, as in
  curl -X PATCH -H "Authorization: Bearer $(flykka token)" localhost:8081/jobs/$JOB
flykka's own commands find it by themselves, and the page asks for it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka token`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    add_address(parser)
    parser.set_defaults(run=token)


def token(arguments: argparse.Namespace) -> int:
    """`flykka token`; returns the exit code."""
    return asked("flykka token", arguments, lambda client, job: _token(client))


def _token(client: RestClusterClient) -> str:
    if client.token is None:
        raise ClusterError(
            f"no token is known for {client.address}: it needs none (--rest-no-token), or no job of yours runs there"
        )
    return client.token
