"""Marks the first row of each key for which conditions are true, as a function of tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.worker.keys import key_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOfValues:
    """Replaces each of the columns `conditions`, of booleans, by whether the row is the first of its key to be true.

    State has a column of that name, which is true once that row has come. An aggregate of the rows that are marked is
    one of distinct keys.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    conditions: tuple[str, ...]

    def __call__(self, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        key_of = key_numbers(state.select(list(self.keys)), rows.select(list(self.keys)))
        marked, kept = rows.select(list(self.columns)), state
        for name in self.conditions:
            seen = pc.fill_null(state.column(name), False).to_numpy(zero_copy_only=False)
            is_true = pc.fill_null(rows.column(name), False).to_numpy(zero_copy_only=False)
            fresh = np.flatnonzero(is_true & ~seen[key_of])
            found, places = np.unique(key_of[fresh], return_index=True)
            marks, now = np.zeros(len(key_of), np.bool_), seen.copy()
            marks[fresh[places]], now[found] = True, True
            marked = marked.set_column(marked.column_names.index(name), name, pa.array(marks))
            kept = kept.set_column(kept.column_names.index(name), name, pa.array(now))
        return marked, kept
