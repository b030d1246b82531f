"""Commands for jobs of a running flykka: `flykka list`, `attach`, `cancel`, `stop`, `checkpoint`, `rescale`, `token`.

`flykka savepoint take` is also defined here.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from flykka.cli.arguments import describe
from flykka.cli.exit_codes import CANCELLED, FAILED, OK
from flykka.cli.remote.address import EPILOG, add_address, add_job, ask_about_job, ask_for_code, ask_servers
from flykka.client.rest_cluster_client import (
    ClientHeartbeats,
    ListedJob,
    ListedVertex,
    RemoteJobResult,
    RestClusterClient,
)
from flykka.client.running_jobs import RunningJob
from flykka.errors import ClusterError, RescaleError
from flykka.messages.wire.ids import JobId

_LIST = """\
List the jobs of a running flykka: start time, id, name and state.
"""

_ATTACH = """\
Wait until a job has ended, and print its result. With --shutdown-on-attached-exit the
job is cancelled if this command ends first: immediately after Ctrl-C, and after three
minutes if it dies.
"""

_EPILOG_OF_ATTACH = """\
exit codes:
  0    the job has finished or was stopped
  1    it has failed; or no answer, or there is no such job
  2    the command line is wrong
  130  it was cancelled
"""

_CANCEL = """\
Cancel a job: its tasks end at once. The same command continues it from its last
completed checkpoint, unless that is deleted. `flykka stop` ends a job with a
checkpoint of its own.
"""

_STOP = """\
Stop a job: it takes a savepoint, publishes its output, and finishes. The path of the
savepoint is printed: `flykka run APP.py --from-savepoint PATH` continues from it.
"""

_TAKE = """\
Take a savepoint of a running job. Its path is printed when it is complete.
"""

_CHECKPOINT = """\
Take a checkpoint of a running job now: the output of its sinks is published. Its
number is printed when it is complete.
"""

_RESCALE = """\
Change the parallelism of a running job: it takes a checkpoint, and all its tasks
restart from it with as many subtasks as there are slots for, within the bounds. N
means 1 to N, and L:N means L to N. Without bounds, the vertices and their bounds are
printed.

A vertex is specified by its name as printed, or by a unique part of its name.
"""

_TOKEN = """\
Print the token of the REST interface of a job of yours on this machine: requests
that change something need it, as in
  curl -X PATCH -H "Authorization: Bearer $(flykka token)" localhost:8081/jobs/$JOB
