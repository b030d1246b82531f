"""The story of a checkpoint: trigger, barriers, snapshots, acknowledgements, result, and notifications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from flykka.errors import TraceSelectionError
from flykka.runtime.durations import format_ms
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_name
from flykka.traces.actor_directory import ActorDirectory, ActorKind, Facts, facts_of, job_of, kind_of
from flykka.traces.origin import begin_of, shortcomings
from flykka.traces.story import Story, StoryStep
from flykka.views.text.formats import format_bytes

_DECIDERS = (ActorKind.COORDINATOR, ActorKind.JOB_MASTER)
"""The actors that act on a checkpoint after messages without its id. Other actors only forward messages."""
TRIGGER: Final = "trigger"
BARRIERS: Final = "barriers"
SNAPSHOTS: Final = "snapshots"
ACKNOWLEDGEMENTS: Final = "acknowledgements"
END: Final = "end"
NOTIFICATIONS: Final = "notifications"
COMMITS: Final = "commits"
AFTERWARDS: Final = "afterwards"
STEPS: Final = {
    "checkpoint.snapshot_coordinators": (
        ActorKind.JOB_MASTER,
        TRIGGER,
        "stores the positions of the split enumerators",
    ),
    "checkpoint.coordinators_snapshotted": (
        ActorKind.COORDINATOR,
        TRIGGER,
        "receives the state of the split enumerators",
    ),
    "coordination.master_hooks_triggered": (ActorKind.COORDINATOR, TRIGGER, "the master hooks have run"),
    "coordination.master_hook_failed": (ActorKind.COORDINATOR, TRIGGER, "a master hook has failed"),
    "checkpoint.trigger": (ActorKind.TASK, TRIGGER, "is triggered"),
    "exchange.checkpoint_barrier": (ActorKind.TASK, BARRIERS, "gets a barrier"),
    "exchange.cancel_checkpoint_marker": (ActorKind.TASK, BARRIERS, "gets a cancellation instead of a barrier"),
    "exchange.alignment_timeout_due": (
        ActorKind.TASK,
        BARRIERS,
        "has reached its alignment timeout: continues unaligned",
    ),
    "attempt.snapshot_state": (ActorKind.BRIDGE, SNAPSHOTS, "begins its snapshot"),
    "attempt.hold_batches": (ActorKind.BRIDGE, SNAPSHOTS, "holds batches in flight"),
    "attempt.write_channel_state": (ActorKind.BRIDGE, SNAPSHOTS, "begins to write the overtaken batches"),
    "attempt.prepare_commit": (ActorKind.BRIDGE, SNAPSHOTS, "begins to prepare its output"),
    "attempt.commit_prepared": (ActorKind.TASK, SNAPSHOTS, "has prepared its output"),
    "attempt.write_snapshot": (ActorKind.BRIDGE, SNAPSHOTS, "begins to write its state"),
    "attempt.discard_snapshot": (ActorKind.BRIDGE, SNAPSHOTS, "discards its state"),
    "attempt.snapshot_written": (ActorKind.TASK, SNAPSHOTS, "has written its snapshot"),
    "attempt.channel_state_written": (ActorKind.TASK, SNAPSHOTS, "has written the overtaken batches"),
    "checkpoint.acknowledge": (ActorKind.COORDINATOR, ACKNOWLEDGEMENTS, "acknowledged"),
    "checkpoint.decline": (ActorKind.COORDINATOR, ACKNOWLEDGEMENTS, "declined"),
    "coordination.checkpoint_timed_out": (ActorKind.COORDINATOR, END, "has reached its timeout"),
    "coordination.metadata_written": (ActorKind.COORDINATOR, END, "the metadata is written"),
    "coordination.metadata_write_failed": (ActorKind.COORDINATOR, END, "the metadata could not be written"),
    "job.checkpoint_completed": (ActorKind.JOB_MASTER, END, "is notified that it is complete"),
    "job.checkpoint_aborted": (ActorKind.JOB_MASTER, END, "is notified that it was aborted"),
    "coordination.savepoint_completed": (ActorKind.JOB_MASTER, END, "is notified that the savepoint is complete"),
    "coordination.savepoint_failed": (ActorKind.JOB_MASTER, END, "is notified that there is no savepoint"),
    "coordination.stop_failed": (ActorKind.JOB_MASTER, END, "is notified that the job continues"),
    "checkpoint.notify_complete": (ActorKind.TASK, NOTIFICATIONS, "is notified that it is complete"),
    "checkpoint.notify_aborted": (ActorKind.TASK, NOTIFICATIONS, "is notified that it was aborted"),
    "attempt.commit_checkpoint": (ActorKind.BRIDGE, COMMITS, "begins to commit"),
    "attempt.checkpoint_committed": (ActorKind.TASK, COMMITS, "has committed"),
}
"""For each message: the actor that takes the step, its phase and its text. A message to another actor is a hop."""
FAILURES: Final = (
    "checkpoint.decline",
    "coordination.checkpoint_timed_out",
    "coordination.master_hook_failed",
    "coordination.metadata_write_failed",
    "coordination.savepoint_failed",
    "job.checkpoint_aborted",
)
_BEGINNINGS = ("checkpoint.snapshot_coordinators", "checkpoint.trigger")
_RESTORED = "job.restored"
_ENDS = ("checkpoint.notify_aborted", "job.checkpoint_aborted")


def checkpoint_story(trace: TraceReader, checkpoint: int, job: str | None = None) -> Story:
    """Return the story of a checkpoint. `job`, an id prefix, is needed if several jobs have a checkpoint with this id.

    Raises:
        TraceSelectionError: there is no such checkpoint in the trace, or several jobs have one.
    """
    narrator = _Narrator(checkpoint)
    narrator.listen(exactly_in_order(trace))
    if not narrator.steps and narrator.unclear:
        narrator.steps = {"that the trace does not name": []}
    jobs = {each: steps for each, steps in narrator.steps.items() if job is None or each.startswith(job)}
    if not jobs:
        raise TraceSelectionError(_nothing(trace, checkpoint, job, narrator))
    if len(jobs) > 1:
        names = ", ".join(sorted(jobs))
        raise TraceSelectionError(f"{trace.path}: several jobs have a checkpoint {checkpoint}; choose one: {names}")
    ((job_id, steps),) = jobs.items()
    notes = list(shortcomings(trace))
    if len(narrator.steps) == 1:
        steps = sorted([*steps, *narrator.unclear], key=lambda step: step.turn)
    elif narrator.unclear:
        notes.append(f"{len(narrator.unclear):,} steps are left out: the trace does not name their job")
    return Story(
        subject=f"checkpoint {checkpoint} of job {job_id}",
        outcome=narrator.outcomes.get(job_id, "unfinished at the end of the trace"),
        steps=tuple(steps),
        trace_begin_ms=begin_of(trace),
        notes=tuple(notes),
    )


def concerns_checkpoint(record: Record, checkpoint: int) -> bool:
    return _Narrator(checkpoint).fact_in(record) is not None


def _nothing(trace: TraceReader, checkpoint: int, job: str | None, narrator: _Narrator) -> str:
    if narrator.steps:
        there = f"it belongs to {', '.join(sorted(narrator.steps))}"
        return f"{trace.path}: there is no checkpoint {checkpoint} of a job {job!r}; {there}"
    ids = sorted(narrator.seen)
    there = f"there are {ids[0]} to {ids[-1]}" if ids else "the trace contains no checkpoints"
    return f"{trace.path}: there is no checkpoint {checkpoint}; {there}"


@dataclass(frozen=True, slots=True)
class _Fact:
    """The part of a record that concerns the checkpoint. `sent` is True for a message that the turn sent."""

    facts: Facts
    sent: bool = False


class _Narrator:
    """Turns records into steps, by job. `unclear` are steps of tasks whose deployment the trace does not contain."""

    def __init__(self, checkpoint: int) -> None:
        self._checkpoint = checkpoint
        self._actors = ActorDirectory()
        self.steps: dict[str, list[StoryStep]] = {}
        self.unclear: list[StoryStep] = []
        self.outcomes: dict[str, str] = {}
        self.seen: set[int] = set()

    def listen(self, records: Iterable[Record]) -> None:
        for record in records:
            self._actors.learn(record)
            fact = self.fact_in(record)
            if fact is None:
                continue
            assert isinstance(record, Turn | DeadLetterRecord)  # Only these records contain messages.
            job, step = self._job_of(record, fact.facts), self._step(record, fact)
            if job is None:
                self.unclear.append(step)
            else:
                self.steps.setdefault(job, []).append(step)
                if (outcome := outcome_of(fact.facts)) is not None:
                    self.outcomes[job] = outcome

    def fact_in(self, record: Record) -> _Fact | None:
        if isinstance(record, Killed | Spawned):
            return None
        facts = facts_of(record.message)
        if facts is None:
            return None
        own = next(filter(self._is_of_checkpoint, _within(facts)), None)
        if own is not None:
            return _Fact(own)
        if kind_of(record.recipient.path) not in _DECIDERS:
            return None
        sent_facts = (facts_of(effect.message) for effect in _sends(record))
        match = next(
            (
                each
                for each_sent in sent_facts
                if each_sent is not None
                for each in _within(each_sent)
                if self._is_of_checkpoint(each)
            ),
            None,
        )
        return None if match is None else _Fact(match, sent=True)

    def _is_of_checkpoint(self, facts: Facts) -> bool:
        checkpoint_id = facts.get("checkpoint_id")
        if isinstance(checkpoint_id, int):
            self.seen.add(checkpoint_id)
        return bool(checkpoint_id == self._checkpoint)

    def _job_of(self, record: Turn | DeadLetterRecord, facts: Facts) -> str | None:
        job: str | None = facts.get("job_id") or self._actors.job_at(record.recipient.path)
        if job is None and isinstance(attempt := facts.get("attempt"), str):
            job = job_of(attempt)
        return job

    def _step(self, record: Turn | DeadLetterRecord, fact: _Fact) -> StoryStep:
        path, facts = record.recipient.path, fact.facts
        if fact.sent:
            phase, text, hop = step_of_sent(facts, message_name(record.message), kind_of(path))
        else:
            phase, text, hop = step_of(facts, kind_of(path))
        attempt, failure = facts.get("attempt"), failure_of(record)
        # A reply is shown with the task that sent it, not with the actor that collects the replies.
        owner = self._actors.name_of_attempt(attempt) if phase == ACKNOWLEDGEMENTS and attempt else None
        details = [detail_of(facts), "" if failure is None else failure_text(failure)]
        if isinstance(record, DeadLetterRecord):
            text, hop = f"does not get it: {facts.name} is a dead letter, {record.reason}", False
        return StoryStep(
            turn=record.sequence,
            now_ms=record.now_ms,
            phase=phase,
            actor=owner or self._actors.name_of(path),
            text=text,
            detail=", ".join(filter(None, details)),
            group=text,
            failed=failure is not None or facts.tag in FAILURES or isinstance(record, DeadLetterRecord),
            hop=hop,
        )


def _within(facts: Facts) -> Iterator[Facts]:
    """Yield the messages within a message: sent through a channel, from a bridge, or in a batch."""
    several = facts.get("messages")
    if isinstance(several, tuple):
        yield from map(Facts, several)
    else:
        yield facts.part("buffer") or facts.part("report") or facts


def _sends(record: Turn | DeadLetterRecord) -> Iterator[Send]:
    if isinstance(record, Turn):
        yield from (effect for effect in record.effects if isinstance(effect, Send))


def step_of(facts: Facts, kind: ActorKind) -> tuple[str, str, bool]:
    """Return phase and text for a message to an actor of this type, and whether it is only a hop."""
    if facts.tag not in STEPS:
        return AFTERWARDS if facts.tag == _RESTORED else END, f"receives {facts.name}", True
    at, phase, text = STEPS[facts.tag]
    return phase, text, at is not kind


def step_of_sent(facts: Facts, message: str, kind: ActorKind) -> tuple[str, str, bool]:
    """Return phase and text for a turn that sent the checkpoint id, but received `facts` without it."""
    if kind is ActorKind.COORDINATOR and facts.tag in _BEGINNINGS:
        return TRIGGER, f"begins it after {message}", False
    if kind is ActorKind.COORDINATOR and facts.tag in _ENDS:
        return END, f"aborts it after {message}", False
    if kind is ActorKind.JOB_MASTER and facts.tag == _RESTORED:
        return AFTERWARDS, "restarts the tasks from it", False
    phase, _, _ = step_of(facts, kind)
    return phase, f"sends {facts.name} after {message}", True


def detail_of(facts: Facts) -> str:
    match facts.tag:
        case "checkpoint.acknowledge":
            return _measured(facts.part("metrics"))
        case "coordination.metadata_written" | "coordination.savepoint_completed":
            return str(facts.get("path"))
        case "attempt.checkpoint_committed":
            files = facts.get("files") or ()
            return "" if not files else f"{len(files):,} files" if len(files) > 1 else str(files[0])
        case _:
            reason = facts.get("reason")
            return "" if reason is None else str(reason)


def outcome_of(facts: Facts) -> str | None:
    match facts.tag:
        case "job.checkpoint_completed":
            return f"COMPLETED in {format_ms(facts.get('duration_ms'))}, {_size(facts)}"
        case "job.checkpoint_aborted":
            return f"ABORTED, {facts.get('reason')}"
        case _:
            return None


def _size(facts: Facts) -> str:
    size, new = facts.get("size_bytes"), facts.get("incremental_bytes")
    return f"{format_bytes(size)}, {format_bytes(new)} of it new"


def _measured(metrics: Facts | None) -> str:
    if metrics is None:
        return ""
    times: list[tuple[str, Any]] = [
        ("delay", metrics.get("start_delay_ms")),
        ("alignment", metrics.get("alignment_ms")),
        ("sync", metrics.get("sync_ms")),
        ("async", metrics.get("async_ms")),
    ]
    return ", ".join(f"{name} {format_ms(ms)}" for name, ms in times if ms)
