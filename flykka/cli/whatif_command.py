"""What `flykka whatif` does: forks a recorded run at a turn, runs the fork, and shows both ends side by side."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flykka.cli.trace_file import (
    DIFFERENT,
    OK,
    UNREADABLE,
    import_modules,
    is_the_same_file,
    output_problem,
    run_on_trace,
)
from flykka.cli.turn_text import turn_line
from flykka.replay.outcomes import JobOutcome, RunOutcome
from flykka.replay.replayer import Replayer
from flykka.runtime.errors import ReplaySessionError, TraceError
from flykka.runtime.replay.fork.trace import ForkTraceRecorder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from flykka.replay.job_fork import JobFork
    from flykka.runtime.replay.fork.fork import ForkRun
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.record.recorder import TraceRecorder

Row = tuple[str, str, str]
"""What is compared, as it was recorded, and in the fork."""


def whatif(arguments: argparse.Namespace) -> int:
    """`flykka whatif`; returns the exit code."""
    if arguments.record is not None and is_the_same_file(arguments.record, arguments.file):
        text = f"{arguments.record} is the trace itself: name another file with --record"
        print(f"flykka whatif: {text}", file=sys.stderr)
        return UNREADABLE
    return run_on_trace("flykka whatif", arguments.file, lambda trace: _whatif(trace, arguments))


def _whatif(trace: TraceReader, arguments: argparse.Namespace) -> int:
    import_modules(arguments.modules)
    session = Replayer().session(trace)
    try:
        session.at(arguments.at)
        if session.divergence is not None:
            print(f"flykka whatif: the trace cannot be replayed up to turn {arguments.at}", file=sys.stderr)
            print(session.divergence.text(), file=sys.stderr)
            return UNREADABLE
        fork = session.fork()
        fault = _inject(fork, arguments)
        with _recorded(trace, arguments.at, arguments.record) as recorder:
            run = fork.run(arguments.limit, recorder=recorder)
    except ReplaySessionError as refusal:
        print(f"flykka whatif: {refusal}", file=sys.stderr)
        return UNREADABLE
    if arguments.json:
        print(json.dumps(_as_json(fork, run, fault), indent=2))
    else:
        _show(trace, fork, run, fault)
    return OK if fork.outcome.ends_as(fork.recorded) else DIFFERENT


def _inject(fork: JobFork, arguments: argparse.Namespace) -> str:
    """Do to the fork what was asked for, and say what that is."""
    if arguments.drop:
        fork.drop()
        return "its message is lost"
    if arguments.delay is not None:
        fork.delay(arguments.delay)
        return f"its message comes {arguments.delay} later"
    if arguments.duplicate:
        fork.duplicate()
        return "its message comes twice"
    if arguments.crash is not None:
        fork.crash(arguments.crash)
        return f"{arguments.crash} dies before it"
    if arguments.fail_stage:
        fork.fail_stage()
        return "a stage of its task fails before it"
    return "nothing is changed"


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
    began_ms = next((record.now_ms for record in trace.records()), 0)
    assert fork.turn is not None
    print(turn_line(fork.turn, began_ms))
    print(f"what if {fault}?\n")
    rows = list(side_by_side(fork.recorded, fork.outcome))
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        console.print(_table(rows))
    else:
        _print_plain(rows)
    print(f"\nthe fork took {run.turns:,} turns in {_seconds(run.duration_ms)} of virtual time: {run.ended}")
    for path, said in run.silent.items():
        print(f"no answer was recorded for {path}: {said}")


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("", "recorded", "fork"):
        table.add_column(title, overflow="fold")
    for label, recorded, forked in rows:
        style = "" if recorded == forked else "yellow"
        table.add_row(Text(label), Text(recorded), Text(forked, style=style))
    return table


def _print_plain(rows: list[Row]) -> None:
    everything = [("", "recorded", "fork"), *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(2)]
    for label, recorded, forked in everything:
        print(f"{label:<{widths[0]}}  {recorded:<{widths[1]}}  {forked}".rstrip())


def side_by_side(recorded: RunOutcome, forked: RunOutcome) -> Iterator[Row]:
    """What came of the jobs and of the run, as it was recorded and in the fork."""
    for job_id in dict.fromkeys([*recorded.jobs, *forked.jobs]):
        here, there = _job(recorded.jobs.get(job_id)), _job(forked.jobs.get(job_id))
        yield f"job {job_id}", here.pop("status"), there.pop("status")
        for label, said in here.items():
            if said != "-" or there[label] != "-":
                yield f"  {label}", said, there[label]
    yield "turns", f"{recorded.turns:,}", f"{forked.turns:,}"
    yield "  that failed", f"{recorded.failed_turns:,}", f"{forked.failed_turns:,}"
    if recorded.raised or forked.raised:
        yield "  because of", "; ".join(recorded.raised) or "-", "; ".join(forked.raised) or "-"
    yield "dead letters", f"{recorded.dead_letters:,}", f"{forked.dead_letters:,}"
    yield "killed actors", f"{len(recorded.killed):,}", f"{len(forked.killed):,}"


def _job(job: JobOutcome | None) -> dict[str, str]:
    """What is shown of a job, by its label; a dash for nothing."""
    if job is None:
        return dict.fromkeys(("status", "restarts", "because of", "lost", "checkpoints", "given up", "duration"), "-")
    return {
        "status": job.status.name,
        "restarts": str(job.restarts),
        "because of": "; ".join(job.failures) or "-",
        "lost": ", ".join(job.lost_task_managers) or "-",
        "checkpoints": _ranges(list(job.completed)) or "-",
        "given up": ", ".join(f"{number} {reason}" for number, reason in job.aborted.items()) or "-",
        "duration": _seconds(job.duration_ms),
    }


def _ranges(numbers: list[int]) -> str:
    """`1-3, 5` for 1, 2, 3 and 5."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, each)) for each in ranges)


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f} s"


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
