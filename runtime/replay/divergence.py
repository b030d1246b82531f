"""The first difference between a replay and the record, reported so that no debugger is needed to understand it."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
from dataclasses import dataclass, fields, replace
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import KernelError
from flykka.runtime.replay.effect_comparator import DivergenceKind, EffectDifference, raised
from flykka.runtime.replay.session.causes import causes_of
from flykka.runtime.trace.diff.value_comparator import ABSENT, FieldDifference
from flykka.runtime.trace.effects import Effect, Undecoded
from flykka.runtime.trace.file.versions import module_hashes
from flykka.runtime.trace.text import effect_line, message_text, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.trace.file.reader import TraceReader
    from flykka.runtime.trace.records import TraceHeader, Turn

_CAUSES = 6
_MODULES = 5
_TEXT_LENGTH = 60
_SHOWN = 8
"""The maximum number of fields, and of effects of a kind, that are shown one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence(EffectDifference):
    """The first difference of a replay from the trace, with its turn.

    `causes` are the turns that led to this turn, latest first. `source` is the file and line of the message's handler.
    `notes` add other facts, such as code that has changed since.
    """

    trace: str
    turn: Turn
    causes: tuple[Turn, ...] = ()
    source: str | None = None
    notes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """The modules that were passed to the replay, which `command` needs too."""

    @classmethod
    def of(cls, difference: EffectDifference, trace: str, turn: Turn, modules: tuple[str, ...] = ()) -> Divergence:
        details = {each.name: getattr(difference, each.name) for each in fields(difference)}
        return cls(trace=trace, turn=turn, modules=modules, **details)

    def text(self) -> str:
        return "\n".join([self._headline(), *(f"  {line}" for line in self._lines())])

    def to_dict(self) -> dict[str, Any]:
        return {
            "trace": self.trace,
            "turn": self.turn.sequence,
            "actor": self.turn.recipient.path,
            "message": message_text(self.turn.message),
            "kind": str(self.kind),
            "reason": self.reason,
            "expected": None if self.expected is None else effect_line(self.expected),
            "actual": None if self.actual is None else effect_line(self.actual),
            "fields": [
                {"path": each.path or "it", "recorded": value_text(each.left), "now": value_text(each.right)}
                for each in self.fields
            ],
            "missing": [effect_line(each) for each in self.missing],
            "extra": [effect_line(each) for each in self.extra],
            "causes": [{"turn": each.sequence, "message": message_text(each.message)} for each in self.causes],
            "source": self.source,
            "notes": list(self.notes),
            "command": self.command,
        }

    @property
    def command(self) -> str:
        imports = "".join(f" --import {module}" for module in self.modules)
        return f"flykka debug {self.trace} --until {self.turn.sequence}{imports}"

    def _headline(self) -> str:
        turn = self.turn
        headline = "CANNOT GO ON" if self.kind is DivergenceKind.UNKNOWN_TYPE else "DIVERGENCE"
        line = f"{headline} at turn {turn.sequence}  {turn.recipient.path} <- {message_text(turn.message)}"
        return line if self.source is None else f"{line}    {self.source}"

    def _lines(self) -> list[str]:
        lines = [f"reason    {self.reason}"] if self.reason else []
        if self.expected is not None or self.actual is not None:
            lines.append(f"expected  {_effect_or_none(self.expected)}")
            lines.append(f"actual    {_effect_or_none(self.actual)}")
        lines += [f"field     {_field_text(each)}" for each in self.fields[:_SHOWN]]
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
    """A replay differs from the record. The message is the whole report."""

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


def _field_text(field: FieldDifference) -> str:
    recorded, now = value_text(field.left), value_text(field.right)
    was = "not recorded" if recorded is None else f"recorded {recorded}"
    return f"{field.path or 'it'}: {was}, {'missing now' if now is None else f'now {now}'}"


