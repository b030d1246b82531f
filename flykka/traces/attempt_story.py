"""The story of an execution attempt: its deployment, restore, work, checkpoints and end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_name
from flykka.traces.actor_directory import ActorDirectory, ActorKind, Attempt, Facts, facts_of, kind_of
from flykka.traces.story import NAMED, Story, StoryPart, StoryStep, selection_error, step_of

_WORK: Final = "work"

STEPS: Final[Mapping[str, tuple[ActorKind | None, str, str | None]]] = {
    "task.submit": (ActorKind.OTHER, "deploys it", None),
    "attempt.open_chain": (ActorKind.BRIDGE, "opens its chain", None),
    "attempt.chain_opened": (ActorKind.TASK, "has opened its chain", None),
    "task.update_execution_state": (ActorKind.JOB_MASTER, "is notified of its state", None),
    "attempt.read_splits": (ActorKind.BRIDGE, "reads splits", _WORK),
    "attempt.process_batch": (ActorKind.BRIDGE, "takes a batch", _WORK),
    "attempt.advance_watermark": (ActorKind.BRIDGE, "advances event time", _WORK),
    "attempt.stage_result": (ActorKind.TASK, "finishes a stage", _WORK),
    "attempt.work_failed": (ActorKind.TASK, "a stage has failed", None),
    "attempt.engine_failed": (ActorKind.TASK, "a stage has failed", None),
    "task.end_of_data": (ActorKind.JOB_MASTER, "is notified that it has all of its data", None),
    "task.cancel": (ActorKind.TASK, "is requested to end", None),
    "task.fail": (ActorKind.TASK, "is failed by its TaskManager", None),
    "task.cancellation_due": (ActorKind.TASK, "has not ended yet", None),
    "task.fatal_error": (ActorKind.OTHER, "is notified that it cannot be stopped", None),
    "attempt.close_chain": (ActorKind.BRIDGE, "closes its chain", None),
    "attempt.chain_closed": (ActorKind.TASK, "has no running work left", None),
    "exchange.error_response": (ActorKind.TASK, "cannot get one of its inputs", None),
}
CHECKPOINTS: Final = {
    "checkpoint.trigger": (ActorKind.TASK, "triggered"),
    "exchange.checkpoint_barrier": (ActorKind.TASK, "barrier"),
    "exchange.cancel_checkpoint_marker": (ActorKind.TASK, "cancelled upstream"),
    "exchange.alignment_timeout_due": (ActorKind.TASK, "becomes unaligned"),
    "attempt.snapshot_written": (ActorKind.TASK, "snapshot durable"),
    "checkpoint.acknowledge": (ActorKind.JOB_MASTER, "acknowledged"),
    "checkpoint.decline": (ActorKind.JOB_MASTER, "declined"),
    "checkpoint.notify_complete": (ActorKind.TASK, "complete"),
    "checkpoint.notify_aborted": (ActorKind.TASK, "given up"),
    "attempt.checkpoint_committed": (ActorKind.TASK, "committed"),
}
_BAD: Final = (
    "attempt.work_failed",
    "attempt.engine_failed",
    "task.fail",
    "task.fatal_error",
    "exchange.error_response",
    "task.cancellation_due",
)
_ENDED: Final = ("FINISHED", "CANCELED", "FAILED")


def attempt_story(trace: TraceReader, attempt: str) -> Story:
    """Return the story of the attempt whose id, path or name contains this text. A complete id is always unambiguous.

    Raises:
        TraceSelectionError: there is no such attempt in the trace, or several.
    """
    actors, parts = ActorDirectory(), dict[str, StoryPart]()
    for record in exactly_in_order(trace):
        actors.learn(record)
        owner = _attempt_of(record, actors)
        if owner is None or not _fits(owner, attempt):
            continue
        part = parts.setdefault(owner.attempt, StoryPart())
        # If a text matches many attempts, the error names only some. The steps of the others are not stored.
        if len(parts) <= NAMED or owner.attempt == attempt:
            _add_step(part, record, actors)
    fitting = [attempt] if attempt in parts else list(parts)
    if len(fitting) != 1:
        raise selection_error(trace, "attempt", attempt, fitting, list(actors.attempts))
    (attempt_id,) = fitting
    return parts[attempt_id].story(f"attempt {attempt_id}, {actors.attempts[attempt_id].name}", trace)


def _fits(attempt: Attempt, text: str) -> bool:
    return text in attempt.attempt or text in attempt.name or (attempt.path is not None and text in attempt.path)


def _attempt_of(record: Record, actors: ActorDirectory) -> Attempt | None:
    if isinstance(record, Killed | Spawned):
        return actors.attempt_at(record.ref.path)
    attempt = actors.attempt_at(record.recipient.path)
    if attempt is not None:
        return attempt
    facts = facts_of(record.message)
    if facts is None:
        return None
    holders = (facts, facts.part("descriptor"), facts.part("state"))
    ids = (None if holder is None else holder.get("attempt") for holder in holders)
    return next((actors.attempts[each] for each in ids if isinstance(each, str) and each in actors.attempts), None)


def _add_step(story: StoryPart, record: Record, actors: ActorDirectory) -> None:
    match record:
        case Killed():
            if kind_of(record.ref.path) is ActorKind.TASK:
                story.outcome = "KILLED with its TaskManager"
                story.steps.append(_step(record, actors, "is killed", failed=True))
        case Spawned():
            pass
        case DeadLetterRecord():
            text = f"does not get it: {message_name(record.message)} is a dead letter, {record.reason}"
            story.steps.append(_step(record, actors, text, failed=True))
        case Turn():
            facts = facts_of(record.message)
            if facts is not None:
                story.steps.append(_turn_step(story, record, facts, actors))


def _turn_step(story: StoryPart, turn: Turn, facts: Facts, actors: ActorDirectory) -> StoryStep:
    kind, inner = kind_of(turn.recipient.path), facts.part("buffer") or facts
    failure = failure_of(turn)
    why = "" if failure is None else failure_text(failure)
    if inner.tag in CHECKPOINTS:
        receivers, text = CHECKPOINTS[inner.tag]
        group = f"checkpoint {inner.get('checkpoint_id')}"
        return _step(turn, actors, text, why, group=group, failed=bool(why), hop=kind is not receivers)
    unknown = (None, f"receives {inner.name}", None)
    at, text, section = STEPS.get(inner.tag, unknown)
    detail = _detail(inner)
    if inner.tag == "task.update_execution_state" and kind is ActorKind.JOB_MASTER:
        story.outcome = f"{detail}{f', {why}' if why else ''}" if detail in _ENDED else f"{detail} when the trace ends"
        text, detail = f"is notified that it is {detail}", ""
    failed = bool(why) or (inner.tag in _BAD and kind is at)
    details = ", ".join(filter(None, (detail, why)))
    return _step(turn, actors, text, details, group=section, failed=failed, hop=kind is not at and turn.failure is None)


def _detail(facts: Facts) -> str:
    match facts.tag:
        case "attempt.open_chain":
            restored = facts.get("restored_checkpoint_id")
            return "" if restored is None else f"restored from checkpoint {restored}"
        case "task.update_execution_state":
            state = facts.part("state")
            return "" if state is None else str(state.get("state"))
        case "attempt.stage_result":
            return f"{facts.get('rows_in') or 0:,} rows in, {facts.get('rows_out') or 0:,} out"
        case _:
            return ""


def _step(
    record: Turn | Killed | DeadLetterRecord, actors: ActorDirectory, text: str, detail: str = "", **more: Any
) -> StoryStep:
    path = record.ref.path if isinstance(record, Killed) else record.recipient.path
    actor = actors.name_of(path) if actors.attempt_at(path) is None else kind_of(path)
    return step_of(record, actor, text, detail, **more)
