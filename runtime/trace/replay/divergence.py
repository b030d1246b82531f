"""The first place where a replay is not what was recorded, told so that it can be understood without a debugger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flykka.runtime.errors import KernelError
from flykka.runtime.trace.effects import Effect
from flykka.runtime.trace.replay.comparison import DivergenceKind
from flykka.runtime.trace.replay.differences import FieldDifference
from flykka.runtime.trace.replay.words import effect_line
from flykka.runtime.trace.text import message_text

if TYPE_CHECKING:
    from flykka.runtime.trace.records import Turn

_SHOWN = 8
"""So many fields, and so many effects of a kind, are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where and in what a replay differs from the trace.

    `expected` is the recorded effect and `actual` that of the replay; one of them is None where the other side has no
    such effect. `fields` are the parts that differ, `missing` and `extra` all effects of the turn that only one side
    has, `causes` the turns that led there, the last one first. `source` is file and line of what handles the message.
    `notes` tell what else is known, such as code that has changed since.
    """

    trace: str
    turn: Turn
    kind: DivergenceKind
    reason: str = ""
    expected: Effect | None = None
    actual: Effect | None = None
    fields: tuple[FieldDifference, ...] = ()
    missing: tuple[Effect, ...] = ()
    extra: tuple[Effect, ...] = ()
    causes: tuple[Turn, ...] = ()
    source: str | None = None
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The report, of a few lines."""
        return "\n".join([self._headline(), *(f"  {line}" for line in self._lines())])

    def to_dict(self) -> dict[str, Any]:
        """The report for programs, of plain values."""
        return {
            "trace": self.trace,
            "turn": self.turn.sequence,
            "actor": self.turn.recipient.path,
            "message": message_text(self.turn.message),
            "kind": str(self.kind),
            "reason": self.reason,
            "expected": None if self.expected is None else effect_line(self.expected),
            "actual": None if self.actual is None else effect_line(self.actual),
            "fields": [{"path": each.path, "recorded": each.recorded, "now": each.now} for each in self.fields],
            "missing": [effect_line(each) for each in self.missing],
            "extra": [effect_line(each) for each in self.extra],
            "causes": [{"turn": each.sequence, "message": message_text(each.message)} for each in self.causes],
            "source": self.source,
            "notes": list(self.notes),
            "command": self.command,
        }

    @property
    def command(self) -> str:
        """What to type to stop there."""
        return f"flykka debug {self.trace} --until {self.turn.sequence}"

    def _headline(self) -> str:
        turn = self.turn
        what = "CANNOT GO ON" if self.kind is DivergenceKind.UNKNOWN_TYPE else "DIVERGENCE"
        line = f"{what} at turn {turn.sequence}  {turn.recipient.path} <- {message_text(turn.message)}"
        return line if self.source is None else f"{line}    {self.source}"

    def _lines(self) -> list[str]:
        lines = [f"reason    {self.reason}"] if self.reason else []
        if self.expected is not None or self.actual is not None:
            lines.append(f"expected  {_effect_or_none(self.expected)}")
            lines.append(f"actual    {_effect_or_none(self.actual)}")
        lines += [f"field     {each.text()}" for each in self.fields[:_SHOWN]]
        lines += _more(len(self.fields), "field", "fields")
        lines += _also("missing", [each for each in self.missing if each is not self.expected])
        lines += _also("extra", [each for each in self.extra if each is not self.actual])
        lines += [f"note      {note}" for note in self.notes]
        if self.causes:
            chain = " <- ".join(f"{each.sequence} {message_text(each.message)}" for each in self.causes)
            lines.append(f"caused by {chain}")
        lines.append(f"stop there: {self.command}")
        return lines


class DivergenceError(KernelError, AssertionError):
    """A replay is not what was recorded; the text is the whole report."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.text())
        self.divergence = divergence


def _effect_or_none(effect: Effect | None) -> str:
    return "nothing" if effect is None else effect_line(effect)


def _also(word: str, effects: list[Effect]) -> list[str]:
    lines = [f"{word:<9} {effect_line(each)}" for each in effects[:_SHOWN]]
    return lines + _more(len(effects), word, f"{word} effects")


def _more(count: int, word: str, things: str) -> list[str]:
    return [f"{word:<9} ... {count - _SHOWN} more {things}"] if count > _SHOWN else []
