"""The facts of a diagnosis: lines about the job, and a row for each relevant attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flykka.actors.machines.attempt.time import HELD_BACK_AFTER_MS
from flykka.actors.machines.states import EXECUTION_TERMINAL, JOB_TERMINAL
from flykka.diagnosis.reports import ActorReports
from flykka.diagnosis.waits import Waits
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import AttemptExplained, PendingExplained
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId
from flykka.views.text.failures import outcome, story
from flykka.views.text.formats import STOPPED, counted, first_of, format_bytes, format_hold, lasting

SHOWN = 12
"""The maximum number of rows, which fit on one screen."""

TOLD_FAILURES = 2
"""The number of last failures to show. `job.exception_history` has more."""

NAMED = 4
"""The maximum number of attempts that are listed by name if a checkpoint waits for them."""

_WELL_ENDED = frozenset({JobStatus.FINISHED, JobStatus.CANCELED})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFact:
    name: str
    vertex_id: JobVertexId
    state: str
    where: str
    activity: str
    lasting: str
    waits_for: str


def job_facts(reports: ActorReports) -> Iterator[tuple[str, str]]:
    """Yield labels and texts: the job, its checkpoints, slots, restarts, last failure and unresponsive actors."""
    job, details = reports.job, reports.details
    status = details.status if job is None else job.status
    since = "" if job is None else f" for {lasting(reports.now_ms - job.since_ms)}"
    restarts = "" if job is None else f", {counted(details.number_of_restarts, 'restart')}"
    status_text = STOPPED if job is None and details.was_stopped else status
    yield "job", f"{details.name!r} {details.job_id} {status_text}{since}{restarts}"
    if job is not None:
        yield "tasks", _states(job.attempts)
        for restart in job.restarts:
            yield "restart", f"due in {lasting(restart.due_ms - reports.now_ms)}, after {restart.cause.headline}"
    if status not in _WELL_ENDED:
        # Earlier failures are irrelevant if the job has finished or was cancelled.
        if details.last_failure is not None and job is None and status in JOB_TERMINAL:
            yield "failure", details.last_failure.headline
        yield from _failures(reports)
    if details.kept_checkpoint is not None:
        yield "kept", details.kept_checkpoint
    yield from _backlogs(reports)
    yield from (("retained", text) for text in (job.retained if job else ()))
    yield from _held_back(reports)
    yield from _checkpoints(reports)
    if reports.slots is not None:
        slots = reports.slots
        waiting = f", {counted(slots.pending_requests, 'request')} without one" if slots.pending_requests else ""
        there = counted(len(slots.task_managers), "TaskManager")
        yield "slots", f"{there}, {counted(slots.slots, 'slot')}, {slots.free} free{waiting}"
    if reports.unresponsive:
        yield "silent", ", ".join(each.name for each in reports.unresponsive[:SHOWN])


def _backlogs(reports: ActorReports) -> Iterator[tuple[str, str]]:
    attempts = reports.job.attempts if reports.job else ()
    for attempt in attempts:
        task = reports.tasks.get(attempt.attempt)
        if task is None or not task.files_unread:
            continue
        text = f"{attempt.name} has {counted(task.files_unread, 'file')} to read"
        if task.batch_limit_bytes is not None:
            text += f", {format_bytes(task.batch_limit_bytes)} in a batch: a second of reading"
        yield "backlog", text


def _held_back(reports: ActorReports) -> Iterator[tuple[str, str]]:
    """Yield the source with the lowest event time, if it has emitted no rows for a while."""
    attempts = reports.job.attempts if reports.job else ()
    tasks = ((attempt.name, reports.tasks.get(attempt.attempt)) for attempt in attempts)
    holds = [(name, task.held_back_by) for name, task in tasks if task is not None and task.held_back_by is not None]
    if not holds:
        return
    name, hold = min(holds, key=lambda each: each[1].watermark_ms)
    if reports.now_ms - hold.since_ms >= HELD_BACK_AFTER_MS:
        yield "event time", format_hold(name, hold, reports.now_ms).removeprefix("event time ")


def _failures(reports: ActorReports) -> Iterator[tuple[str, str]]:
    for entry in reports.details.exceptions[-TOLD_FAILURES:]:
        ago = lasting(reports.now_ms - entry.root.timestamp_ms)
        first, *others = story(entry)
        yield f"failure {entry.number}", f"{ago} ago: {first}"
        yield from (("", line) for line in (*others, outcome(entry)))


def attempt_facts(reports: ActorReports, waits: Waits) -> tuple[tuple[AttemptFact, ...], int]:
    if reports.job is None:
        return (), 0
    attempts = reports.job.attempts
    telling = sorted(range(len(attempts)), key=lambda number: _weight(attempts[number], reports))[:SHOWN]
    return tuple(_fact(attempts[number], reports, waits) for number in sorted(telling)), len(attempts) - len(telling)


def _weight(attempt: AttemptExplained, reports: ActorReports) -> tuple[int, int]:
    if reports.unresponsive_task(attempt.attempt) is not None:
        return 0, attempt.since_ms
    if attempt.state is ExecutionState.FINISHED:
        return 4, attempt.since_ms
    task = reports.tasks.get(attempt.attempt)
    if task is None or attempt.state is not ExecutionState.RUNNING:
        return 1, attempt.since_ms
    if task.stages:
        return 2, task.stages[0].since_ms
    return 3, task.activity_since_ms


def _fact(attempt: AttemptExplained, reports: ActorReports, waits: Waits) -> AttemptFact:
    link, task = waits.link(attempt.attempt), reports.tasks.get(attempt.attempt)
    is_over = attempt.state in EXECUTION_TERMINAL
    since_ms = attempt.since_ms if is_over or link.since_ms is None else link.since_ms
    return AttemptFact(
        name=attempt.name,
        vertex_id=attempt.vertex_id,
        state=str(attempt.state),
        where=str(attempt.task_manager_id or "-"),
        activity="-" if task is None or is_over else task.activity,
        lasting=lasting(reports.now_ms - since_ms),
        waits_for="" if is_over else link.why.removeprefix("it "),
    )


def _states(attempts: tuple[AttemptExplained, ...]) -> str:
    states = [attempt.state for attempt in attempts]
    counts = [(state, states.count(state)) for state in ExecutionState]
    return ", ".join(f"{count:,} {state}" for state, count in counts if count)


def _checkpoints(reports: ActorReports) -> Iterator[tuple[str, str]]:
    checkpoints = reports.checkpoints
    if checkpoints is None:
        return
    for pending in checkpoints.pending:
        yield "pending", _pending(pending, reports)
    details = reports.details
    text = f"{details.checkpoints_completed} completed, {details.checkpoints_failed} failed"
    if (completed := details.last_completed) is not None:
        ago = lasting(reports.now_ms - completed.ended_ms)
        text += f"; the last complete one, {completed.checkpoint_id}, {ago} ago"
    if (last_failed := details.last_failed) is not None:
        text += f"; {last_failed.checkpoint_id} failed: {last_failed.failure_text}"
    yield "checkpoints", text


def _pending(pending: PendingExplained, reports: ActorReports) -> str:
    names = {each.attempt: each.name for each in reports.job.attempts} if reports.job else {}
    since = lasting(reports.now_ms - pending.since_ms)
    text = f"{'savepoint' if pending.is_savepoint else 'checkpoint'} {pending.checkpoint_id} for {since}"
    if pending.phase != "tasks":
        return f"{text}, waits for its {pending.phase}"
    awaited = [names.get(attempt, str(attempt)) for attempt in pending.awaited]
    of = pending.acknowledged + len(awaited)
    return f"{text}, acknowledged by {pending.acknowledged} of {of}, waits for {first_of(awaited, NAMED) or 'no task'}"
