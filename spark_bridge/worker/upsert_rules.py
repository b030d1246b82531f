"""Rows by the key of a sink: at each barrier one row of each key is chosen and published (SinkUpsertMaterializer).

The index has the rows of each sink key with their weights, as in every operator over changing rows, and marks the row
that the sink has. Between barriers only weights change: a key may have two rows until the removal of one row arrives.
At a barrier a rule chooses among the present rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flykka.spark_bridge.functions.equal_values import normalised_value
from flykka.spark_bridge.functions.error_texts import short_repr
from flykka.spark_bridge.rows.row_kind import DELETE, UPDATE_AFTER
from flykka.spark_bridge.worker.keys import Mask, RowOrder, Rows, in_order, key_columns, numbers_of_rows
from flykka.spark_bridge.worker.outputs import emitted_batches
from flykka.spark_bridge.worker.process_batch import KeyedBatch, KeyedWork, Processed
from flykka.spark_bridge.worker.segment_file import VERSION, Segment
from flykka.spark_bridge.worker.segments import CONTROL, CONTROL_TYPE
from flykka.spark_bridge.worker.weighted_rows import ROW_BITS, WEIGHT, rows_of_keys

IS_PUBLISHED = "__is_published"
"""The column of state that marks the row that the sink has for its key."""

CONFLICT = "__conflict"
"""The column in which a worker reports two rows of a key; an empty text if no key has several."""


class ConflictRule(StrEnum):
    """The rule of ON CONFLICT for several rows of one key of a sink; the words are Flink's."""

    ERROR = "ERROR"
    DEDUPLICATE = "DEDUPLICATE"
    NOTHING = "NOTHING"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertRules:
    """Chooses the row of each key: with DEDUPLICATE the greatest row, otherwise the published row, else the least row.

    Rows are compared by the columns of `order`, as by Spark's ORDER BY. Rows have `columns`; `keys` are the keys of the
    sink. The kind of an emitted row is in the column `row_kind`.
    """

    rule: ConflictRule
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    order: tuple[str, ...]
    row_kind: str

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        """Add the weights of a batch. A published row stays in the state, even without weight."""
        deltas = np.add.reduceat(batch.rows.column(WEIGHT).to_numpy(), batch.starts)
        weights = deltas + pc.fill_null(state.column(WEIGHT), 0).to_numpy()
        is_published = _mask(pc.fill_null(state.column(IS_PUBLISHED), False))
        changed = np.flatnonzero(deltas)
        weights, is_published = weights[changed], is_published[changed]
        return Processed(
            rows=self.emitted(self.content(batch.keys).slice(0, 0), []).append_column(
                CONFLICT, pa.array([], pa.string())
            ),
            state=_state(weights, is_published),
            changed=changed,
            deleted=(weights == 0) & ~is_published,
        )

    def content(self, keys: pa.Table) -> pa.Table:
        return keys.select(key_columns(keys)[len(self.keys) :]).rename_columns(list(self.columns))

    def emitted(self, rows: pa.Table, kinds: list[str]) -> pa.Table:
        return rows.append_column(self.row_kind, pa.array(kinds, pa.string()))

    def chosen(self, rows: pa.Table, key_of: Rows, weights: Rows, is_published: Mask) -> tuple[Rows, Rows]:
        """Return the index of the chosen row of each key, -1 without a row, and the rows that share a key, in order."""
        present = np.flatnonzero(weights > 0)
        counts = np.bincount(key_of[present], minlength=key_of.max(initial=-1) + 1)
        places = np.full(len(counts), -1)
        places[key_of[present]] = present
        several = present[counts[key_of[present]] > 1]
        if not len(several):
            return places, several
        compared = pa.table({name: _comparable(rows.column(name).take(several)) for name in self.order})
        orders = [RowOrder(column=name, is_descending=False, nulls_first=True) for name in self.order]
        several = several[in_order(compared, key_of[several], orders)]
        # Among several rows of a key numpy keeps the last.
        if self.rule is ConflictRule.DEDUPLICATE:
            places[key_of[several]] = several
        else:
            places[key_of[several[::-1]]] = several[::-1]
            published = several[is_published[several]]
            places[key_of[published]] = published
        return places, several

    def conflict(self, rows: pa.Table, several: Rows) -> str:
        one, other = (rows.slice(int(place), 1).to_pylist()[0] for place in several[:2])
        return f"the key {_text({key: one[key] for key in self.keys})}: {_text(one)} and {_text(other)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRows(KeyedWork):
    """Emits an upsert or a delete for each key whose row has changed since the last barrier.

    `touched` are the segments with changes since then, which have versions from `since`. If it `judges`, and the rule
    is ERROR, two rows of a key are reported, and nothing else happens.
    """

    function: UpsertRules
    touched: tuple[str, ...]
    since: int
    judges: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            segments = self.folder.read(self.segments)
            by_name = dict(zip(self.segments, segments, strict=True))
            runs = [run for name in self.touched for run in by_name[name]]
            places = [run.positions[_mask(pc.greater_equal(run.table.column(VERSION), self.since))] for run in runs]
            positions = np.unique(np.concatenate(places) >> ROW_BITS) << ROW_BITS
            yield from self._processed(rows_of_keys(segments, positions, self.schema), segments)

    def _processed(self, rows: pa.Table, segments: list[Segment]) -> Iterator[pa.RecordBatch]:
        batch, rules = KeyedBatch(rows), self.function
        content = rules.content(batch.keys)
        key_of = numbers_of_rows(batch.keys.select(key_columns(batch.keys)[: len(rules.keys)]))
        weights, was_published = batch.rows.column(WEIGHT).to_numpy(), _mask(batch.rows.column(IS_PUBLISHED))
        places, several = rules.chosen(content, key_of, weights, was_published)
        is_published = np.zeros(len(weights), np.bool_)
        is_published[places[places >= 0]] = True
        conflict = ""
        if self.judges and rules.rule is ConflictRule.ERROR and len(several):
            conflict, is_published = rules.conflict(content, several), was_published
        changed = np.flatnonzero(is_published != was_published)
        removed = changed[~is_published[changed]]
        upserts, deletes = changed[is_published[changed]], removed[places[key_of[removed]] < 0]
        kinds = [DELETE] * len(deletes) + [UPDATE_AFTER] * len(upserts)
        processed = Processed(
            rows=rules.emitted(content.take(np.concatenate([deletes, upserts])), kinds),
            state=_state(weights[changed], is_published[changed]),
            changed=changed,
            deleted=~is_published[changed] & (weights[changed] == 0),
        )
        control = pa.array([[*self._written(batch, processed), None, 0]], CONTROL_TYPE)
        yield from emitted_batches(processed.rows, {CONFLICT: pa.array([conflict]), CONTROL: control})


def _mask(values: pa.ChunkedArray) -> Mask:
    return np.asarray(values.to_numpy(), dtype=np.bool_)


def _state(weights: Rows, is_published: Mask) -> pa.Table:
    return pa.table({WEIGHT: pa.array(weights), IS_PUBLISHED: pa.array(is_published)})


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Arrow can sort: texts for nested values."""
    if not pa.types.is_nested(values.type):
        return values
    texts = (None if value is None else repr(normalised_value(value)) for value in values.to_pylist())
    return pa.chunked_array([pa.array(texts, pa.string())])


def _text(row: dict[str, Any]) -> str:
    return f"({', '.join(f'{name} = {short_repr(value)}' for name, value in row.items())})"
