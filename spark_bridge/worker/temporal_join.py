"""Joins rows with the version of their key at their event time (Flink's TemporalRowTimeJoinOperator).

The state of a key has the left rows that wait for the watermark, and the versions that these and later rows may need.
The rows of a batch come from two inputs. All times are event times. A left row is joined when the watermark has reached
the row's millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.rows.row_kind import DELETE, UPDATE_BEFORE
from flykka.spark_bridge.worker.inputs import INPUT, tagged
from flykka.spark_bridge.worker.keys import Mask, Rows, key_columns
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.row_changes import KeyedLists, is_kind
from flykka.spark_bridge.worker.rows import structs
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER
from flykka.spark_bridge.worker.time_columns import micros

LEFT, RIGHT = "left", "right"
"""The columns with the rows of the two sides as structs, both in state and in results."""

_BOUNDS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSide:
    columns: tuple[str, ...]
    event_time: EventTime

    def of(self, number: int, rows: pa.Table) -> pa.Table:
        """Return rows of input `number` with the side's own columns. All rows must be of this side."""
        return rows.select([tagged(number, name) for name in self.columns]).rename_columns(list(self.columns))

    def times(self, rows: pa.Table) -> Rows:
        """Return the event times of rows, in microseconds. No event time is null."""
        times: Rows = micros(rows.column(self.event_time.column), self.event_time.offset_ms).to_numpy()
        return times


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSides:
    """The two sides. A right row whose column `row_kind` is `-D` ends the key's last version."""

    left: TemporalSide
    right: TemporalSide
    row_kind: str | None
    is_outer: bool

    def lists_in(self, state: pa.Table) -> tuple[KeyedLists, KeyedLists]:
        left, right = (state.column(name).combine_chunks() for name in (LEFT, RIGHT))
        return KeyedLists.of(left, self.left.columns), KeyedLists.of(right, self.right.columns)

    def waiting_with(self, waiting: KeyedLists, rows: pa.Table, key_of: Rows) -> KeyedLists:
        both = pa.concat_tables([waiting.rows, rows.cast(waiting.rows.schema)])
        of_both = np.concatenate([waiting.key_of, key_of])
        order = np.argsort(of_both, kind="stable")
        return KeyedLists(rows=both.take(order), key_of=of_both[order])

    def versions_with(self, versions: KeyedLists, rows: pa.Table, key_of: Rows) -> KeyedLists:
        """Add versions, ordered by time. The last of several versions with the same time wins."""
        if self.row_kind is not None:
            # A retraction is ignored, because it precedes a new version with the same time.
            is_version = ~is_kind(rows, self.row_kind, UPDATE_BEFORE)
            rows, key_of = rows.filter(pa.array(is_version)), key_of[is_version]
        both = pa.concat_tables([versions.rows, rows.cast(versions.rows.schema)])
        of_both, times = np.concatenate([versions.key_of, key_of]), self.right.times(both)
        order = np.lexsort((times, of_both))
        of_both, times = of_both[order], times[order]
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = (of_both[1:] != of_both[:-1]) | (times[1:] != times[:-1])
        return KeyedLists(rows=both.take(order[is_last]), key_of=of_both[is_last])

    def needed(self, versions: KeyedLists, waiting: KeyedLists, watermark_ms: int, keys: int) -> KeyedLists:
        """Return the versions that waiting rows or later rows may need. `keys` is the number of keys.

        Among the versions before the watermark and all waiting rows, only the newest version is needed; if it is a
        deletion, no version is needed.
        """
        times = self.right.times(versions.rows)
        is_past = (times // MICROS_PER_MS <= watermark_ms) & (
            times <= self._first_times(waiting, keys)[versions.key_of]
        )
        is_superseded = np.zeros(len(times), np.bool_)
        is_superseded[:-1] = is_past[1:] & (versions.key_of[1:] == versions.key_of[:-1])
        remaining = np.flatnonzero(~is_superseded & ~(is_past & self._is_deletion(versions.rows)))
        return KeyedLists(rows=versions.rows.take(remaining), key_of=versions.key_of[remaining])

    def met(self, rows: KeyedLists, versions: KeyedLists, types: pa.Schema) -> pa.Table:
        """Return the rows, ordered by key and time, each with its version or null."""
        key_of = np.concatenate([versions.key_of, rows.key_of])
        times = np.concatenate([self.right.times(versions.rows), self.left.times(rows.rows)])
        count = len(versions.key_of)
        # A version precedes rows with the same time. Versions are ordered already.
        order = np.lexsort((np.arange(len(times)) >= count, times, key_of))
        last = np.maximum.accumulate(np.where(order < count, order, -1))
        is_row = order >= count
        places, version_places = order[is_row] - count, last[is_row]
        meets = version_places >= 0
        meets[meets] = versions.key_of[version_places[meets]] == rows.key_of[places[meets]]
        meets[meets] = ~self._is_deletion(versions.rows)[version_places[meets]]
        if not self.is_outer:
            places, version_places, meets = places[meets], version_places[meets], meets[meets]
        right = versions.rows.take(pa.array(version_places, mask=~meets))
        return pa.Table.from_arrays(
            [_structs(rows.rows.take(places), types.field(LEFT)), _structs(right, types.field(RIGHT), ~meets)],
            names=[LEFT, RIGHT],
        )

    def without_nulls(self, rows: KeyedLists, keys: pa.Table) -> KeyedLists:
        """Return the versions of keys without null fields, because null equals nothing."""
        is_equal = np.ones(keys.num_rows, np.bool_)
        for name in key_columns(keys):
            is_equal &= keys.column(name).is_valid().to_numpy()
        remaining = np.flatnonzero(is_equal[rows.key_of])
        return KeyedLists(rows=rows.rows.take(remaining), key_of=rows.key_of[remaining])

    def state(self, waiting: KeyedLists, versions: KeyedLists, like: pa.Table) -> tuple[pa.Table, Mask]:
        """Return the state of keys, with the times at which to process them, and a mask of keys without state."""
        keys = like.num_rows
        due = self._first_times(waiting, keys)
        # When a version takes effect, the previous version is removed; so is a deletion.
        ends = self._is_deletion(versions.rows)
        ends[1:] |= versions.key_of[1:] == versions.key_of[:-1]
        np.minimum.at(due, versions.key_of[ends], self.right.times(versions.rows)[ends])
        timers = pa.array(due // MICROS_PER_MS, mask=due == _BOUNDS.max)
        columns = {
            LEFT: waiting.lists(like.column(LEFT).combine_chunks()),
            RIGHT: versions.lists(like.column(RIGHT).combine_chunks()),
            NEXT_EVENT_TIMER: timers,
        }
        counts = np.bincount(waiting.key_of, minlength=keys) + np.bincount(versions.key_of, minlength=keys)
        return pa.table(columns).select(like.schema.names), counts == 0

    def _first_times(self, waiting: KeyedLists, keys: int) -> Rows:
        """Return the earliest time of each key's waiting rows; the maximum for keys without waiting rows."""
        first = np.full(keys, _BOUNDS.max)
        np.minimum.at(first, waiting.key_of, self.left.times(waiting.rows))
        return first

    def _is_deletion(self, versions: pa.Table) -> Mask:
        return is_kind(versions, self.row_kind, DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreForTemporalJoin:
    """Stores the rows of a batch that arrive after a watermark. Left rows before the watermark are late.

    Late rows go to the side output `late_data`; if it is None, they are dropped and counted. A version before the
    watermark affects only later rows, not rows that are joined already.
    """

    sides: TemporalSides
    watermark_ms: int
    late_data: str | None

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        sides, key_of = self.sides, batch.key_of_row()
        is_right = batch.rows.column(INPUT).to_numpy() == 1
        left_rows, right_rows = np.flatnonzero(~is_right), np.flatnonzero(is_right)
        left = sides.left.of(0, batch.rows.take(left_rows))
        right = sides.right.of(1, batch.rows.take(right_rows))
        is_late = sides.left.times(left) // MICROS_PER_MS <= self.watermark_ms
        waiting, versions = sides.lists_in(state)
        waiting = sides.waiting_with(waiting, left.filter(pa.array(~is_late)), key_of[left_rows][~is_late])
        versions = sides.versions_with(versions, right, key_of[right_rows])
        versions = sides.needed(versions, waiting, self.watermark_ms, state.num_rows)
        new_state, deleted = sides.state(waiting, versions, state)
        late, types = left.filter(pa.array(is_late)), emitted_types(state.schema)
        return Processed(
            rows=types.empty_table(),
            state=new_state,
            deleted=deleted,
            side={} if self.late_data is None else {self.late_data: _structs(late, types.field(LEFT))},
            late_rows=late.num_rows if self.late_data is None else 0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FireTemporalJoin:
    sides: TemporalSides
    due_ms: int
    late_data: str | None

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        sides = self.sides
        waiting, versions = sides.lists_in(state)
        is_through = sides.left.times(waiting.rows) // MICROS_PER_MS <= self.due_ms
        through, waiting_rows = np.flatnonzero(is_through), np.flatnonzero(~is_through)
        rows = KeyedLists(rows=waiting.rows.take(through), key_of=waiting.key_of[through])
        waiting = KeyedLists(rows=waiting.rows.take(waiting_rows), key_of=waiting.key_of[waiting_rows])
        types = emitted_types(state.schema)
        met = sides.met(rows, sides.without_nulls(versions, batch.keys), types)
        versions = sides.needed(versions, waiting, self.due_ms, state.num_rows)
        new_state, deleted = sides.state(waiting, versions, state)
        none = {} if self.late_data is None else {self.late_data: _structs(waiting.rows.slice(0, 0), types.field(LEFT))}
        return Processed(rows=met, state=new_state, deleted=deleted, side=none)


def emitted_types(state: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(name, state.field(name).type.value_type) for name in (LEFT, RIGHT)])


def _structs(rows: pa.Table, field: pa.Field, is_null: Mask | None = None) -> Any:
    return structs(rows, None if is_null is None else pa.array(is_null)).cast(field.type)