def value_text(item: object) -> str | None:
    match item:
        case SerializedThrowable():
            return raised(item)
        case _ if item is ABSENT:
            return None
        case Enum():
            text = item.name
        case Ref():
            text = f"{item.path}#{item.incarnation}"
        case Undecoded():
            text = message_text(item)
        case bytes():
            text = f"<{len(item)} bytes>" if len(item) > _TEXT_LENGTH // 2 else repr(item)
        case _:
            text = repr(item)
    return text if len(text) <= _TEXT_LENGTH else f"{text[: _TEXT_LENGTH - 3]}..."


def explain(divergence: Divergence, trace: TraceReader, cell: Cell) -> Divergence:
    message = unwrapped(divergence.turn.message)
    return replace(
        divergence,
        causes=tuple(cause.turn for cause in causes_of(trace, divergence.turn)[:_CAUSES]),
        source=source_of(cell, message if isinstance(message, Message) else None),
        notes=(*divergence.notes, *_order(divergence, trace.header), *_changes(trace.header)),
    )


def _order(divergence: Divergence, header: TraceHeader) -> Iterator[str]:
    here = os.environ.get("PYTHONHASHSEED", "random")
    is_another_order = divergence.expected is not None and not divergence.missing and not divergence.extra
    if is_another_order and (header.hash_seed != here or here == "random"):
        yield (
            "the effects are the same, in another order: does the actor iterate over a set? Sort it. The run was"
            f" recorded with PYTHONHASHSEED={header.hash_seed}, and this process has {here}"
        )


def _changes(header: TraceHeader) -> Iterator[str]:
    here = _package()
    if header.package != here:
        yield f"recorded with flykka {header.package}, this is {here}"
    # The recorded script is not the current `__main__`.
    recorded_modules = {name: recorded for name, recorded in header.modules.items() if name != "__main__"}
    changed = [name for name, recorded in recorded_modules.items() if _has_changed(name, recorded)]
    # If a package and a module in it have changed, only the module is named.
    names = [name for name in changed if not any(other.startswith(f"{name}.") for other in changed)]
    if names:
        more = f" and {len(names) - _MODULES} more" if len(names) > _MODULES else ""
        yield f"the code of {', '.join(names[:_MODULES])}{more} has changed since"


def _has_changed(name: str, recorded: str) -> bool:
    now = module_hashes(name).get(name) if name in sys.modules else None
    return now is not None and now != recorded


def _package() -> str:
    try:
        return version("flykka")
    except PackageNotFoundError:
        return "not installed"


def source_of(cell: Cell, message: Message | None) -> str | None:
    """Return `file:line` of the `case` for the class of a message, or of the handler. None without a source."""
    instance = cell.instance
    if instance is None:
        return None
    behaviours = cell.behaviours
    handler: Any = instance.handle_message if behaviours is None else behaviours.top
    if message is None or not getattr(cell, "behaviour", None):
        handler = getattr(type(instance), "pre_start", handler)
    code = getattr(inspect.unwrap(handler), "__code__", None)
    if code is None:
        return None
    line = _case_line(code.co_filename, code.co_firstlineno, type(message).__name__)
    return f"{_shown(code.co_filename)}:{line or code.co_firstlineno}"


def _case_line(filename: str, first_line: int, name: str) -> int | None:
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, functions) and _begins(node) == first_line:
            return next((case.pattern.lineno for case in _cases(node) if _names(case.pattern, name)), None)
    return None


def _begins(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    # The first line of a code object is that of its first decorator.
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _cases(function: ast.AST) -> list[ast.match_case]:
    cases = [each for each in ast.walk(function) if isinstance(each, ast.match_case)]
    return sorted(cases, key=lambda each: each.pattern.lineno)


def _names(pattern: ast.pattern, name: str) -> bool:
    classes = [each.cls for each in ast.walk(pattern) if isinstance(each, ast.MatchClass)]
    return any(_last_name(each) == name for each in classes)


def _last_name(expression: ast.expr) -> str:
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")


def _shown(filename: str) -> str:
    """Return the path relative to the current folder or to the import path, so that the text is the same on every
    machine.
    """
    for folder in (os.getcwd(), *sorted(filter(os.path.isabs, sys.path), key=len, reverse=True)):
        if filename.startswith(os.path.join(folder, "")):
            return os.path.relpath(filename, folder)
    return filename
