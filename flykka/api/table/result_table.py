"""ResultTable: the current rows of a running query, for display. Upserts replace rows, deletes remove them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_BEFORE

if TYPE_CHECKING:
    from flykka.api.streams.stream_type import Changelog
    from flykka.spark_bridge.connectors.console import TextRow

ROWS_KEPT = 10_000
"""Maximum number of retained rows: the last rows, or for upserts the rows that changed last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    columns: tuple[str, ...]
    rows: tuple[TextRow, ...]
    total: int
    changes: int


class ResultTable:
    """Collects the batches of a query; thread-safe."""

    def __init__(self, columns: Sequence[str], changelog: Changelog) -> None:
        self._columns = tuple(columns)
        self._keys = None if changelog.keys is None else [self._columns.index(key) for key in changelog.keys]
        self._kind = None if changelog.row_kind is None else self._columns.index(changelog.row_kind)
        self._rows: deque[TextRow] = deque(maxlen=ROWS_KEPT)
        self._by_key: dict[TextRow, TextRow] = {}
        self._total = self._changes = 0
        self._lock = Lock()

    def add(self, rows: Sequence[TextRow], left_out: int) -> None:
        """Add the rows of a batch; `left_out` counts further rows that were not transferred."""
        with self._lock:
            self._changes += len(rows) + left_out
            if self._keys is not None:
                self._change(rows, self._keys)
                self._total = len(self._by_key)
            elif self._kind is not None:
                self._come_and_go(rows, self._kind)
                self._total = len(self._rows)
            else:
                self._rows.extend(rows)
                self._total += len(rows) + left_out

    def shown(self, limit: int) -> Shown:
        with self._lock:
            rows: Iterable[TextRow] = self._rows if self._keys is None else self._by_key.values()
            return Shown(columns=self._columns, rows=tuple(rows)[-limit:], total=self._total, changes=self._changes)

    def _come_and_go(self, rows: Sequence[TextRow], kind: int) -> None:
        for row in rows:
            current = (*row[:kind], INSERT, *row[kind + 1 :])
            if row[kind] in (DELETE, UPDATE_BEFORE):
                with suppress(ValueError):  # The row may have been dropped already.
                    self._rows.remove(current)
            else:
                self._rows.append(current)

    def _change(self, rows: Sequence[TextRow], keys: Sequence[int]) -> None:
        for row in rows:
            kind = None if self._kind is None else row[self._kind]
            if kind == UPDATE_BEFORE:
                continue
            key = tuple(row[place] for place in keys)
            self._by_key.pop(key, None)
            if kind != DELETE:
                self._by_key[key] = row
        while len(self._by_key) > ROWS_KEPT:
            del self._by_key[next(iter(self._by_key))]
