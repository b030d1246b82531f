"""Collects the rows that a function emits, and checks them against the columns of its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any, NoReturn

from flykka.spark_bridge.errors import FunctionOutputError
from flykka.spark_bridge.functions.error_texts import short_repr

Row = dict[str, Any]


@dataclass(slots=True)
class Emitted:
    rows: list[Row] = field(default_factory=list)
    side: dict[str, list[Row]] = field(default_factory=dict)


class Collector:
    """Collects the output of a function. `columns` and `side_columns` are the columns of its outputs, or None to skip
    the check.

    Every row is copied, because a function may reuse its rows.
    """

    def __init__(self, columns: Sequence[str] | None, side_columns: Mapping[str, Sequence[str]] | None) -> None:
        self._columns = None if columns is None else frozenset(columns)
        self._side = None if side_columns is None else {tag: frozenset(each) for tag, each in side_columns.items()}
        self._emitted = Emitted()

    def drain(self) -> Emitted:
        emitted, self._emitted = self._emitted, Emitted()
        return emitted

    def collect(self, returned: Iterable[Row]) -> None:
        """Collect the rows that a function has returned. Raises `FunctionOutputError` if they are not rows."""
        columns, append = self._columns, self._emitted.rows.append
        if returned.__class__ not in _SEQUENCES:
            check_iterable(returned)
        for row in returned:
            if row.__class__ is dict and (columns is None or row.keys() == columns):
                append(row.copy())
            else:
                try:
                    append(_checked(row, columns))
                except FunctionOutputError as wrong:
                    _raise_at_yield(returned, wrong)

    def output(self, tag: object, row: Row) -> None:
        """Collect a row of a side output that has readers. Raises `FunctionOutputError` if it does not fit."""
        name = getattr(tag, "id", None)
        if not isinstance(name, str):
            raise FunctionOutputError(f"ctx.output takes an OutputTag and a row, not {short_repr(tag)} as the tag")
        if self._side is not None and name not in self._side:
            return  # The side output has no reader.
        checked = _checked(row, None if self._side is None else self._side[name])
        self._emitted.side.setdefault(name, []).append(checked)


def _checked(row: Any, columns: frozenset[str] | None) -> Row:
    if not isinstance(row, Mapping):
        hint = "; side outputs are written by ctx.output(tag, row)" if _is_tagged(row) else ""
        raise FunctionOutputError(
            f"a function must emit rows, as dicts by the names of their columns, not {short_repr(row)}{hint}"
        )
    if columns is not None and row.keys() != columns:
        missing = ", ".join(sorted(columns - row.keys()))
        unknown = ", ".join(sorted(map(str, row.keys() - columns)))
        wrong = "; ".join(
            text for text in (missing and f"missing: {missing}", unknown and f"not declared: {unknown}") if text
        )
        raise FunctionOutputError(f"the row {short_repr(dict(row))} does not have the columns of its output ({wrong})")
    return dict(row)


def _raise_at_yield(returned: object, wrong: FunctionOutputError) -> NoReturn:
    """Raise an error at the point where the row was yielded, so that the traceback shows that line."""
    if isinstance(returned, GeneratorType):
        with suppress(StopIteration):
            returned.throw(wrong.with_traceback(None))
    raise wrong


def check_iterable(returned: object) -> None:
    if isinstance(returned, Mapping):
        raise FunctionOutputError(
            f"a function returned the row {short_repr(returned)}: yield it, or return a list of rows"
        )
    if isinstance(returned, (str, bytes)) or not isinstance(returned, Iterable):
        raise FunctionOutputError(
            f"a function must yield rows, or return a list of them or None, not {short_repr(returned)}"
        )


def _is_tagged(row: object) -> bool:
    return isinstance(row, tuple) and len(row) == 2 and isinstance(getattr(row[0], "id", None), str)


_SEQUENCES = frozenset((GeneratorType, list, tuple))