flykka's own commands find it by themselves, and the page asks for it.
"""

_ENDS = {"SUCCEEDED": ("has finished", OK), "FAILED": ("has failed", FAILED), "CANCELED": ("was cancelled", CANCELLED)}


def configure_list(parser: argparse.ArgumentParser) -> None:
    describe(parser, _LIST, EPILOG)
    parser.add_argument("-a", "--all", action="store_true", help="include ended jobs")
    add_address(parser)
    parser.set_defaults(run=_list)


def configure_attach(parser: argparse.ArgumentParser) -> None:
    describe(parser, _ATTACH, _EPILOG_OF_ATTACH)
    add_job(parser)
    what = "cancel the job if this command ends first"
    parser.add_argument("-sae", "--shutdown-on-attached-exit", action="store_true", help=what)
    add_address(parser)
    parser.set_defaults(run=_attach)


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    describe(parser, _CANCEL, EPILOG)
    add_job(parser)
    parser.add_argument("--delete-checkpoints", action="store_true", help="delete the checkpoints of the job")
    add_address(parser)
    parser.set_defaults(run=_cancel)


def configure_stop(parser: argparse.ArgumentParser) -> None:
    describe(parser, _STOP, EPILOG)
    add_job(parser)
    what = "the directory for the savepoint, as the job sees it (default: that of the job)"
    parser.add_argument("-p", "--savepoint-dir", metavar="DIR", help=what)
    what = "let every open window fire first, as at the end of the input: for a job that will not be continued"
    parser.add_argument("-d", "--drain", action="store_true", help=what)
    add_address(parser)
    parser.set_defaults(run=_stop)


def configure_take(parser: argparse.ArgumentParser) -> None:
    describe(parser, _TAKE, EPILOG)
    add_job(parser)
    what = "the directory for it, as the job sees it (default: that of the job)"
    parser.add_argument("-p", "--savepoint-dir", metavar="DIR", help=what)
    add_address(parser)
    parser.set_defaults(run=_take_savepoint)


def configure_checkpoint(parser: argparse.ArgumentParser) -> None:
    describe(parser, _CHECKPOINT, EPILOG)
    add_job(parser)
    what = "write all state again, so that no file of an earlier checkpoint is needed (default: only new state)"
    parser.add_argument("--full", action="store_true", help=what)
    add_address(parser)
    parser.set_defaults(run=_checkpoint)


def configure_rescale(parser: argparse.ArgumentParser) -> None:
    describe(parser, _RESCALE, EPILOG)
    add_job(parser)
    parser.add_argument("-p", "--parallelism", metavar="N", help="for all vertices, up to their limits")
    parser.add_argument(
        "--vertex", metavar="NAME=N", action="append", default=[], help="for one vertex; may be repeated"
    )
    add_address(parser)
    parser.set_defaults(run=_rescale)


def configure_token(parser: argparse.ArgumentParser) -> None:
    describe(parser, _TOKEN, EPILOG)
    add_job(parser)
    add_address(parser)
    parser.set_defaults(run=_token)


def _list(arguments: argparse.Namespace) -> int:
    def request(client: RestClusterClient) -> str:
        jobs = [job for job in client.jobs() if arguments.all or job.ended_ms < 0]
        return "\n".join(map(_job_line, jobs)) or "no job runs"

    return ask_servers("flykka list", arguments, request)


def _job_line(job: ListedJob) -> str:
    started = "-" if job.started_ms < 0 else f"{datetime.fromtimestamp(job.started_ms / 1000):%Y-%m-%d %H:%M:%S}"
    return f"{started:19}  {job.job_id}  {job.name} ({job.status})"


def _attach(arguments: argparse.Namespace) -> int:
    def request(client: RestClusterClient, job: ListedJob | RunningJob) -> tuple[str, int]:
        ends_with_this = arguments.shutdown_on_attached_exit
        try:
            result = client.wait(job.job_id, heartbeats=ClientHeartbeats() if ends_with_this else None)
        except KeyboardInterrupt:
            if not ends_with_this:
                return f"job {job.name!r} ({job.job_id}) keeps running", CANCELLED
            client.cancel(job.job_id)
            return f"job {job.name!r} ({job.job_id}) is being cancelled", CANCELLED
        return _result_text(job, result)

    return ask_for_code("flykka attach", arguments, request)


def _result_text(job: ListedJob | RunningJob, result: RemoteJobResult) -> tuple[str, int]:
    ended, code = _ENDS.get(result.application_status, (f"has ended {result.application_status}", FAILED))
    lines = [f"job {job.name!r} ({job.job_id}) {ended} after {result.net_runtime_ms / 1_000:.1f} s"]
    lines += [f"{name}: {value}" for name, value in sorted(result.accumulators.items())]
    if result.cause is not None:
        print(result.cause.rstrip(), file=sys.stderr)
    return "\n".join(lines), code


def _cancel(arguments: argparse.Namespace) -> int:
    def request(client: RestClusterClient, job: ListedJob | RunningJob) -> str:
        client.cancel(job.job_id, delete_checkpoints=arguments.delete_checkpoints)
        return f"job {job.name!r} ({job.job_id}) is being cancelled"

    return ask_about_job("flykka cancel", arguments, request)


def _stop(arguments: argparse.Namespace) -> int:
    directory, drain = arguments.savepoint_dir, arguments.drain
    return ask_about_job(
        "flykka stop", arguments, lambda client, job: client.stop_with_savepoint(job.job_id, directory, drain=drain)
    )


def _take_savepoint(arguments: argparse.Namespace) -> int:
    directory = arguments.savepoint_dir
    return ask_about_job(
        "flykka savepoint take", arguments, lambda client, job: client.trigger_savepoint(job.job_id, directory)
    )


def _checkpoint(arguments: argparse.Namespace) -> int:
    kind = "FULL" if arguments.full else "CONFIGURED"
    return ask_about_job(
        "flykka checkpoint", arguments, lambda client, job: str(client.trigger_checkpoint(job.job_id, kind))
    )


def _token(arguments: argparse.Namespace) -> int:
    def request(client: RestClusterClient, job: ListedJob | RunningJob) -> str:
        if (token := client.token) is None:
            raise ClusterError(
                f"no token is known for {client.address}: it needs none (--rest-no-token), or it serves no job of yours"
            )
        return token

    return ask_about_job("flykka token", arguments, request)


def _rescale(arguments: argparse.Namespace) -> int:
    return ask_about_job(
        "flykka rescale",
        arguments,
        lambda client, job: _rescaled(client, job.job_id, arguments.parallelism, arguments.vertex),
    )


def _rescaled(client: RestClusterClient, job_id: JobId, parallelism: str | None, assignments: list[str]) -> str:
    vertices = client.vertices(job_id)
    requirements: dict[str, tuple[int, int]] = {}
    if parallelism is not None:
        lower, upper = _bounds(parallelism)
        requirements = {
            vertex.vertex_id: (min(lower, vertex.max_parallelism), min(upper, vertex.max_parallelism))
            for vertex in vertices
        }
    for each in assignments:
        name, equals, bounds = each.rpartition("=")
        if not equals:
            raise RescaleError(f"{each!r} is not a vertex with its parallelism: NAME=N")
        requirements[_vertex(vertices, name).vertex_id] = _bounds(bounds)
    if requirements:
        client.update_requirements(job_id, requirements)
    bounds_of = client.requirements(job_id)
    return "\n".join(_vertex_line(vertex, *bounds_of[vertex.vertex_id]) for vertex in vertices)


def _bounds(text: str) -> tuple[int, int]:
    lower, _, upper = text.rpartition(":")
    try:
        return int(lower or 1), int(upper)
    except ValueError:
        raise RescaleError(f"{text!r} is not a parallelism: N, or L:N for L to N") from None


def _vertex(vertices: list[ListedVertex], name: str) -> ListedVertex:
    matches = [vertex for vertex in vertices if name in (vertex.vertex_id, vertex.name)]
    matches = matches or [vertex for vertex in vertices if name in vertex.name]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(repr(vertex.name) for vertex in matches or vertices)
    raise RescaleError(f"{'several vertices are' if matches else 'there is no vertex'} {name!r}: {listed}")


def _vertex_line(vertex: ListedVertex, lower: int, upper: int) -> str:
    bounds = str(upper) if lower == upper else f"{lower} to {upper}"
    return f"{vertex.name}: parallelism {vertex.parallelism}, {bounds} required"
