"""The catalog of an environment: declared tables, and views of streams and queries, by name.

A stream belongs to one job's program. So a table, or a view of a query, is planned again for each program that reads
it; a view of a stream can only be read in the program of that stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.api.table.declared_table import DeclaredTable

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.program import Program

Plan = Callable[[], "DataStream"]
"""Adds the operators of a table or query to the program, and returns their stream."""


@dataclass(slots=True, kw_only=True)
class _CatalogEntry:
    """A table, or a view if `table` is None. A view without a plan only has its stream."""

    name: str
    stream: DataStream | None = None
    plan: Plan | None = None
    table: DeclaredTable | None = None


class Catalog:
    def __init__(self) -> None:
        self._entries: dict[str, _CatalogEntry] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._entries

    def add_view(self, name: str, stream: DataStream, plan: Plan | None = None) -> None:
        """Add a view of a stream; `plan` plans the view again for the next job."""
        self._entries[name.lower()] = _CatalogEntry(name=name, stream=stream, plan=plan)

    def add_table(self, table: DeclaredTable, plan: Plan) -> None:
        """Add a table, which is planned when a query first reads it."""
        self._entries[table.name.lower()] = _CatalogEntry(name=table.name, plan=plan, table=table)

    def drop(self, name: str) -> None:
        del self._entries[name.lower()]

    def table(self, name: str) -> DeclaredTable | None:
        return self._entries[name.lower()].table

    @property
    def tables(self) -> tuple[DeclaredTable, ...]:
        return tuple(entry.table for _, entry in sorted(self._entries.items()) if entry.table is not None)

    @property
    def views(self) -> tuple[str, ...]:
        return tuple(name for name, entry in sorted(self._entries.items()) if entry.table is None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._entries))

    def stream(self, name: str, program: Program) -> DataStream:
        """Return the stream of a table or view, planning it if the program does not contain it yet.

        Errors of the planning are raised.
        """
        entry = self._entries[name.lower()]
        if entry.plan is not None and not (entry.stream is not None and _is_there(entry.stream, program)):
            entry.stream = entry.plan()
        assert entry.stream is not None, "the view has neither a plan nor a stream"
        return entry.stream


def _is_there(stream: DataStream, program: Program) -> bool:
    """True if a program contains a stream's operators; they may belong to an earlier job or have been removed."""
    written = program.transformations
    return stream.flow.program is program and all(each.source in written for each in stream.flow.inputs)
