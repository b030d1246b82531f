"""`flykka rescale`: has a job of a running flykka go on with another parallelism."""

from __future__ import annotations

import argparse

from flykka.cli.arguments import describe
from flykka.cli.remote.address import EPILOG, add_address, add_job, asked
from flykka.client.rest_cluster_client import ListedVertex, RestClusterClient
from flykka.errors import RescaleError
from flykka.messages.wire.ids import JobId

_DESCRIPTION = """\
Have a job go on with another parallelism: it takes a checkpoint, and all its tasks
restart from there with as many subtasks as there are slots for, within the bounds
that are said. N stands for 1 to N, and L:N for L to N. Without any, the vertices
and their bounds are printed.

A vertex is named as it is printed, or by a part of its name that no other has.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka rescale`."""
    describe(parser, _DESCRIPTION, EPILOG)
    add_job(parser)
    parser.add_argument("-p", "--parallelism", metavar="N", help="of all vertices that can have it")
    parser.add_argument(
        "--vertex", metavar="NAME=N", action="append", default=[], help="of one vertex; may be said several times"
    )
    add_address(parser)
    parser.set_defaults(run=rescale)


def rescale(arguments: argparse.Namespace) -> int:
    """`flykka rescale`; returns the exit code."""
    return asked(
        "flykka rescale",
        arguments,
        lambda client, job: _rescaled(client, job.job_id, arguments.parallelism, arguments.vertex),
    )


def _rescaled(client: RestClusterClient, job_id: JobId, parallelism: str | None, named: list[str]) -> str:
    vertices = client.vertices(job_id)
    wanted: dict[str, tuple[int, int]] = {}
    if parallelism is not None:
        lower, upper = _bounds(parallelism)
        wanted = {
            vertex.vertex_id: (min(lower, vertex.max_parallelism), min(upper, vertex.max_parallelism))
            for vertex in vertices
        }
    for each in named:
        name, equals, said = each.rpartition("=")
        if not equals:
            raise RescaleError(f"{each!r} is no vertex with its parallelism: NAME=N")
        wanted[_vertex(vertices, name).vertex_id] = _bounds(said)
    if wanted:
        client.update_requirements(job_id, wanted)
    bounds_of = client.requirements(job_id)
    return "\n".join(_line(vertex, *bounds_of[vertex.vertex_id]) for vertex in vertices)


def _bounds(said: str) -> tuple[int, int]:
    """The bounds in a text. Raises `RescaleError` where there are none."""
    lower, _, upper = said.rpartition(":")
    try:
        return int(lower or 1), int(upper)
    except ValueError:
        raise RescaleError(f"{said!r} is no parallelism: N, or L:N for L to N") from None


def _vertex(vertices: list[ListedVertex], name: str) -> ListedVertex:
    """The vertex that is meant. Raises `RescaleError` where there is none, or there are several."""
    fitting = [vertex for vertex in vertices if name in (vertex.vertex_id, vertex.name)]
    fitting = fitting or [vertex for vertex in vertices if name in vertex.name]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(repr(vertex.name) for vertex in fitting or vertices)
    raise RescaleError(f"{'several vertices are' if fitting else 'there is no vertex'} {name!r}: {listed}")


def _line(vertex: ListedVertex, lower: int, upper: int) -> str:
    bounds = str(upper) if lower == upper else f"{lower} to {upper}"
    return f"{vertex.name}: parallelism {vertex.parallelism}, {bounds} required"
