"""The story of a job: its submission, scheduling, checkpoints, failures, restores and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flykka.runtime.durations import format_ms
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Killed, Turn
from flykka.runtime.trace.text import failure_of, failure_text
from flykka.traces.actor_directory import ActorDirectory, ActorKind, Facts, facts_of, kind_of
from flykka.traces.story import Story, StoryPart, StoryStep, selection_error, step_of

JOB_MESSAGES: Final = {
    "job.submit": (ActorKind.JOB_MANAGER, "is asked to run it"),
    "job_control.accepted": (ActorKind.JOB_MANAGER, "has stored it"),
    "job_control.refused": (ActorKind.JOB_MANAGER, "refuses it"),
    "job_control.restart_due": (ActorKind.JOB_MASTER, "restarts it"),
    "job.cancel": (ActorKind.JOB_MANAGER, "is asked to cancel it"),
    "job.stop": (ActorKind.JOB_MANAGER, "is asked to stop it"),
    "job.trigger_savepoint": (ActorKind.JOB_MANAGER, "is asked for a savepoint"),
    "coordination.too_many_failures": (ActorKind.JOB_MASTER, "is notified that too many checkpoints have failed"),
    "coordination.savepoint_completed": (ActorKind.JOB_MASTER, "has a savepoint"),
    "coordination.savepoint_failed": (ActorKind.JOB_MASTER, "has no savepoint"),
    "job_control.ended": (ActorKind.JOB_MANAGER, "is notified that it has ended"),
}
"""The messages that concern a job: the recipient of each, and the text for it."""

_TASKS: Final = "tasks"
_CHECKPOINTS: Final = "checkpoints"


def job_story(trace: TraceReader, job: str = "") -> Story:
    """Return the story of the job whose id begins with this text. Without a text, return the story of the only job.

    Raises:
        TraceSelectionError: there is no such job in the trace, or several.
    """
    actors, parts, kills = ActorDirectory(), dict[str, StoryPart](), list[StoryStep]()
    for record in exactly_in_order(trace):
        actors.learn(record)
        if isinstance(record, Killed) and kind_of(record.ref.path) is ActorKind.OTHER:
            kills.append(_step(record, actors, "is killed", failed=True))
        elif isinstance(record, Turn):
            _add_step(parts, record, actors)
    fitting = sorted(each for each in parts if each.startswith(job))
    if len(fitting) != 1:
        raise selection_error(trace, "job", job, fitting, sorted(parts))
    part = parts[fitting[0]]
    first, last = part.steps[0].turn, part.steps[-1].turn
    during = [kill for kill in kills if first <= kill.turn <= last]
    part.steps = sorted([*part.steps, *during], key=lambda step: step.turn)
    return part.story(f"job {fitting[0]}", trace)


def _add_step(parts: dict[str, StoryPart], turn: Turn, actors: ActorDirectory) -> None:
    kind, facts = kind_of(turn.recipient.path), facts_of(turn.message)
    if facts is not None and facts.tag in JOB_MESSAGES and JOB_MESSAGES[facts.tag][0] is kind:
        job = _job_in(facts) or actors.job_at(turn.recipient.path)
        if job is not None:
            story = parts.setdefault(job, StoryPart())
            failure = failure_of(turn)
            why = "" if failure is None else failure_text(failure)
            detail = ", ".join(filter(None, (_detail(facts), why)))
            story.steps.append(_step(turn, actors, JOB_MESSAGES[facts.tag][1], detail, failed=bool(why)))
    if kind is ActorKind.JOB_MASTER:
        for announced in _announced(turn):
            story = parts.setdefault(str(announced.get("job_id")), StoryPart())
            if announced.tag == "job.status_changed":
                story.outcome = str(announced.get("status"))
            story.steps.append(_announcement(turn, announced, actors))


def _job_in(facts: Facts) -> str | None:
    graph = facts.part("job_graph")
    job: str | None = (graph or facts).get("job_id")
    return job


def _detail(facts: Facts) -> str:
    graph = facts.part("job_graph")
    if graph is not None:
        return f"{graph.get('name')!r} of {len(graph.get('vertices') or ()):,} vertices"
    return ", ".join(str(value) for name in ("status", "path", "reason") if (value := facts.get(name)) is not None)


def _announced(turn: Turn) -> Iterator[Facts]:
    """Yield a JobMaster's notifications to its listeners, each once."""
    messages: list[object] = []
    for effect in turn.effects:
        if not isinstance(effect, Send) or effect.message in messages:
            continue
        messages.append(effect.message)
        facts = facts_of(effect.message)
        if facts is not None and facts.tag in ANNOUNCEMENTS:
            yield facts


ANNOUNCEMENTS: Final = (
    "job.status_changed",
    "job.execution_state_changed",
    "job.checkpoint_completed",
    "job.checkpoint_aborted",
    "job.restored",
    "job.task_manager_lost",
)


def _announcement(turn: Turn, facts: Facts, actors: ActorDirectory) -> StoryStep:
    match facts.tag:
        case "job.status_changed":
            why = _failure(facts, "cause")
            return _step(turn, actors, f"the job is {facts.get('status')}", why, failed=bool(why))
        case "job.execution_state_changed":
            why, state = _failure(facts, "failure"), str(facts.get("state"))
            if why:
                return _step(turn, actors, f"{facts.get('task_name')} is {state}", why, failed=True)
            return _step(turn, actors, state, str(facts.get("task_name")), group=_TASKS)
        case "job.checkpoint_completed":
            which = f"{facts.get('checkpoint_id')} in {format_ms(facts.get('duration_ms'))}"
            return _step(turn, actors, "completed", which, group=_CHECKPOINTS)
        case "job.checkpoint_aborted":
            return _step(turn, actors, f"checkpoint {facts.get('checkpoint_id')} is aborted", str(facts.get("reason")))
        case "job.restored":
            checkpoint = facts.get("checkpoint_id")
            whence = "the beginning" if checkpoint is None else f"checkpoint {checkpoint}"
            return _step(turn, actors, f"starts from {whence}")
        case _:
            return _step(turn, actors, f"has lost {facts.get('task_manager')}", str(facts.get("reason")), failed=True)


def _failure(facts: Facts, name: str) -> str:
    failure = facts.part(name)
    return "" if failure is None else " ".join(f"{failure.get('type_name')}: {failure.get('message')}".split())


def _step(record: Turn | Killed, actors: ActorDirectory, text: str, detail: str = "", **more: Any) -> StoryStep:
    path = record.ref.path if isinstance(record, Killed) else record.recipient.path
    return step_of(record, actors.name_of(path), text, detail, **more)
