"""Functions of changing rows: joins by key, and emitting the rows from which Spark recomputes results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.worker.keys import Mask, Rows
from flykka.spark_bridge.worker.weighted_rows import WeightedRows

IS_AFTER = "__is_after"
"""True for a key's rows after a batch, False for its rows before, null in a row that marks a key known before."""


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left_outer"
    RIGHT = "right_outer"
    FULL = "full_outer"
    SEMI = "left_semi"
    ANTI = "left_anti"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBeforeAndAfter:
    """Emits the rows of the changed keys before and after a batch, each as often as its weight specifies.

    With `keeps_empty`, a key without rows stays known, and a row of nulls is emitted if the key was known before.
    """

    columns: tuple[str, ...]
    keeps_empty: bool = False

    @property
    def stored(self) -> tuple[str, ...]:
        return self.columns

    @property
    def emitted(self) -> tuple[str, ...]:
        return self.columns

    def results(self, keys: pa.Table, before: WeightedRows, changes: WeightedRows) -> pa.Table:
        versions = [(before, False), (before + changes, True)]
        parts = [self._marked(rows.repeated(), is_after) for rows, is_after in versions]
        if self.keeps_empty and len(before.weights):
            parts.append(self._marked(pa.Table.from_batches([], before.rows.schema), None, nulls=1))
        return pa.concat_tables(parts)

    def _marked(self, rows: pa.Table, is_after: bool | None, *, nulls: int = 0) -> pa.Table:
        marks = pa.array([is_after] * (rows.num_rows + nulls), pa.bool_())
        columns = [pa.concat_arrays([*each.chunks, pa.nulls(nulls, each.type)]) for each in rows.columns]
        return pa.Table.from_arrays([*columns, marks], names=[*self.columns, IS_AFTER])


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinChanges:
    """Computes the changes of a join of two sides by keys only. Null keys match nothing.

    A row has its `side` (True: right), the left side's columns and the right side's columns, and is null in the columns
    of the other side. Results have the columns of both sides, or of the left side only, and their weight.
    """

    kind: JoinKind
    side: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    keeps_empty = False

    @property
    def stored(self) -> tuple[str, ...]:
        return (self.side, *self.left, *self.right)

    @property
    def emitted(self) -> tuple[str, ...]:
        return self.left if self.kind in (JoinKind.SEMI, JoinKind.ANTI) else (*self.left, *self.right)

    def results(self, keys: pa.Table, before: WeightedRows, changes: WeightedRows) -> pa.Table:
        matches = np.ones(keys.num_rows, np.bool_)
        for column in keys.columns:
            matches &= column.is_valid().to_numpy()
        left_before, right_before = self._sides(before)
        left_changes, right_changes = self._sides(changes)
        if self.kind is JoinKind.INNER:
            added = [
                self._inner(left_changes, right_before, matches),
                self._inner(left_before, right_changes, matches),
                self._inner(left_changes, right_changes, matches),
            ]
            return pa.concat_tables([each.table() for each in added])
        was = self._joined(left_before, right_before, matches)
        now = self._joined(left_before + left_changes, right_before + right_changes, matches)
        return (now + -was).table()

    def _sides(self, rows: WeightedRows) -> tuple[WeightedRows, WeightedRows]:
        side, *columns = rows.rows.columns
        is_right = np.asarray(side.to_numpy(), np.bool_)
        names = [*self.left, *self.right]
        own = replace(rows, rows=pa.Table.from_arrays(columns, names=[str(place) for place in range(len(names))]))
        left, right = own.taken(np.flatnonzero(~is_right)), own.taken(np.flatnonzero(is_right))
        at = len(self.left)
        return (
            replace(left, rows=left.rows.select(range(at)).rename_columns(list(self.left))).sorted_by_key(),
            replace(
                right, rows=right.rows.select(range(at, len(names))).rename_columns(list(self.right))
            ).sorted_by_key(),
        )

    def _joined(self, left: WeightedRows, right: WeightedRows, matches: Mask) -> WeightedRows:
        left, right = left.present().sorted_by_key(), right.present().sorted_by_key()
        ones, others = _pairs(left.key_of, right.key_of, matches)
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            has_match = np.isin(np.arange(len(left.weights)), ones)
            return left.taken(np.flatnonzero(has_match == (self.kind is JoinKind.SEMI)))
        alone = np.zeros(0, np.int64)
        if self.kind in (JoinKind.LEFT, JoinKind.FULL):
            alone = np.setdiff1d(np.arange(len(left.weights)), ones)
        other_alone = np.zeros(0, np.int64)
        if self.kind in (JoinKind.RIGHT, JoinKind.FULL):
            other_alone = np.setdiff1d(np.arange(len(right.weights)), others)
        ones = np.concatenate([ones, alone, np.full(len(other_alone), -1)])
        others = np.concatenate([others, np.full(len(alone), -1), other_alone])
        return self._paired(left, right, ones, others)

    def _inner(self, left: WeightedRows, right: WeightedRows, matches: Mask) -> WeightedRows:
        return self._paired(left, right, *_pairs(left.key_of, right.key_of, matches))

    def _paired(self, left: WeightedRows, right: WeightedRows, ones: Rows, others: Rows) -> WeightedRows:
        """Pair the rows with these indices; -1 stands for a row of nulls with weight 1."""
        columns = [*_taken(left.rows, ones), *_taken(right.rows, others)]
        return WeightedRows(
            rows=pa.Table.from_arrays(columns, names=[*self.left, *self.right]),
            weights=np.append(left.weights, 1)[ones] * np.append(right.weights, 1)[others],
            key_of=np.where(ones < 0, np.append(right.key_of, -1)[others], np.append(left.key_of, -1)[ones]),
        )


def _taken(rows: pa.Table, places: Rows) -> list[pa.ChunkedArray]:
    taken: list[pa.ChunkedArray] = rows.take(pa.array(places, mask=places < 0)).columns
    return taken


def _pairs(left: Rows, right: Rows, matches: Mask) -> tuple[Rows, Rows]:
    """Return the indices of all pairs with equal keys. Both sides are sorted by key."""
    first = np.searchsorted(right, left, side="left")
    counts = np.where(matches[left], np.searchsorted(right, left, side="right") - first, 0)
    ones = np.repeat(np.arange(len(left)), counts)
    starts = np.repeat(first, counts)
    within = np.arange(len(ones)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ones, starts + within
