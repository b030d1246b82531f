"""Session windows by key, on columns: a batch is merged into open sessions, and ended sessions are emitted.

The state of a key consists of list columns with its open sessions, ordered by start. Times are in microseconds. A
session ends when the watermark has reached the time of its last row plus the gap. A row of exactly that time still
belongs to the session, as in Spark's session_window, however the rows are divided into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.worker.keys import Mask, Rows, key_columns
from flykka.spark_bridge.worker.parts import PartFunction, reduced
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.time_columns import not_before

START, END = "session_start", "session_end"

OPEN = "open_"
"""The prefix of state columns, which is followed by the name of a session's column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sessions of keys, ordered by key number and start. Columns other than start and end are partial aggregates."""

    keys: Rows
    table: pa.Table

    @classmethod
    def open_in(cls, state: pa.Table) -> Sessions:
        names = (name for name in state.column_names if name.startswith(OPEN))
        lists = {name.removeprefix(OPEN): state.column(name).combine_chunks() for name in names}
        lengths = lists[START].value_lengths().fill_null(0).to_numpy()
        columns = {name: each.flatten() for name, each in lists.items()}
        return cls(keys=np.repeat(np.arange(state.num_rows), lengths), table=pa.table(columns))

    def only(self, chosen: Mask) -> Sessions:
        return Sessions(keys=self.keys[chosen], table=self.table.filter(pa.array(chosen)))

    def ends_ms(self) -> Rows:
        """Return the ends of sessions in ms, rounded up so that no session ends early."""
        return not_before(self.table.column(END).to_numpy())

    def as_state(self, changed: Rows, schema: pa.Schema) -> pa.Table:
        firsts = np.searchsorted(self.keys, changed)
        offsets = np.append(firsts, len(self.keys))
        first_ends = np.append(self.ends_ms(), 0)[firsts]
        columns = {NEXT_EVENT_TIMER: pa.array(first_ends, mask=firsts == offsets[1:])}
        for name in self.table.column_names:
            values = self.table.column(name).combine_chunks()
            columns[f"{OPEN}{name}"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
        return pa.Table.from_arrays([columns[each.name].cast(each.type) for each in schema], schema=schema)

    def as_rows(self, keys: pa.Table) -> pa.Table:
        of_session = keys.select(key_columns(keys)).take(self.keys)
        names = [*of_session.column_names, *self.table.column_names]
        return pa.Table.from_arrays([*of_session.columns, *self.table.columns], names=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSessions:
    """Merges a batch of sessions, each of one or more rows, into the open sessions. Emits nothing.

    Rows are late, and dropped, if their session has ended and touches no open session. `rows_column` contains the row
    count of a session. `wrapping` sums wrap.
    """

    functions: Mapping[str, PartFunction]
    wrapping: frozenset[str]
    rows_column: str
    watermark_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        merged, was_open = self._merged(Sessions.open_in(state), batch)
        is_late = (merged.ends_ms() <= self.watermark_ms) & ~was_open
        late, open_sessions = merged.only(is_late), merged.only(~is_late)
        changed = np.unique(open_sessions.keys)
        return Processed(
            rows=open_sessions.only(np.zeros(len(open_sessions.keys), dtype=np.bool_)).as_rows(batch.keys),
            state=open_sessions.as_state(changed, state.schema),
            changed=changed,
            late_rows=int(late.table.column(self.rows_column).to_numpy().sum()),
        )

    def _merged(self, before: Sessions, batch: KeyedBatch) -> tuple[Sessions, Mask]:
        """Return the sessions of all keys, and a mask of the sessions that were open before the batch."""
        # Columns that are never null have another schema.
        came = pa.table({name: batch.rows.column(name) for name in before.table.column_names})
        rows = pa.concat_tables([before.table, came])
        keys = np.concatenate([before.keys, batch.key_of_row()])
        order = np.lexsort((rows.column(START).to_numpy(), keys))
        rows, keys = rows.take(order), keys[order]
        firsts = _first_rows(keys, rows.column(START).to_numpy(), rows.column(END).to_numpy())
        number = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(keys))))
        merged = {
            START: rows.column(START).take(firsts),
            END: pa.array(np.maximum.reduceat(rows.column(END).to_numpy(), firsts)),
            **{
                name: reduced(each, rows.column(name), number, len(firsts), wraps=name in self.wrapping)
                for name, each in self.functions.items()
            },
        }
        was_open = np.logical_or.reduceat(order < len(before.keys), firsts)
        return Sessions(keys=keys[firsts], table=pa.table(merged).select(rows.column_names)), was_open


@dataclass(frozen=True, slots=True, kw_only=True)
class FireSessions:
    due_ms: int

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        sessions = Sessions.open_in(state)
        has_ended = sessions.ends_ms() <= self.due_ms
        ended = sessions.only(has_ended)
        changed = np.unique(ended.keys)
        open_sessions = sessions.only(~has_ended & np.isin(sessions.keys, changed))
        return Processed(
            rows=ended.as_rows(batch.keys),
            state=open_sessions.as_state(changed, state.schema),
            changed=changed,
            deleted=~np.isin(changed, open_sessions.keys),
        )


def _first_rows(keys: Rows, starts: Rows, ends: Rows) -> Rows:
    """Return the indices of rows that begin a session: rows after a row of another key, or after the ends of all
    previous rows of the key.

    Rows are sorted by key and start.
    """
    distinct, rank = np.unique(ends, return_inverse=True)
    of_key = keys * len(distinct)
    # Keys ascend, so the running maximum belongs to the row's own key.
    last_end = distinct[np.maximum.accumulate(of_key + rank) - of_key]
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]) | (starts[1:] > last_end[:-1])
    firsts: Rows = np.flatnonzero(is_first)
    return firsts
