"""The diagnosis of a job: one sentence about what the job is waiting for, and facts as evidence.

Conditions are tested from the outside inwards, and the first condition that holds is reported: the job has ended; there
is no leader, or no JobMaster replies; the job starts, restarts or ends; tasks wait for slots or for their state; a Task
is unresponsive; a checkpoint waits for a task; the job works; there is nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.states import EXECUTION_TERMINAL, JOB_TERMINAL
from flykka.diagnosis.facts import AttemptFact, attempt_facts, job_facts
from flykka.diagnosis.reports import ActorReports
from flykka.diagnosis.waits import Waits, unanswered
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import (
    AttemptExplained,
    JobExplained,
    PendingExplained,
    ResourceWaitExplained,
    RestartExplained,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.views.html.markup import display, dot, element, labelled, quiet, table
from flykka.views.text.formats import STOPPED, columns, counted, lasting

PATIENCE_MS = 1_000
"""The normal duration of a checkpoint in milliseconds. Younger checkpoints are not reported as delayed."""

FOLLOWED = 64
"""The maximum number of attempts that are examined to find the attempt that delays a checkpoint."""

_LABEL = 13
_HEADER = ("task", "state", "on", "is", "for", "waits for")
_ENDING = frozenset({JobStatus.FAILING, JobStatus.CANCELLING})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDiagnosis:
    """The diagnosis of a job: a sentence that states its activity or the cause of a standstill, and the evidence.

    `facts` are labelled lines about the job. `attempts` are its most relevant attempts, and `left_out` is the number of
    other attempts.
    """

    job_name: str
    job_id: str
    answer: str
    facts: tuple[tuple[str, str], ...] = ()
    attempts: tuple[AttemptFact, ...] = ()
    left_out: int = 0

    def __str__(self) -> str:
        lines = [self.answer, "", *(f"{label:<{_LABEL}}{text}" for label, text in self.facts)]
        if self.attempts:
            lines += ["", *columns(_HEADER, self._rows())]
        if self.left_out:
            lines.append(f"and {self.left_out:,} more tasks")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        kinds = ("name-of-task", "", "", "", "", "wide")
        rows = ((name, dot(state), *others) for name, state, *others in self._rows())
        return display(
            element("div", self.answer, class_="answer"),
            labelled(self.facts),
            table(list(zip(_HEADER, kinds, strict=True)), rows),
            quiet(f"and {self.left_out:,} more tasks") if self.left_out else "",
        )

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (each.name, each.state, each.where, each.activity, each.lasting, each.waits_for) for each in self.attempts
        ]


def diagnose(reports: ActorReports) -> JobDiagnosis:
    waits = Waits(reports)
    attempts, left_out = attempt_facts(reports, waits)
    return JobDiagnosis(
        job_name=reports.job_name,
        job_id=reports.details.job_id,
        answer=_answer(reports, waits),
        facts=tuple(job_facts(reports)),
        attempts=attempts,
        left_out=left_out,
    )


def _answer(reports: ActorReports, waits: Waits) -> str:
    job = reports.job
    if job is None:
        return _without_job_master(reports)
    if job.waits_for_resources is not None:
        return _resources(reports, job.waits_for_resources)
    match job.status:
        case JobStatus.RUNNING:
            return _running(reports, job, waits)
        case JobStatus.RESTARTING:
            return _restarting(reports, job)
        case status if status in _ENDING:
            return _ending(reports, job, waits)
        case JobStatus.SUSPENDED:
            return f"job {reports.job_name!r} is suspended: this driver does not lead any more"
        case status if status in JOB_TERMINAL:
            since = _for(job.waits_for_end, reports)
            return f"job {reports.job_name!r} is {status}, and it is being archived{since}"
        case status:
            return f"job {reports.job_name!r} is {status}{_for(job.since_ms, reports)}: it has not started"


def _without_job_master(reports: ActorReports) -> str:
    name = f"job {reports.job_name!r}"
    leadership = reports.leadership
    if reports.details.status in JOB_TERMINAL:
        return _ended(reports)
    if leadership is not None and not leadership.is_leader:
        leads = f"{leadership.leader} leads" if leadership.leader else "there is no leader"
        return f"{name} waits for leadership{_for(leadership.since_ms, reports)}: {leads}"
    for part in ("the JobMaster", "the JobManager"):
        if (silence := reports.unresponsive_part(part)) is not None:
            return f"{part} of {name} is stuck: {unanswered(silence, reports.time_limit_ms)}"
    if leadership is not None and leadership.job is not None:
        return f"{name} {leadership.job}"
    return f"{name} is no longer known to the JobManager: its end is about to be reported"


def _ended(reports: ActorReports) -> str:
    name = f"job {reports.job_name!r}"
    match reports.details.status, reports.details.last_failure:
        case JobStatus.FINISHED, _ if reports.details.was_stopped:
            return f"{name} was {STOPPED}: it continues from its checkpoint when it is run again"
        case JobStatus.FINISHED, _:
            return f"{name} has FINISHED: it waits for nothing"
        case JobStatus.FAILED, cause if cause is not None:
            return f"{name} has FAILED of {cause.headline}"
        case status, _:
            return f"{name} is {status}: it waits for nothing"


def _restarting(reports: ActorReports, job: JobExplained) -> str:
    if job.restarts:
        return f"job {reports.job_name!r} {_restart(job.restarts[0], reports)}"
    because = "" if job.cause is None else f" after {job.cause.headline}"
    return f"job {reports.job_name!r} is about to restart{because}"


def _restart(restart: RestartExplained, reports: ActorReports) -> str:
    left_ms = restart.due_ms - reports.now_ms
    when = f"restarts in {lasting(left_ms)}" if left_ms > 0 else "restarts now"
    what = f" with {counted(len(restart.tasks), 'task')}" if restart.tasks else ""
    return f"{when}{what}, after {restart.cause.headline}"


def _region(reports: ActorReports, job: JobExplained, restart: RestartExplained, waits: Waits) -> str:
    ending = [each for each in job.attempts if each.state is ExecutionState.CANCELING and each.name in restart.tasks]
    if not ending:
        return f"of job {reports.job_name!r} a region {_restart(restart, reports)}"
    others = f" and {counted(len(ending) - 1, 'other')}" if len(ending) > 1 else ""
    return (
        f"a region of job {reports.job_name!r} is to restart after {restart.cause.headline}, and waits"
        f"{_for(ending[0].since_ms, reports)} for the end of {ending[0].name}{others}:"
        f" {waits.text_of(ending[0].attempt)}"
    )


def _ending(reports: ActorReports, job: JobExplained, waits: Waits) -> str:
    name, since = f"job {reports.job_name!r}", _for(job.since_ms, reports)
    alive = [attempt for attempt in job.attempts if attempt.state not in EXECUTION_TERMINAL]
    because = f" after {job.cause.headline}" if job.status is JobStatus.FAILING and job.cause else ""
    if not alive:
        return f"{name} is {job.status}{since}{because}"
    # An attempt that has replied provides more information than one that has ended.
    last = next((each for each in alive if each.attempt in reports.tasks), alive[0])
    others = f" and {counted(len(alive) - 1, 'other')}" if len(alive) > 1 else ""
    return (
        f"{name} is {job.status}{since}{because}: it waits for the end of {last.name}{others}:"
        f" {waits.text_of(last.attempt)}"
    )


def _running(reports: ActorReports, job: JobExplained, waits: Waits) -> str:
    if job.slots_requested:
        return _slots(reports, job)
    if job.waits_for_state is not None and reports.now_ms - job.waits_for_state >= PATIENCE_MS:
        since = _for(job.waits_for_state, reports)
        return f"job {reports.job_name!r} waits{since} for the state from which its tasks start"
    opening = [each for each in job.attempts if each.state is ExecutionState.DEPLOYING]
    if opening:
        return _opening(reports, opening, waits)
    if job.restarts:
        return _region(reports, job, job.restarts[0], waits)
    if job.waits_for_end is not None:
        return (
            f"all tasks of job {reports.job_name!r} have finished, and their output is being finalized"
            f"{_for(job.waits_for_end, reports)}"
        )
    return (
        _silent_task(reports, job, waits)
        or _checkpoint(reports, waits)
        or _silent_part(reports)
        or _work(reports, job, waits)
    )


def _resources(reports: ActorReports, waits: ResourceWaitExplained) -> str:
    least = f" {waits.minimum} to" if waits.minimum < waits.desired else ""
    text = f"job {reports.job_name!r} waits{_for(waits.since_ms, reports)} for{least} {counted(waits.desired, 'slot')}"
    return _with_slots(reports, text)


def _slots(reports: ActorReports, job: JobExplained) -> str:
    waiting = f"{counted(job.slots_requested, 'task')} of job {reports.job_name!r}"
    since = _for(job.slots_requested_since_ms, reports)
    verb = "waits" if job.slots_requested == 1 else "wait"
    return _with_slots(reports, f"{waiting} {verb} for a slot{since}")


def _with_slots(reports: ActorReports, text: str) -> str:
    slots = reports.slots
    if slots is None:
        silence = reports.unresponsive_part("the ResourceManager")
        why = "there is none" if silence is None else unanswered(silence, reports.time_limit_ms)
        return f"{text}: the ResourceManager does not answer: {why}"
    there = counted(len(slots.task_managers), "TaskManager")
    return f"{text}: {there} with {counted(slots.slots, 'slot')}, {slots.free or 'none'} of them free"


def _opening(reports: ActorReports, opening: list[AttemptExplained], waits: Waits) -> str:
    # An unresponsive task is more relevant than a slow one.
    first = min(opening, key=lambda attempt: (reports.unresponsive_task(attempt.attempt) is None, attempt.since_ms))
    others = f" and {counted(len(opening) - 1, 'other')}" if len(opening) > 1 else ""
    since = _for(first.since_ms, reports)
    return f"{first.name}{others} is being deployed{since} on {first.task_manager_id}: {waits.text_of(first.attempt)}"


def _silent_task(reports: ActorReports, job: JobExplained, waits: Waits) -> str | None:
    first = next((each for each in job.attempts if reports.unresponsive_task(each.attempt) is not None), None)
    return None if first is None else f"{first.name} is stuck: {waits.text_of(first.attempt)}"


def _silent_part(reports: ActorReports) -> str | None:
    first = next((each for each in reports.unresponsive if each.attempt is None), None)
    return None if first is None else f"{first.name} is stuck: {unanswered(first, reports.time_limit_ms)}"


def _checkpoint(reports: ActorReports, waits: Waits) -> str | None:
    if reports.checkpoints is None or not reports.checkpoints.pending:
        return None
    oldest = reports.checkpoints.pending[0]
    if reports.now_ms - oldest.since_ms < PATIENCE_MS:
        return None
    what = "savepoint" if oldest.is_savepoint else "checkpoint"
    since = _for(oldest.since_ms, reports)
    if not oldest.awaited or oldest.phase != "tasks":
        return f"{what} {oldest.checkpoint_id} of job {reports.job_name!r} waits for its {oldest.phase}{since}"
    culprit = _culprit(oldest, waits)
    others = len(oldest.awaited) - 1
    also = f" (nor have {counted(others, 'other')})" if others > 1 else " (nor has one other)" if others else ""
    name, text = waits.name(culprit), waits.text_of(culprit)
    return f"{name} has not acknowledged {what} {oldest.checkpoint_id}{since}{also}: {text}"


def _culprit(pending: PendingExplained, waits: Waits) -> ExecutionAttemptId:
    """Return the attempt with the shortest chain of waits among those for which a checkpoint waits."""
    return min(pending.awaited[:FOLLOWED], key=lambda attempt: len(waits.chain(attempt)))


def _work(reports: ActorReports, job: JobExplained, waits: Waits) -> str:
    name = f"job {reports.job_name!r}"
    running = [reports.tasks[each.attempt] for each in job.attempts if each.attempt in reports.tasks]
    busy = [task for task in running if task.stages]
    if busy:
        longest = min(busy, key=lambda task: task.stages[0].since_ms)
        since = _for(longest.stages[0].since_ms, reports)
        return f"{name} works: {waits.name(longest.attempt)} is running{since}: {waits.text_of(longest.attempt)}"
    full = [task for task in running if any(output.is_full for output in task.outputs)]
    if full:
        return f"{name} is back-pressured: {waits.name(full[0].attempt)}: {waits.text_of(full[0].attempt)}"
    if running and all(task.waits_for_final_checkpoint for task in running):
        return f"{name} has processed its last row and waits for the final checkpoint{_last_failure(reports)}"
    hungry = [task for task in running if task.waits_for_splits]
    if hungry:
        since = _for(max(task.activity_since_ms for task in hungry), reports)
        return f"{name} waits for input: {waits.name(hungry[0].attempt)} has nothing to read{since}"
    idle = next((task for task in running if not task.waits_for_final_checkpoint), None)
    if idle is not None:
        return f"{name} runs: {waits.name(idle.attempt)}: {waits.text_of(idle.attempt)}"
    return f"{name} is RUNNING{_for(job.since_ms, reports)}"


def _last_failure(reports: ActorReports) -> str:
    last_failed, completed = reports.details.last_failed, reports.details.last_completed
    if last_failed is None or (completed is not None and completed.checkpoint_id > last_failed.checkpoint_id):
        return ""
    return f"; the last one, {last_failed.checkpoint_id}, failed: {last_failed.failure_text}"


def _for(since_ms: int | None, reports: ActorReports) -> str:
    return "" if since_ms is None else f" for {lasting(reports.now_ms - since_ms)}"
