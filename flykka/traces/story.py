"""A story: what concerns one checkpoint, attempt or job, step by step, in the order in which it came about.

A step is told in a line. Steps of one kind, such as the acknowledgements of a thousand tasks, are collapsed into one
line that says how many there were, from when to when, and which was the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flykka.errors import TraceSelectionError
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Record
from flykka.traces.origin import begin_of, shortcomings
from flykka.views.html.markup import element
from flykka.views.text.formats import first_of

_SHORT = 100
"""So many characters of details are told of steps that are collapsed."""
_FEW = 3
"""So many steps of one kind are still told one by one."""
NAMED = 8
"""So many subjects are named where one was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """Step of a story: a turn, as far as it concerns it. Steps with the same `group` may be collapsed.

    A `hop` is a message on its way, or told to an actor that only listens: it is told where everything is. `detail` is
    what makes this step different from others that do the same.
    """

    turn: int
    now_ms: int
    phase: str
    actor: str
    text: str
    detail: str = ""
    group: str | None = None
    failed: bool = False
    hop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A step, or several that are collapsed."""

    phase: str
    steps: tuple[StoryStep, ...]
    text: str

    @property
    def first(self) -> StoryStep:
        return self.steps[0]

    @property
    def last(self) -> StoryStep:
        """The latest, which has kept the others waiting."""
        return self.steps[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Result of `Trace.story`. `notes` say what the trace could not tell.

    Attributes:
        subject: what it is about, such as `checkpoint 7 of job ...`.
        outcome: what became of it.
        steps: all of them, hops as well, in the order of their turns.
        begin_ms: when the first step was, in ms since 1970; `trace_begin_ms` is when the recording begins.
    """

    subject: str
    outcome: str
    steps: tuple[StoryStep, ...]
    trace_begin_ms: int
    has_phases: bool = True
    notes: tuple[str, ...] = ()

    @property
    def begin_ms(self) -> int:
        return self.steps[0].now_ms if self.steps else self.trace_begin_ms

    def lines(self, *, everything: bool = False) -> list[Line]:
        """The lines that tell it; with `everything` each step is one, and hops are too."""
        if everything:
            return [Line(phase=step.phase, steps=(step,), text=_sentence(step)) for step in self.steps]
        wanted = [step for step in self.steps if not step.hop]
        return list(_by_phase(wanted) if self.has_phases else _until_something_happens(wanted, self.begin_ms))

    def text(self, *, everything: bool = False) -> str:
        """The story for people: seconds since its first step, the turn, and what happened."""
        return "\n".join(self._told(everything)) + "\n"

    def to_json(self, *, everything: bool = False) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "outcome": self.outcome,
            "begin_ms": self.begin_ms,
            "notes": list(self.notes),
            "steps": [
                {
                    "turn": line.first.turn,
                    "ms": line.first.now_ms - self.begin_ms,
                    "last_turn": line.last.turn,
                    "last_ms": line.last.now_ms - self.begin_ms,
                    "count": len(line.steps),
                    "phase": line.phase,
                    "text": line.text,
                    "failed": any(step.failed for step in line.steps),
                }
                for line in self.lines(everything=everything)
            ],
        }

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __repr__(self) -> str:
        return f"<Story of {self.subject}: {self.outcome}; {len(self.steps)} steps>"

    def _repr_html_(self) -> str:
        return element("pre", str(self))

    def _told(self, everything: bool) -> Iterator[str]:
        yield f"{self.subject}: {self.outcome}"
        yield f"begins {(self.begin_ms - self.trace_begin_ms) / 1000:,.3f} s into the recording"
        yield from (f"# {note}" for note in self.notes)
        phase = None
        for line in self.lines(everything=everything):
            if self.has_phases and line.phase != phase:
                phase = line.phase
                yield ""
                yield phase
            elif phase is None:
                phase = line.phase
                yield ""
            mark = "!" if any(step.failed for step in line.steps) else " "
            yield f"{mark} {_seconds(line.first.now_ms - self.begin_ms):>9}  {line.first.turn:>7}  {line.text}"


@dataclass(slots=True)
class Tale:
    """A story that is still being told: the steps so far, and what has become of its subject."""

    outcome: str = "the trace ends before it does"
    steps: list[StoryStep] = field(default_factory=list)

    def story(self, subject: str, trace: TraceReader) -> Story:
        return Story(
            subject=subject,
            outcome=self.outcome,
            steps=tuple(self.steps),
            trace_begin_ms=begin_of(trace),
            has_phases=False,
            notes=tuple(shortcomings(trace)),
        )


