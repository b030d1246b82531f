"""The conclusion from the answers: one sentence that says what the job waits for, and the facts that it rests on.

Looked for from the outside inwards, and the first that holds is the answer: has the job ended; does nobody lead, or
nobody answer; does it start, restart or end; do tasks wait for slots or for their state; is there a Task that is
silent; does a checkpoint wait for somebody; does it work; is there nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.states import JOB_TERMINAL
from flykka.console.formats import STOPPED, format_cause
from flykka.explanation.answers import Answers
from flykka.explanation.facts import AttemptFact, attempt_facts, job_facts
from flykka.explanation.waits import Waits, silent
from flykka.explanation.words import counted, lasting
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import AttemptExplained, JobExplained, PendingExplained, RestartExplained
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId

PATIENCE_MS = 1_000
"""A checkpoint takes its time: one that is younger is nothing that the job waits for."""

FOLLOWED = 64
"""So many of the attempts that a checkpoint waits for are looked at for the one that holds it up."""

_ENDING = frozenset({JobStatus.FAILING, JobStatus.CANCELLING})
_ENDED = frozenset({ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWhy:
    """Why a job does not go on, or what it is at where it does: the answer in one sentence, and what it rests on.

    `facts` are labelled lines about the job; `attempts` those of its attempts that tell something, `left_out` how many
    others there are.
    """

    job_name: str
    job_id: str
    answer: str
    facts: tuple[tuple[str, str], ...] = ()
    attempts: tuple[AttemptFact, ...] = ()
    left_out: int = 0

    def __str__(self) -> str:
        from flykka.explanation.why_text import why_text

        return why_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from flykka.notebook.why_html import why_html

        return why_html(self)


def conclude(answers: Answers) -> JobWhy:
    """What is the matter."""
    waits = Waits(answers)
    attempts, left_out = attempt_facts(answers, waits)
    return JobWhy(
        job_name=answers.job_name,
        job_id=answers.job_id,
        answer=_answer(answers, waits),
        facts=tuple(job_facts(answers)),
        attempts=attempts,
        left_out=left_out,
    )


def _answer(answers: Answers, waits: Waits) -> str:
    job = answers.job
    if job is None:
        return _without_job_master(answers)
    match job.status:
        case JobStatus.RUNNING:
            return _running(answers, job, waits)
        case JobStatus.RESTARTING:
            return _restarting(answers, job)
        case status if status in _ENDING:
            return _ending(answers, job, waits)
        case JobStatus.SUSPENDED:
            return f"job {answers.job_name!r} is suspended: this driver does not lead any more"
        case status if status in JOB_TERMINAL:
            since = _for(job.waits_for_end, answers)
            return f"job {answers.job_name!r} is {status}, and what it leaves is being put away{since}"
        case status:
            return f"job {answers.job_name!r} is {status}{_for(job.since_ms, answers)}: it has not begun"


def _without_job_master(answers: Answers) -> str:
    name = f"job {answers.job_name!r}"
    leadership = answers.leadership
    if answers.status in JOB_TERMINAL:
        return _ended(answers)
    if leadership is not None and not leadership.is_leader:
        who = f"{leadership.leader} leads" if leadership.leader else "there is no leader"
        return f"{name} waits for leadership{_for(leadership.since_ms, answers)}: {who}"
    for part in ("the JobMaster", "the JobManager"):
        if (silence := answers.silence_of_part(part)) is not None:
            return f"{part} of {name} is stuck: {silent(silence, answers.time_limit_ms)}"
    if leadership is not None and leadership.job is not None:
        return f"{name} {leadership.job}"
    return f"{name} is not known to the JobManager any more: its end is about to be told"


def _ended(answers: Answers) -> str:
    name = f"job {answers.job_name!r}"
    match answers.status, answers.failure:
        case JobStatus.FINISHED, _ if answers.kept_checkpoint is not None:
            return f"{name} was {STOPPED}: it continues from its checkpoint when it is run again"
        case JobStatus.FINISHED, _:
            return f"{name} has FINISHED: it waits for nothing"
        case JobStatus.FAILED, cause if cause is not None:
            return f"{name} has FAILED of {format_cause(cause)}"
        case status, _:
            return f"{name} is {status}: it waits for nothing"


def _restarting(answers: Answers, job: JobExplained) -> str:
    if job.restarts:
        return f"job {answers.job_name!r} {_restart(job.restarts[0], answers)}"
    because = "" if job.cause is None else f" after {format_cause(job.cause)}"
    return f"job {answers.job_name!r} is about to restart{because}"


def _restart(restart: RestartExplained, answers: Answers) -> str:
    left_ms = restart.due_ms - answers.now_ms
    when = f"restarts in {lasting(left_ms)}" if left_ms > 0 else "restarts now"
    what = f" with {counted(len(restart.tasks), 'task')}" if restart.tasks else ""
    return f"{when}{what}, after {format_cause(restart.cause)}"


def _region(answers: Answers, job: JobExplained, restart: RestartExplained, waits: Waits) -> str:
    left = [each for each in job.attempts if each.state is ExecutionState.CANCELING and each.name in restart.tasks]
    if not left:
        return f"of job {answers.job_name!r} a region {_restart(restart, answers)}"
    others = f" and {counted(len(left) - 1, 'other')}" if len(left) > 1 else ""
    return (
        f"a region of job {answers.job_name!r} is to restart after {format_cause(restart.cause)}, and waits"
        f"{_for(left[0].since_ms, answers)} for the end of {left[0].name}{others}: {waits.told(left[0].attempt)}"
    )


def _ending(answers: Answers, job: JobExplained, waits: Waits) -> str:
    name, since = f"job {answers.job_name!r}", _for(job.since_ms, answers)
    left = [attempt for attempt in job.attempts if attempt.state not in _ENDED]
    because = f" after {format_cause(job.cause)}" if job.status is JobStatus.FAILING and job.cause else ""
    if not left:
        return f"{name} is {job.status}{since}{because}"
    # An attempt that says something is more to the point than one that is gone.
    last = next((each for each in left if each.attempt in answers.tasks), left[0])
    others = f" and {counted(len(left) - 1, 'other')}" if len(left) > 1 else ""
    return (
        f"{name} is {job.status}{since}{because}: it waits for the end of {last.name}{others}:"
        f" {waits.told(last.attempt)}"
    )


def _running(answers: Answers, job: JobExplained, waits: Waits) -> str:
    if job.slots_requested:
        return _slots(answers, job)
    if job.waits_for_state is not None and answers.now_ms - job.waits_for_state >= PATIENCE_MS:
        since = _for(job.waits_for_state, answers)
        return f"job {answers.job_name!r} waits{since} to hear from which state its tasks start"
    opening = [each for each in job.attempts if each.state is ExecutionState.DEPLOYING]
    if opening:
        return _opening(answers, opening, waits)
    if job.restarts:
        return _region(answers, job, job.restarts[0], waits)
    if job.waits_for_end is not None:
        return (
            f"all tasks of job {answers.job_name!r} have finished, and their output is put in its place"
            f"{_for(job.waits_for_end, answers)}"
        )
    return (
        _silent_task(answers, job, waits)
        or _checkpoint(answers, waits)
        or _silent_part(answers)
        or _work(answers, job, waits)
    )


def _slots(answers: Answers, job: JobExplained) -> str:
    waiting = f"{counted(job.slots_requested, 'task')} of job {answers.job_name!r}"
    since = _for(job.slots_requested_since_ms, answers)
    verb = "waits" if job.slots_requested == 1 else "wait"
    text = f"{waiting} {verb} for a slot{since}"
    slots = answers.slots
    if slots is None:
        silence = answers.silence_of_part("the ResourceManager")
        why = "it is not there" if silence is None else silent(silence, answers.time_limit_ms)
        return f"{text}: the ResourceManager cannot say where from: {why}"
    there = counted(len(slots.task_managers), "TaskManager")
    return f"{text}: {there} with {counted(slots.slots, 'slot')}, {slots.free or 'none'} of them free"


def _opening(answers: Answers, opening: list[AttemptExplained], waits: Waits) -> str:
    # Who is silent is more to the point than who is only slow.
    first = min(opening, key=lambda attempt: (answers.silence_of(attempt.attempt) is None, attempt.since_ms))
    others = f" and {counted(len(opening) - 1, 'other')}" if len(opening) > 1 else ""
    since = _for(first.since_ms, answers)
    return f"{first.name}{others} is made ready{since} on {first.task_manager_id}: {waits.told(first.attempt)}"


def _silent_task(answers: Answers, job: JobExplained, waits: Waits) -> str | None:
    first = next((each for each in job.attempts if answers.silence_of(each.attempt) is not None), None)
    return None if first is None else f"{first.name} is stuck: {waits.told(first.attempt)}"


def _silent_part(answers: Answers) -> str | None:
    first = next((each for each in answers.silent if each.attempt is None), None)
    return None if first is None else f"{first.who} is stuck: {silent(first, answers.time_limit_ms)}"


def _checkpoint(answers: Answers, waits: Waits) -> str | None:
    if answers.checkpoints is None or not answers.checkpoints.pending:
        return None
    oldest = answers.checkpoints.pending[0]
    if answers.now_ms - oldest.since_ms < PATIENCE_MS:
        return None
    what = "savepoint" if oldest.is_savepoint else "checkpoint"
    since = _for(oldest.since_ms, answers)
    if not oldest.awaited or oldest.phase != "tasks":
        return f"{what} {oldest.checkpoint_id} of job {answers.job_name!r} waits for its {oldest.phase}{since}"
    culprit = _culprit(oldest, waits)
    others = len(oldest.awaited) - 1
    also = f" (nor have {counted(others, 'other')})" if others > 1 else " (nor has another)" if others else ""
    return (
        f"{waits.name(culprit)} has not acknowledged {what} {oldest.checkpoint_id}{since}{also}: {waits.told(culprit)}"
    )


def _culprit(pending: PendingExplained, waits: Waits) -> ExecutionAttemptId:
    """Of those that a checkpoint waits for, the one that waits for nobody; else one whose wait ends soonest."""
    return min(pending.awaited[:FOLLOWED], key=lambda attempt: len(waits.chain(attempt)))


def _work(answers: Answers, job: JobExplained, waits: Waits) -> str:
    name = f"job {answers.job_name!r}"
    running = [answers.tasks[each.attempt] for each in job.attempts if each.attempt in answers.tasks]
    busy = [task for task in running if task.stages]
    if busy:
        longest = min(busy, key=lambda task: task.stages[0].since_ms)
        since = _for(longest.stages[0].since_ms, answers)
        return f"{name} works: {waits.name(longest.attempt)} is at it{since}: {waits.told(longest.attempt)}"
    full = [task for task in running if any(output.is_full for output in task.outputs)]
    if full:
        return f"{name} is back-pressured: {waits.name(full[0].attempt)}: {waits.told(full[0].attempt)}"
    if running and all(task.waits_for_final_checkpoint for task in running):
        return f"{name} has processed its last row and waits for the final checkpoint{_last_failure(answers)}"
    hungry = [task for task in running if task.waits_for_splits]
    if hungry:
        since = _for(max(task.activity_since_ms for task in hungry), answers)
        return f"{name} waits for input: {waits.name(hungry[0].attempt)} has nothing to read{since}"
    idle = next((task for task in running if not task.waits_for_final_checkpoint), None)
    if idle is not None:
        return f"{name} runs: {waits.name(idle.attempt)}: {waits.told(idle.attempt)}"
    return f"{name} is RUNNING{_for(job.since_ms, answers)}"


def _last_failure(answers: Answers) -> str:
    checkpoints = answers.checkpoints
    if checkpoints is None or checkpoints.last_failed_id is None:
        return ""
    if (checkpoints.last_completed_id or 0) > checkpoints.last_failed_id:
        return ""
    return f"; the last one, {checkpoints.last_failed_id}, failed: {checkpoints.last_failure}"


def _for(since_ms: int | None, answers: Answers) -> str:
    return "" if since_ms is None else f" for {lasting(answers.now_ms - since_ms)}"
