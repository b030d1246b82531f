"""Tests that duplicates are dropped as if the rows arrived one by one, and that only unneeded state expires."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.worker.drop_duplicates import (
    IS_SEEN,
    SEEN_AT,
    DropDuplicates,
    DropDuplicatesWithin,
    ExpireDuplicates,
)
from flykka.spark_bridge.worker.process_batch import BatchFunction, KeyedBatch
from flykka.spark_bridge.worker.segment_file import POSITION

pytestmark = pytest.mark.slow

MICROS = pa.timestamp("us", "UTC")
WITHIN_MS = 5

Row = tuple[int, int | None]
"""A key, and an event time in ms."""


class Kept:
    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.values: dict[int, object] = {}
        self.emitted: list[Row] = []

    def process(self, rows: list[Row], function: BatchFunction) -> int:
        """Process a batch, and return the number of rows that were too late."""
        keys = pa.array([key for key, _ in rows], pa.int64())
        times = pa.array([None if at is None else at * 1000 for _, at in rows], pa.int64()).cast(MICROS)
        batch = KeyedBatch(pa.table({"id": keys, "at": times, "__key_0": keys, POSITION: keys}))
        listed = batch.keys["__key_0"].to_pylist()
        (field,) = self.schema
        state = pa.table([pa.array([self.values.get(key) for key in listed], field.type)], schema=self.schema)
        processed = function.process(batch, state)
        assert processed.changed is not None
        assert processed.rows.column_names == ["id", "at"]
        for slot, value in zip(processed.changed.tolist(), processed.state[0].to_pylist(), strict=True):
            self.values[listed[slot]] = value
        in_ms = processed.rows["at"].cast(pa.int64()).to_pylist()
        ids = processed.rows["id"].to_pylist()
        self.emitted += [(key, None if at is None else at // 1000) for key, at in zip(ids, in_ms, strict=True)]
        return processed.late_rows


def within(watermark_ms: int = WATERMARK_MIN) -> DropDuplicatesWithin:
    return DropDuplicatesWithin(
        columns=("id", "at"), event_time=EventTime(column="at"), within_ms=WITHIN_MS, watermark_ms=watermark_ms
    )


def one_by_one(batches: list[list[Row]]) -> list[Row]:
    """Return the rows that remain if the rows arrive one by one."""
    last: dict[int, int] = {}
    kept: list[Row] = []
    for key, at in (row for batch in batches for row in batch):
        assert at is not None
        if key not in last or at >= last[key] + WITHIN_MS:
            last[key] = at
            kept.append((key, at))
    return kept


BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=12), max_size=5)


@given(BATCHES)
def test_rows_are_deduplicated_as_if_they_arrived_one_by_one(batches: list[list[Row]]) -> None:
    kept = Kept(pa.schema([(SEEN_AT, MICROS)]))

    for batch in batches:
        kept.process(batch, within())

    assert sorted(kept.emitted) == sorted(one_by_one(batches))


@given(BATCHES)
def test_expired_keys_are_not_needed_if_rows_are_in_event_time_order(batches: list[list[Row]]) -> None:
    rows = sorted((row for batch in batches for row in batch), key=lambda row: row[1] or 0)
    sizes = np.cumsum([0, *(len(batch) for batch in batches)]).tolist()
    kept = Kept(pa.schema([(SEEN_AT, MICROS)]))

    watermark_ms = WATERMARK_MIN
    for start, end in pairwise(sizes):
        kept.process(rows[start:end], within(watermark_ms))
        # The next rows may have the same time as the last row.
        watermark_ms = (rows[end - 1][1] or 0) - 1
        forget = ExpireDuplicates(within_ms=WITHIN_MS, watermark_ms=watermark_ms)
        state = pa.table({"key": list(kept.values), SEEN_AT: pa.array(list(kept.values.values()), MICROS)})
        left = forget(state)
        kept.values = dict(zip(left["key"].to_pylist(), left[SEEN_AT].to_pylist(), strict=True))

    assert sorted(kept.emitted) == sorted(one_by_one([rows]))


def test_rows_before_the_watermark_are_dropped_and_counted() -> None:
    kept = Kept(pa.schema([(SEEN_AT, MICROS)]))

    assert kept.process([(1, 10)], within()) == 0
    assert kept.process([(1, 10), (2, 14), (2, 15), (1, 15)], within(watermark_ms=14)) == 2
    assert kept.process([(1, 12), (3, 15), (2, 21)], within(watermark_ms=20)) == 2

    assert kept.emitted == [(1, 10), (1, 15), (2, 15), (2, 21)]


def test_all_state_expires_at_the_end_of_the_input() -> None:
    state = pa.table({SEEN_AT: pa.array([1, 2], MICROS)})

    assert ExpireDuplicates(within_ms=WITHIN_MS, watermark_ms=WATERMARK_MAX)(state).num_rows == 0
    assert ExpireDuplicates(within_ms=WITHIN_MS, watermark_ms=WATERMARK_MIN)(state) == state


def test_a_row_without_event_time_is_emitted_once() -> None:
    kept = Kept(pa.schema([(SEEN_AT, MICROS)]))

    kept.process([(1, None), (1, None)], within(watermark_ms=100))
    kept.process([(1, None)], within(watermark_ms=104))

    assert kept.emitted == [(1, None)]


def test_only_the_first_row_of_a_key_is_emitted_without_ttl() -> None:
    kept = Kept(pa.schema([(IS_SEEN, pa.bool_())]))

    batches: list[list[Row]] = [[(1, 9), (2, 8), (1, 7)], [(2, 6), (3, None)]]
    for batch in batches:
        kept.process(batch, DropDuplicates(columns=("id", "at")))

    assert kept.emitted == [(1, 9), (2, 8), (3, None)]
