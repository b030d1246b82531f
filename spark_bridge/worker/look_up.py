"""Finds the state of the keys of a batch in segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.worker.keys import Rows, key_columns, same_keys
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, Run, Segment


def look_up(segments: Iterable[Segment], keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """The state of each key, as rows of `schema`; nulls where it has none.

    `segments` are given from the newest to the oldest; `keys` have positions, by which they are sorted.
    """
    positions: Rows = keys.column(POSITION).to_numpy()
    wanted = np.arange(keys.num_rows)
    found: list[Rows] = []
    parts: list[pa.Table] = []
    for segment in segments:
        for run in segment:
            start, end = np.searchsorted(positions[wanted], (run.first, run.last + 1))
            asked, rows = _in_run(run, keys, wanted[start:end])
            if len(asked):
                found.append(asked)
                parts.append(run.table.select([*schema.names, IS_DELETED]).take(rows))
                is_wanted = np.ones(len(wanted), dtype=np.bool_)
                is_wanted[np.searchsorted(wanted, asked)] = False
                wanted = wanted[is_wanted]
    return _in_order_of_keys(keys.num_rows, found, parts, schema)


def _in_run(run: Run, keys: pa.Table, asked: Rows) -> tuple[Rows, Rows]:
    positions: Rows = keys.column(POSITION).to_numpy()[asked]
    rows: Rows = np.searchsorted(run.positions, positions)
    hit = np.flatnonzero(run.positions[np.minimum(rows, len(run.positions) - 1)] == positions)
    asked, rows = asked[hit], rows[hit]
    names = key_columns(keys)
    same = same_keys(keys.select(names).take(asked), run.table.select(names).take(rows))
    if same.all():
        return asked, rows
    for place in np.flatnonzero(~same):
        rows[place] = _among_others(run, keys.select(names).slice(int(asked[place]), 1), int(rows[place]))
    return asked[rows >= 0], rows[rows >= 0]


def _among_others(run: Run, key: pa.Table, row: int) -> int:
    """The row of a key behind one of another key at the same position; -1 where there is none."""
    position = run.positions[row]
    keys = run.table.select(key.column_names)
    while row < len(run.positions) and run.positions[row] == position:
        if same_keys(key, keys.slice(row, 1)).all():
            return row
        row += 1
    return -1


def _in_order_of_keys(number: int, found: Sequence[Rows], parts: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    if not parts:
        return pa.Table.from_arrays([pa.nulls(number, field.type) for field in schema], schema=schema)
    table = pa.concat_tables(parts).combine_chunks()
    is_live = ~table.column(IS_DELETED).to_numpy()
    rows = np.full(number, -1)
    rows[np.concatenate(found)[is_live]] = np.flatnonzero(is_live)
    return table.select(schema.names).take(pa.array(rows, mask=rows < 0))
