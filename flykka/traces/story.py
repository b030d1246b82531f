"""A story: the steps of one checkpoint, attempt or job, in chronological order.

A step is one line. Similar steps, such as the acknowledgements of a thousand tasks, are collapsed into one line with
their number, their times, and the last of them.
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
_FEW = 3
NAMED = 8
"""The maximum number of subjects that an error about an ambiguous selection names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """A step of a story: a turn that concerns the story's subject. Steps with the same `group` may be collapsed.

    A `hop` is a forwarded message, or a message to an actor that only listens. Hops are only shown in complete stories.
    `detail` distinguishes this step from similar ones.
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
    """A step, or several collapsed steps."""

    phase: str
    steps: tuple[StoryStep, ...]
    text: str

    @property
    def first(self) -> StoryStep:
        return self.steps[0]

    @property
    def last(self) -> StoryStep:
        """The latest step, for which the other steps have waited."""
        return self.steps[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The result of `Trace.story`. `notes` state what the trace does not contain.

    Attributes:
        subject: what the story is about, such as `checkpoint 7 of job ...`.
        outcome: how it ended.
        steps: all steps, including hops, in turn order.
        begin_ms: the time of the first step, in ms since the epoch; `trace_begin_ms` is the beginning of the recording.
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
        """Return the lines of the story. With `everything`, each step is one line, including hops."""
        if everything:
            return [Line(phase=step.phase, steps=(step,), text=_sentence(step)) for step in self.steps]
        steps = [step for step in self.steps if not step.hop]
        return list(_by_phase(steps) if self.has_phases else _collapse_kinds(steps, self.begin_ms))

    def text(self, *, everything: bool = False) -> str:
        """Format the story as text: seconds since its first step, the turn, and the event."""
        return "\n".join(self._text_lines(everything)) + "\n"

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

    def _text_lines(self, everything: bool) -> Iterator[str]:
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
class StoryPart:
    outcome: str = "unfinished at the end of the trace"
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


def selection_error(
    trace: TraceReader, kind: str, selector: str, fitting: Sequence[str], there: Sequence[str]
) -> TraceSelectionError:
    names = fitting or there
    first_names = first_of(names, NAMED)
    if not names:
        text = f"the trace contains no {kind}s"
    elif not selector:
        text = f"it has {len(names):,} {kind}s; choose one: {first_names}"
    elif fitting:
        text = f"{selector!r} matches {len(names):,} {kind}s; choose one: {first_names}"
    else:
        text = f"there is no {kind} {selector!r}; there are: {first_names}"
    return TraceSelectionError(f"{trace.path}: {text}")


def _sentence(step: StoryStep) -> str:
    return f"{step.actor}: {step.text}{f', {step.detail}' if step.detail else ''}"


def _by_phase(steps: Sequence[StoryStep]) -> Iterator[Line]:
    """Yield the phases in the order of their first steps. Similar steps are collapsed within each phase."""
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


def _collapse_kinds(steps: Iterable[StoryStep], begin_ms: int) -> Iterator[Line]:
    """Collapse similar steps, but not across a step without a group, whose position is preserved."""
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
            parts = ", ".join(f"{_briefly(step)} {_seconds(step.now_ms - begin_ms)}" for step in steps)
            text = f"{group}: {parts}" if len(steps) > 1 else f"{group}: {_briefly(steps[0])}"
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
        joined = "; ".join(details)
        yield f"{len(details):,} x {text}{f' ({joined})' if details[0] and len(joined) <= _SHORT else ''}"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:+,.3f}"
