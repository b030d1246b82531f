"""Tests that expired state is removed when segments are merged, by the same rules as in a function."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from flykka.spark_bridge.functions.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from flykka.spark_bridge.worker.listed_state import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    TOUCHED,
    RemoveExpired,
    as_lists,
    as_table,
)
from flykka.spark_bridge.worker.segment_file import (
    IS_DELETED,
    NEXT_EVENT_TIMER,
    NEXT_PROCESSING_TIMER,
    POSITION,
    VERSION,
)

TIMERS = pa.list_(pa.int64())
TIMER_COLUMNS = [
    (EVENT_TIMERS, TIMERS),
    (PROCESSING_TIMERS, TIMERS),
    (NEXT_EVENT_TIMER, pa.int64()),
    (NEXT_PROCESSING_TIMER, pa.int64()),
]


def expiring(descriptor: StateDescriptor) -> StateDescriptor:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(100).build())
    return descriptor


def segment_table(state: pa.DataType, touched: pa.DataType, rows: list[tuple[Any, Any, list[int] | None]]) -> pa.Table:
    """Return rows of a segment: the value of `kept`, the time of its last write, and event-time timers."""
    schema = pa.schema(
        [
            (POSITION, pa.int64()),
            ("__key_0", pa.int64()),
            ("kept", state),
            (f"{TOUCHED}kept", touched),
            *TIMER_COLUMNS,
            (VERSION, pa.int64()),
            (IS_DELETED, pa.bool_()),
        ]
    )
    columns = [
        list(range(len(rows))),
        list(range(len(rows))),
        [value for value, _, _ in rows],
        [times for _, times, _ in rows],
        [timers for _, _, timers in rows],
        [None] * len(rows),
        [timers[0] if timers else None for _, _, timers in rows],
        [None] * len(rows),
        [1] * len(rows),
        [False] * len(rows),
    ]
    return pa.table([pa.array(values, of.type) for values, of in zip(columns, schema, strict=True)], schema=schema)


def cleaned(descriptor: StateDescriptor, rows: pa.Table, processing_time_ms: int) -> list[tuple[Any, Any, bool]]:
    clean_up = RemoveExpired(
        descriptors=cloudpickle.dumps([descriptor]),
        watermark_ms=0,
        processing_time_ms=processing_time_ms,
    )
    left = clean_up(rows)
    assert left.schema == rows.schema
    assert left.column(POSITION).to_pylist() == rows.column(POSITION).to_pylist()
    return [(row["kept"], row[f"{TOUCHED}kept"], row[IS_DELETED]) for row in left.to_pylist()]


def test_an_expired_value_is_removed_with_its_key_unless_timers_remain() -> None:
    rows = segment_table(pa.int64(), pa.int64(), [(1, 0, None), (2, 950, None), (3, 10, [7]), (None, None, [8])])

    left = cleaned(expiring(ValueStateDescriptor("kept", "bigint")), rows, 1000)

    assert left == [(None, None, True), (2, 950, False), (None, None, False), (None, None, False)]


@pytest.mark.parametrize(
    ("descriptor", "state", "touched", "value", "times", "value_left", "times_left"),
    [
        (
            ListStateDescriptor("kept", "string"),
            pa.list_(pa.string()),
            pa.list_(pa.int64()),
            ["a", "b", "c"],
            [10, 950, 20],
            ["b"],
            [950],
        ),
        (
            MapStateDescriptor("kept", "string", "bigint"),
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.int64()),
            [("a", 1), ("b", 2)],
            [("a", 10), ("b", 950)],
            [("b", 2)],
            [("b", 950)],
        ),
    ],
    ids=["list", "map"],
)
def test_elements_and_entries_expire_individually(
    descriptor: StateDescriptor,
    state: pa.DataType,
    touched: pa.DataType,
    value: Any,
    times: Any,
    value_left: Any,
    times_left: Any,
) -> None:
    rows = segment_table(
        state, touched, [(None, None, None), (value, times, None), ([], [], None), (value, times, None)]
    )

    left = cleaned(expiring(descriptor), rows, 1000)

    assert left[1] == left[3] == (value_left, times_left, False)
    assert left[0] == (None, None, False)


def test_rows_are_unchanged_if_no_state_has_expired() -> None:
    rows = segment_table(pa.int64(), pa.int64(), [(1, 950, None), (None, None, None)])
    clean_up = RemoveExpired(
        descriptors=cloudpickle.dumps([expiring(ValueStateDescriptor("kept", "bigint"))]),
        watermark_ms=0,
        processing_time_ms=1000,
    )

    assert clean_up(rows) is rows


def test_state_is_unchanged_by_a_conversion_to_lists() -> None:
    rows = segment_table(pa.map_(pa.string(), pa.int64()), pa.int64(), [([("a", 1)], 5, [3, 9]), (None, None, None)])
    state = rows.select(["kept", f"{TOUCHED}kept", *(name for name, _ in TIMER_COLUMNS)])

    assert as_table(as_lists(state), [0, 1], state.schema) == state
