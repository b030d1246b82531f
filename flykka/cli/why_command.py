"""What `flykka why` does: asks the processes that run jobs, or replays a recorded run and asks its actors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flykka.cli.exit_codes import FAILED, OK
from flykka.cli.trace_file import UNREADABLE, import_modules, run_on_trace
from flykka.errors import TraceSelectionError
from flykka.explanation.recorded import explain_recorded
from flykka.explanation.sockets import Process, ask_all
from flykka.runtime.durations import positive_duration_ms
from flykka.runtime.errors import DurationError, ReplaySessionError
from flykka.runtime.trace.file.reader import TraceReader

_SLACK = 3.0
"""Seconds that a process has for its answer beside twice the time that each of its actors has."""


@dataclass(frozen=True, slots=True)
class _Job:
    process: Process
    told: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.told['name']!r} {self.told['id']} {self.told['status']} (process {self.process.pid})"


def why(arguments: argparse.Namespace) -> int:
    """`flykka why [JOB]`; returns the exit code."""
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


def why_recorded(arguments: argparse.Namespace) -> int:
    """`flykka why --trace FILE [--turn N]`; returns the exit code."""

    def tell(trace: TraceReader) -> int:
        import_modules(arguments.modules)
        try:
            explained = explain_recorded(trace, arguments.turn, arguments.job)
        except ReplaySessionError as refused:
            raise TraceSelectionError(str(refused)) from refused
        print(explained)
        return OK

    return run_on_trace("flykka why", arguments.trace, tell)
