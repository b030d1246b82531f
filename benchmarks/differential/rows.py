"""The rows after some methods of a program, and the draws that all methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.differential.choices import Choices
from benchmarks.differential.expressions import Column, typed
from benchmarks.differential.tables import TYPES, Table


@dataclass(frozen=True)
class Rows:
    """The result of some methods: the source texts of the stream and of the equivalent DataFrame."""

    stream: str
    truth: str
    columns: tuple[Column, ...]
    time: Column | None = None
    own: Column | None = None
    """A column with unique values, except that rows may be equal in all columns."""
    is_late: bool = False
    changes: bool = False

    def then(self, stream: str, truth: str | None = None) -> Rows:
        """Append a method call to both texts; `truth` is the call for the DataFrame if it differs."""
        return replace(self, stream=self.stream + stream, truth=self.truth + (stream if truth is None else truth))

    def kept(self, columns: Sequence[Column]) -> Rows:
        time, own = (column if column in columns else None for column in (self.time, self.own))
        return replace(self, columns=tuple(columns), time=time, own=own)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def ddl(columns: Sequence[Column], *more: str) -> str:
    return ", ".join((*(f"{column} {column.type}" for column in columns), *more))


def listed(columns: Sequence[Column]) -> str:
    return ", ".join(repr(str(column)) for column in columns)


class Verbs:
    def __init__(self, choices: Choices, tables: Sequence[Table]) -> None:
        self._choices = choices
        self._tables = {table.name: table for table in tables}
        self._names = 0

    def _table(self, name: str) -> Rows:
        table = self._tables[name]
        columns = {role: Column(name, TYPES[role]) for role, name in table.columns.items()}
        return Rows(name, name, tuple(columns.values()), columns["at"], columns["id"], bool(table.late))

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _keys(self, rows: Rows, at_most: int = 2) -> list[Column]:
        return self._choices.some(
            typed(rows.columns, "string", "int", "boolean", "double", "bigint") or rows.columns, at_most
        )

    def _some(self, rows: Rows) -> list[Column]:
        """Draw columns, which always include those that later methods need: the event time and the unique column."""
        some = self._choices.some(rows.columns, 4)
        return [column for column in rows.columns if column in (*some, rows.time, rows.own)]

    def _of_pandas(self, rows: Rows) -> list[Column]:
        """Return the columns that pandas can represent; of times only event times, which are between 1677 and 2262."""
        return [column for column in rows.columns if column.type != "timestamp" or column == rows.time]