def step_of(
    record: Record,
    actor: str,
    text: str,
    detail: str = "",
    *,
    group: str | None = None,
    failed: bool = False,
    hop: bool = False,
) -> StoryStep:
    """A step of a story without phases: what a record tells of an actor."""
    return StoryStep(
        turn=record.sequence,
        now_ms=record.now_ms,
        phase=group or "life",
        actor=actor,
        text=text,
        detail=detail,
        group=group,
        failed=failed,
        hop=hop,
    )


def not_one(
    trace: TraceReader, kind: str, wanted: str, fitting: Sequence[str], there: Sequence[str]
) -> TraceSelectionError:
    """The error where a text fits none, or several, of the subjects of which a trace has stories."""
    names = fitting or there
    shown = first_of(names, NAMED)
    if not names:
        told = f"the trace tells of no {kind} at all"
    elif not wanted:
        told = f"it has {len(names):,} {kind}s; choose one: {shown}"
    elif fitting:
        told = f"{wanted!r} fits {len(names):,} {kind}s; choose one: {shown}"
    else:
        told = f"there is no {kind} {wanted!r}; there are: {shown}"
    return TraceSelectionError(f"{trace.path}: {told}")


def _sentence(step: StoryStep) -> str:
    return f"{step.actor}: {step.text}{f', {step.detail}' if step.detail else ''}"


def _by_phase(steps: Sequence[StoryStep]) -> Iterator[Line]:
    """Phases in the order of their first steps, and in each of them what is of one kind together."""
    phases: dict[str, dict[str, list[StoryStep]]] = {}
    for step in steps:
        kinds = phases.setdefault(step.phase, {})
        kinds.setdefault(step.group or f"{step.turn} {step.text}", []).append(step)
    for phase, kinds in phases.items():
        for kind in kinds.values():
            if len(kind) <= _FEW:
                yield from (Line(phase=phase, steps=(step,), text=_sentence(step)) for step in kind)
            else:
                yield Line(phase=phase, steps=tuple(kind), text=_collapsed(kind))


def _collapsed(steps: Sequence[StoryStep]) -> str:
    first, last = steps[0], steps[-1]
    slowest = f", the last was {_sentence(last).replace(f': {last.text}', '', 1)}"
    took = f" within {last.now_ms - first.now_ms:,} ms"
    return f"{len(steps):,} x {last.text}{took}{slowest}"


def _until_something_happens(steps: Iterable[StoryStep], begin_ms: int) -> Iterator[Line]:
    """Steps of one kind together, until one comes that is of no kind: what it is told between stays in order."""
    kinds: dict[str, list[StoryStep]] = {}
    for step in steps:
        if step.group is not None:
            kinds.setdefault(step.group, []).append(step)
            continue
        yield from _routine(kinds, begin_ms)
        kinds = {}
        yield Line(phase=step.phase, steps=(step,), text=_sentence(step))
    yield from _routine(kinds, begin_ms)


def _routine(kinds: dict[str, list[StoryStep]], begin_ms: int) -> Iterator[Line]:
    for group, steps in kinds.items():
        texts = {step.text for step in steps}
        if len(texts) == len(steps):
            told = ", ".join(f"{_briefly(step)} {_seconds(step.now_ms - begin_ms)}" for step in steps)
            text = f"{group}: {told}" if len(steps) > 1 else f"{group}: {_briefly(steps[0])}"
        else:
            text = f"{group} until {_seconds(steps[-1].now_ms - begin_ms)}: {', '.join(_counted(steps))}"
        yield Line(phase=steps[0].phase, steps=tuple(steps), text=text)


def _briefly(step: StoryStep) -> str:
    return f"{step.text} ({step.detail})" if step.detail else step.text


def _counted(steps: Sequence[StoryStep]) -> Iterator[str]:
    kinds: dict[str, list[str]] = {}
    for step in steps:
        kinds.setdefault(step.text, []).append(step.detail)
    for text, details in kinds.items():
        told = "; ".join(details)
        yield f"{len(details):,} x {text}{f' ({told})' if details[0] and len(told) <= _SHORT else ''}"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:+,.3f}"
