"""ResultTable: the rows of a running query, for a viewer. Upserts change rows, deletes remove them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from flykka.spark_bridge.rows.row_kind import DELETE, ROW_KIND, UPDATE_BEFORE

if TYPE_CHECKING:
    from flykka.api.streams.stream_type import Changelog
    from flykka.spark_bridge.connectors.console import TextRow

ROWS_KEPT = 10_000
"""The number of last rows kept; for upserts, of the keys that changed last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A result at one moment: its last rows, their number, and the number of changes so far."""

    columns: tuple[str, ...]
    rows: tuple[TextRow, ...]
    total: int
    changes: int


class ResultTable:
    """Takes the batches of a query, from any thread."""

    def __init__(self, columns: Sequence[str], changelog: Changelog) -> None:
        self._columns = tuple(columns)
        self._keys = None if changelog.keys is None else [self._columns.index(key) for key in changelog.keys]
        is_changes = self._keys is not None and ROW_KIND in self._columns
        self._kind = self._columns.index(ROW_KIND) if is_changes else None
        self._rows: deque[TextRow] = deque(maxlen=ROWS_KEPT)
        self._by_key: dict[TextRow, TextRow] = {}
        self._total = self._changes = 0
        self._lock = Lock()

    def add(self, rows: Sequence[TextRow], left_out: int) -> None:
        """Add the rows of a batch; `left_out` more are not shown."""
        with self._lock:
            self._changes += len(rows) + left_out
            if self._keys is None:
                self._rows.extend(rows)
                self._total += len(rows) + left_out
            else:
                self._change(rows, self._keys)
                self._total = len(self._by_key)

    def shown(self, limit: int) -> Shown:
        """Return the last rows, at most `limit`; of upserts those that changed last."""
        with self._lock:
            rows: Iterable[TextRow] = self._rows if self._keys is None else self._by_key.values()
            return Shown(columns=self._columns, rows=tuple(rows)[-limit:], total=self._total, changes=self._changes)

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
