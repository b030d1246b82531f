"""`flykka why`: asks the processes that run jobs, or replays a recorded run and asks its actors. Loads no Spark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flykka.cli.arguments import add_import, describe
from flykka.cli.exit_codes import FAILED, OK, UNREADABLE
from flykka.cli.remote.address import add_address, asked
from flykka.cli.trace.trace_file import import_modules, run_on_trace
from flykka.diagnosis.sockets import Process, ask_all
from flykka.errors import TraceSelectionError
from flykka.runtime.durations import positive_duration_ms
from flykka.runtime.errors import DurationError, ReplaySessionError
from flykka.runtime.trace.file.reader import TraceReader

_DESCRIPTION = """\
Why does a job not go on? Asks the processes of yours on this machine that run
jobs, from another terminal: who waits for whom, since when, and how far stages
are. The first line is the answer. It is there also when an actor is stuck: who
does not answer is told as such.

With --address a flykka is asked that answers HTTP requests, on any machine. With
--trace the same is told of a recorded run, at its end or behind a turn.
"""

_EPILOG = """\
examples:
  flykka why                          the job that runs
  flykka why prices                   one of several, by its name or the begin of its id
  flykka why --address host:8081
  flykka why --trace run.trace --turn 142

exit codes:
  0  there is an answer
  1  there is no such job, or there are several and none was named
  2  the trace is not there or no trace, or there is no such turn
  3  an error of this command itself
"""

_SLACK = 3.0
"""Seconds that a process has for its answer beside twice the time that each of its actors has."""


@dataclass(frozen=True, slots=True)
class _Job:
    process: Process
    told: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.told['name']!r} {self.told['id']} {self.told['status']} (process {self.process.pid})"


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe `flykka why`."""
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument(
        "job", metavar="JOB", nargs="?", help="its name, or how its id begins; not needed where one runs"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", default="2s", help="how long each actor has for its answer (default: %(default)s)"
    )
    add_address(parser, is_needed=False)
    parser.add_argument("--trace", metavar="FILE", help="a recorded run instead; an address such as s3://... too")
    parser.add_argument("--turn", metavar="N", type=int, help="behind this turn of the recorded run, not at its end")
    add_import(parser)
    parser.set_defaults(run=why, parser=parser)


def why(arguments: argparse.Namespace) -> int:
    """`flykka why`; returns the exit code."""
    if arguments.turn is not None and arguments.trace is None:
        arguments.parser.error("--turn N needs --trace FILE")
    if arguments.address is not None:
        return asked("flykka why", arguments, lambda client: client.why(client.find(arguments.job).job_id))
    return _why_running(arguments) if arguments.trace is None else _why_recorded(arguments)


def _why_running(arguments: argparse.Namespace) -> int:
    try:
        timeout = positive_duration_ms(arguments.timeout, "time for an answer") / 1_000
        question = {"job": arguments.job, "timeout": timeout}
        processes = list(ask_all(question, 2 * timeout + _SLACK))
    except (DurationError, OSError) as refused:
        print(f"flykka why: {refused}", file=sys.stderr)
        return UNREADABLE
    silent = [process for process in processes if process.silent]
    for process in silent:
        print(f"flykka why: process {process.pid} does not answer: it is stopped, or busy in native code")
    jobs = [_Job(process, told) for process in processes if not process.silent for told in process.answer["jobs"]]
    running = [job for job in jobs if not job.told["done"]]
    return _tell(jobs if arguments.job is not None or not running else running, arguments.job, someone=bool(silent))


def _tell(jobs: Sequence[_Job], wanted: str | None, *, someone: bool) -> int:
    if len(jobs) == 1:
        print(jobs[0].told["why"])
        return OK
    if not jobs:
        if not someone:
            what = "no job runs here, in no process of yours" if wanted is None else f"there is no job {wanted!r}"
            print(f"flykka why: {what}; of a run that is over, its trace tells: --trace FILE", file=sys.stderr)
        return FAILED
    for job in jobs:
        print(f"{job}: {job.told['why'].splitlines()[0]}")
    print(f"flykka why: there are {len(jobs)} jobs; name one, or the begin of its id", file=sys.stderr)
    return FAILED


def _why_recorded(arguments: argparse.Namespace) -> int:
    # The actors take a second to load, which `--help` should not have to wait for.
    from flykka.traces.diagnosis import diagnose_recorded

    def tell(trace: TraceReader) -> int:
        import_modules(arguments.modules)
        try:
            explained = diagnose_recorded(trace, arguments.turn, arguments.job)
        except ReplaySessionError as refused:
            raise TraceSelectionError(str(refused)) from refused
        print(explained)
        return OK

    return run_on_trace("flykka why", arguments.trace, tell)
