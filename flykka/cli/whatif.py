"""`flykka whatif`: forks a recorded run at a turn, runs the fork, and compares the outcomes. Does not load Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flykka.cli.arguments import TRACE_FILE, add_import, describe
from flykka.cli.exit_codes import DIFFERENT, OK, UNREADABLE, fail
from flykka.cli.trace.trace_file import import_modules, is_the_same_file, output_problem, run_on_trace
from flykka.replay.outcomes import RunOutcome
from flykka.runtime.durations import duration_ms
from flykka.runtime.errors import DurationError, ReplaySessionError, TraceError
from flykka.runtime.replay.fork.trace import ForkTraceRecorder
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.traces.origin import begin_of
from flykka.traces.replays import Row, seconds, side_by_side
from flykka.views.text.formats import columns
from flykka.views.text.turns import turn_line

if TYPE_CHECKING:
    from flykka.replay.job_fork import JobFork
    from flykka.runtime.replay.fork.fork import ForkRun

_DESCRIPTION = """\
Continue a recorded run from a turn with one change, and compare the result: the
message of the turn is lost, delayed, or delivered twice; an actor dies; a stage
fails. It takes seconds, in virtual time, and does not touch files of the run.

The responses of Spark, the storage and the clients are taken from the recording as
long as they fit. After that, stubs follow the protocol without rows: a fork shows
what the actors would have decided, but nothing about the data.
"""

_EPILOG = """\
examples:
  flykka whatif run.trace --at 120 --drop
  flykka whatif run.trace --at 120 --delay 5s
  flykka whatif run.trace --at 120 --crash task-manager-1 --record fork.trace

exit codes:
  0  every job ends as recorded
  1  a job ends differently
  2  there is no such file, it is not a trace, or the fault is impossible at that turn
  3  an internal error of this command
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("file", metavar="FILE", help=TRACE_FILE)
    parser.add_argument("--at", metavar="N", type=int, required=True, help="start right before turn N")
    faults = parser.add_mutually_exclusive_group()
    faults.add_argument("--drop", action="store_true", help="the message of the turn is lost")
    faults.add_argument("--delay", metavar="TIME", type=_duration, help="it arrives later, by a time such as 5s")
    faults.add_argument("--duplicate", action="store_true", help="it arrives twice")
    faults.add_argument("--crash", metavar="PATH", help="before it arrives, this actor and its children die")
    faults.add_argument("--fail-stage", action="store_true", help="before it arrives, a stage of its task fails")
    limit = "the maximum virtual time after the turn (default: 1h)"
    parser.add_argument("--limit", metavar="TIME", type=_duration, default="1h", help=limit)
    parser.add_argument("--record", metavar="FILE", help="write the forked run to another trace")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    add_import(parser)
    parser.set_defaults(run=whatif)


def _duration(text: str) -> str:
    try:
        duration_ms(text, "the duration")
    except DurationError as refusal:
        raise argparse.ArgumentTypeError(str(refusal)) from None
    return text


def whatif(arguments: argparse.Namespace) -> int:
    if arguments.record is not None and is_the_same_file(arguments.record, arguments.file):
        text = f"{arguments.record} is the trace itself: name another file with --record"
        return fail(f"flykka whatif: {text}", UNREADABLE)
    return run_on_trace("flykka whatif", arguments.file, lambda trace: _whatif(trace, arguments))


def _whatif(trace: TraceReader, arguments: argparse.Namespace) -> int:
    # Imported here because the import takes a second, which `--help` should not wait for.
    from flykka.replay.replayer import Replayer

    import_modules(arguments.modules)
    session = Replayer(modules=arguments.modules).session(trace)
    try:
        session.at(arguments.at)
        if session.divergence is not None:
            print(f"flykka whatif: the trace cannot be replayed up to turn {arguments.at}", file=sys.stderr)
            return fail(session.divergence.text(), UNREADABLE)
        fork = session.fork()
        fault = _inject(fork, arguments)
        with _recorded(trace, arguments.at, arguments.record) as recorder:
            run = fork.run(arguments.limit, recorder=recorder)
    except ReplaySessionError as refusal:
        return fail(f"flykka whatif: {refusal}", UNREADABLE)
    if arguments.json:
        print(json.dumps(_as_json(fork, run, fault), indent=2))
    else:
        _show(trace, fork, run, fault)
    return OK if fork.outcome.ends_as(fork.recorded) else DIFFERENT


def _inject(fork: JobFork, arguments: argparse.Namespace) -> str:
    if arguments.drop:
        fork.drop()
        return "its message is lost"
    if arguments.delay is not None:
        fork.delay(arguments.delay)
        return f"its message arrives {arguments.delay} later"
    if arguments.duplicate:
        fork.duplicate()
        return "its message arrives twice"
    if arguments.crash is not None:
        fork.crash(arguments.crash)
        return f"{arguments.crash} dies before it"
    if arguments.fail_stage:
        fork.fail_stage()
        return "a stage of its task fails before it"
    return "without a change"


@contextmanager
def _recorded(trace: TraceReader, number: int, path: str | None) -> Iterator[TraceRecorder | None]:
    if path is None:
        yield None
        return
    recorder = ForkTraceRecorder(path, trace, number)
    try:
        recorder.open(system=trace.header.system, seed=trace.header.seed)
    except OSError as refusal:
        raise TraceError(output_problem(path, refusal)) from refusal
    try:
        yield recorder
    finally:
        recorder.close()


def _show(trace: TraceReader, fork: JobFork, run: ForkRun, fault: str) -> None:
    began_ms = begin_of(trace)
    assert fork.turn is not None
    print(turn_line(fork.turn, began_ms))
    print(f"what if {fault}?\n")
    rows = list(side_by_side(fork.recorded, fork.outcome))
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        console.print(_table(rows))
    else:
        print("\n".join(columns(("", "recorded", "fork"), rows)))
    print(f"\nthe fork took {run.turns:,} turns in {seconds(run.duration_ms)} of virtual time: {run.ended}")
    for path, problem in run.silent.items():
        print(f"no answer was recorded for {path}: {problem}")


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("", "recorded", "fork"):
        table.add_column(title, overflow="fold")
    for label, recorded, forked in rows:
        style = "" if recorded == forked else "yellow"
        table.add_row(Text(label), Text(recorded), Text(forked, style=style))
    return table


def _as_json(fork: JobFork, run: ForkRun, fault: str) -> dict[str, Any]:
    assert fork.turn is not None
    return {
        "at": fork.turn.sequence,
        "fault": fault,
        "ends_as_recorded": fork.outcome.ends_as(fork.recorded),
        "recorded": _outcome_json(fork.recorded),
        "fork": _outcome_json(fork.outcome),
        "turns": run.turns,
        "duration_ms": run.duration_ms,
        "ended": run.ended,
        "unanswered": run.silent,
    }


def _outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    return {
        "jobs": {
            job_id: {
                "status": job.status.name,
                "has_ended": job.has_ended,
                "restarts": job.restarts,
                "failures": list(job.failures),
                "lost_task_managers": list(job.lost_task_managers),
                "completed_checkpoints": list(job.completed),
                "aborted_checkpoints": {str(number): reason for number, reason in job.aborted.items()},
                "duration_ms": job.duration_ms,
            }
            for job_id, job in outcome.jobs.items()
        },
        "turns": outcome.turns,
        "failed_turns": outcome.failed_turns,
        "raised": list(outcome.raised),
        "dead_letters": outcome.dead_letters,
        "killed": outcome.killed,
    }
