"""The story of a checkpoint: trigger, barriers, snapshots, acknowledgements, how it ended, and the notifications."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flykka.errors import TraceSelectionError
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import failure_of, failure_text, message_name
from flykka.traces.actor_directory import ActorDirectory, ActorKind, job_of, kind_of
from flykka.traces.checkpoint_steps import ACKNOWLEDGEMENTS, FAILURES, detail_of, outcome_of, step_of, step_of_sent
from flykka.traces.facts import Facts, facts_of
from flykka.traces.origin import begin_of, shortcomings
from flykka.traces.story import Step, Story

_DECIDERS = (ActorKind.COORDINATOR, ActorKind.JOB_MASTER)
"""They act on a checkpoint by messages that do not name it. Other actors only pass on what they are told."""


def checkpoint_story(trace: TraceReader, checkpoint: int, job: str | None = None) -> Story:
    """The story of a checkpoint; `job` may be the beginning of its id, and is needed where several have this one.

    Raises:
        TraceSelectionError: there is no such checkpoint in the trace, or several jobs have one.
    """
    teller = _Teller(checkpoint)
    teller.listen(exactly_in_order(trace))
    if not teller.steps and teller.unclear:
        teller.steps = {"that the trace does not name": []}
    jobs = {each: steps for each, steps in teller.steps.items() if job is None or each.startswith(job)}
    if not jobs:
        raise TraceSelectionError(_nothing(trace, checkpoint, job, teller))
    if len(jobs) > 1:
        names = ", ".join(sorted(jobs))
        raise TraceSelectionError(f"{trace.path}: several jobs have a checkpoint {checkpoint}; choose one: {names}")
    ((known, steps),) = jobs.items()
    notes = list(shortcomings(trace))
    if len(teller.steps) == 1:
        steps = sorted([*steps, *teller.unclear], key=lambda step: step.turn)
    elif teller.unclear:
        notes.append(f"{len(teller.unclear):,} steps are left out: the trace does not tell of which job they are")
    return Story(
        subject=f"checkpoint {checkpoint} of job {known}",
        outcome=teller.outcomes.get(known, "the trace ends before it does"),
        steps=tuple(steps),
        trace_begin_ms=begin_of(trace),
        notes=tuple(notes),
    )


def concerns_checkpoint(record: Record, checkpoint: int) -> bool:
    """Tell whether a record tells of this checkpoint, of whatever job."""
    return _Teller(checkpoint).fact_in(record) is not None


def _nothing(trace: TraceReader, checkpoint: int, job: str | None, teller: _Teller) -> str:
    if teller.steps:
        there = f"it is of {', '.join(sorted(teller.steps))}"
        return f"{trace.path}: there is no checkpoint {checkpoint} of a job {job!r}; {there}"
    seen = sorted(teller.seen)
    there = f"there are {seen[0]} to {seen[-1]}" if seen else "the trace tells of no checkpoint at all"
    return f"{trace.path}: there is no checkpoint {checkpoint}; {there}"


@dataclass(frozen=True, slots=True)
class _Fact:
    """Part of a record that concerns the checkpoint; `sent` where not its message does, but one that the turn sent."""

    said: Facts
    sent: bool = False


class _Teller:
    """Makes steps of records, job by job; `unclear` are those of tasks whose deployment the trace does not tell."""

    def __init__(self, checkpoint: int) -> None:
        self._checkpoint = checkpoint
        self._actors = ActorDirectory()
        self.steps: dict[str, list[Step]] = {}
        self.unclear: list[Step] = []
        self.outcomes: dict[str, str] = {}
        self.seen: set[int] = set()

    def listen(self, records: Iterable[Record]) -> None:
        for record in records:
            self._actors.learn(record)
            fact = self.fact_in(record)
            if fact is None:
                continue
            assert isinstance(record, Turn | DeadLetterRecord)  # Nothing else carries a message.
            job, step = self._job_of(record, fact.said), self._step(record, fact)
            if job is None:
                self.unclear.append(step)
            else:
                self.steps.setdefault(job, []).append(step)
                if (outcome := outcome_of(fact.said)) is not None:
                    self.outcomes[job] = outcome

    def fact_in(self, record: Record) -> _Fact | None:
        """The part of a record that concerns the checkpoint."""
        if isinstance(record, Killed | Spawned):
            return None
        said = facts_of(record.message)
        if said is None:
            return None
        meant = next(filter(self._is_meant, _within(said)), None)
        if meant is not None:
            return _Fact(meant)
        if kind_of(record.recipient.path) not in _DECIDERS:
            return None
        sent = (facts_of(effect.message) for effect in _sends(record))
        found = next(
            (each for told in sent if told is not None for each in _within(told) if self._is_meant(each)), None
        )
        return None if found is None else _Fact(found, sent=True)

    def _is_meant(self, said: Facts) -> bool:
        found = said.get("checkpoint_id")
        if isinstance(found, int):
            self.seen.add(found)
        return bool(found == self._checkpoint)

    def _job_of(self, record: Turn | DeadLetterRecord, said: Facts) -> str | None:
        job: str | None = said.get("job_id") or self._actors.job_at(record.recipient.path)
        if job is None and isinstance(attempt := said.get("attempt"), str):
            job = job_of(attempt)
        return job

    def _step(self, record: Turn | DeadLetterRecord, fact: _Fact) -> Step:
        path, said = record.recipient.path, fact.said
        if fact.sent:
            phase, text, hop = step_of_sent(said, message_name(record.message), kind_of(path))
        else:
            phase, text, hop = step_of(said, kind_of(path))
        attempt, failure = said.get("attempt"), failure_of(record)
        # An answer is told of the task that gave it, not of the actor that collects the answers.
        told_of = self._actors.name_of_attempt(attempt) if phase == ACKNOWLEDGEMENTS and attempt else None
        details = [detail_of(said), "" if failure is None else failure_text(failure)]
        if isinstance(record, DeadLetterRecord):
            text, hop = f"does not get it: {said.name} is a dead letter, {record.reason}", False
        return Step(
            turn=record.sequence,
            now_ms=record.now_ms,
            phase=phase,
            actor=told_of or self._actors.name_of(path),
            text=text,
            detail=", ".join(filter(None, details)),
            group=text,
            failed=failure is not None or said.tag in FAILURES or isinstance(record, DeadLetterRecord),
            hop=hop,
        )


def _within(said: Facts) -> Iterator[Facts]:
    """The messages within a message: through a channel, from a bridge, in a batch."""
    several = said.get("messages")
    if isinstance(several, tuple):
        yield from map(Facts, several)
    else:
        yield said.part("buffer") or said.part("report") or said


def _sends(record: Turn | DeadLetterRecord) -> Iterator[Send]:
    if isinstance(record, Turn):
        yield from (effect for effect in record.effects if isinstance(effect, Send))
