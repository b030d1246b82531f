"""Tests that a row is joined with the version of its key at the row's time, for any order of rows and watermarks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.worker.inputs import INPUT
from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER, POSITION
from flykka.spark_bridge.worker.temporal_join import (
    FireTemporalJoin,
    StoreForTemporalJoin,
    TemporalSide,
    TemporalSides,
)

MICROS = pa.timestamp("us", "UTC")
ORDER = pa.struct([("id", pa.int64()), ("at", MICROS)])
RATE = pa.struct([("rate", pa.string()), ("since", MICROS), ("kind", pa.string())])
STATE = pa.schema([("left", pa.list_(ORDER)), ("right", pa.list_(RATE)), (NEXT_EVENT_TIMER, pa.int64())])
LATE = "__side_0"

Met = tuple[int, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A left row; times are in microseconds."""

    key: int | None
    id: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    key: int | None
    rate: str
    since: int
    kind: str = "+I"


class Join:
    """The state of keys between batches, and the emitted rows."""

    def __init__(self, *, is_outer: bool = True, late_data: str | None = None) -> None:
        self.sides = TemporalSides(
            left=TemporalSide(columns=("id", "at"), event_time=EventTime(column="at")),
            right=TemporalSide(columns=("rate", "since", "kind"), event_time=EventTime(column="since")),
            row_kind="kind",
            is_outer=is_outer,
        )
        self.late_data = late_data
        self.watermark_ms = WATERMARK_MIN
        self.state: dict[int | None, dict[str, object]] = {}
        self.met: list[Met] = []
        self.late_rows = 0
        self.late: list[int] = []

    def read(self, *rows: Order | Rate) -> None:
        keep = StoreForTemporalJoin(sides=self.sides, watermark_ms=self.watermark_ms, late_data=self.late_data)
        batch = KeyedBatch(_batch(rows))
        self._take(batch, keep.process(batch, self._of(batch)))

    def advance(self, watermark_ms: int) -> None:
        self.watermark_ms = watermark_ms
        due = [key for key, state in self.state.items() if _timer(state) <= watermark_ms]
        if due:
            batch = KeyedBatch(pa.table({"__key_0": pa.array(due, pa.int64()), POSITION: [key or 0 for key in due]}))
            fire = FireTemporalJoin(sides=self.sides, due_ms=watermark_ms, late_data=self.late_data)
            self._take(batch, fire.process(batch, self._of(batch)))

    def versions(self, key: int) -> list[str]:
        rates = self.state.get(key, {}).get("right") or []
        assert isinstance(rates, list)
        return [each["rate"] for each in rates]

    def _of(self, batch: KeyedBatch) -> pa.Table:
        none = dict.fromkeys(STATE.names)
        return pa.Table.from_pylist([self.state.get(key, none) for key in _keys(batch)], STATE)

    def _take(self, batch: KeyedBatch, processed: Processed) -> None:
        assert processed.deleted is not None
        for key, state, gone in zip(_keys(batch), processed.state.to_pylist(), processed.deleted, strict=True):
            self.state.pop(key, None)
            if not gone:
                self.state[key] = state
        assert processed.rows.schema.types == [ORDER, RATE]
        self.met += [(row["left"]["id"], row["right"] and row["right"]["rate"]) for row in processed.rows.to_pylist()]
        self.late_rows += processed.late_rows
        assert list(processed.side) == ([] if self.late_data is None else [self.late_data])
        self.late += [row["id"] for rows in processed.side.values() for row in rows.to_pylist()]


def _keys(batch: KeyedBatch) -> list[int | None]:
    keys: list[int | None] = batch.keys["__key_0"].to_pylist()
    return keys


def _timer(state: dict[str, object]) -> int:
    timer = state[NEXT_EVENT_TIMER]
    return timer if isinstance(timer, int) else WATERMARK_MAX + 1


def _batch(rows: tuple[Order | Rate, ...]) -> pa.Table:
    lefts = [row if isinstance(row, Order) else None for row in rows]
    rights = [row if isinstance(row, Rate) else None for row in rows]
    return pa.table(
        {
            INPUT: pa.array([int(row is None) for row in lefts], pa.int8()),
            "__1_id": pa.array([row and row.id for row in lefts], pa.int64()),
            "__1_at": pa.array([row and row.at for row in lefts], MICROS),
            "__2_rate": pa.array([row and row.rate for row in rights], pa.string()),
            "__2_since": pa.array([row and row.since for row in rights], MICROS),
            "__2_kind": pa.array([row and row.kind for row in rights], pa.string()),
            "__key_0": pa.array([row.key for row in rows], pa.int64()),
            POSITION: pa.array([row.key or 0 for row in rows], pa.int64()),
        }
    )


def rates_met(rows: list[Order | Rate]) -> list[Met]:
    """Return the matching rate of each order, computed from all rates."""
    met: list[Met] = []
    for order in (row for row in rows if isinstance(row, Order)):
        held = [r for r in rows if isinstance(r, Rate) and r.key == order.key is not None and r.since <= order.at]
        held = [rate for rate in held if rate.kind != "-U"]
        # Of the latest versions at this time, the last one matches.
        last = max(enumerate(held), key=lambda each: (each[1].since, each[0]), default=(0, None))[1]
        met.append((order.id, None if last is None or last.kind == "-D" else last.rate))
    return sorted(met, key=str)


KEYS = st.integers(0, 2) | st.none()
TIMES = st.integers(0, 9000)
KINDS = st.sampled_from(["+I", "+U", "-U", "-D"])
ROWS = st.lists(
    st.builds(Order, key=KEYS, id=st.integers(0, 10**6), at=TIMES)
    | st.builds(Rate, key=KEYS, rate=st.text("abc", max_size=2), since=TIMES, kind=KINDS),
    max_size=30,
)


@given(ROWS, st.lists(st.integers(1, 29), max_size=5), st.booleans())
def test_each_row_in_time_matches_the_version_at_its_time(
    rows: list[Order | Rate], cuts: list[int], shuffled: bool
) -> None:
    # Sorted by their milliseconds, no row is late, however the batches are cut.
    rows = sorted(rows, key=_ms) if not shuffled else rows
    join = Join()

    for start, end in pairwise([0, *sorted(cuts), len(rows)]):
        if batch := rows[start:end]:
            join.read(*batch)
        if not shuffled and rows[end:]:
            join.advance(_ms(rows[end]) - 1)
    join.advance(WATERMARK_MAX)

    assert sorted(join.met, key=str) == rates_met(rows)
    assert join.late_rows == 0
    assert all(len(join.versions(key)) <= 1 for key in range(3))


def _ms(row: Order | Rate) -> int:
    return (row.at if isinstance(row, Order) else row.since) // 1000


def test_an_inner_join_omits_unmatched_rows() -> None:
    join = Join(is_outer=False)

    join.read(Order(key=1, id=1, at=5000), Order(key=1, id=2, at=7000), Rate(key=1, rate="a", since=6000))
    join.advance(10)

    assert join.met == [(2, "a")]


def test_rows_wait_until_the_watermark_reaches_them() -> None:
    join = Join()
    join.read(Order(key=1, id=1, at=5000), Rate(key=1, rate="a", since=1000))

    join.advance(4)
    early = list(join.met)
    join.read(Rate(key=1, rate="b", since=5000))
    join.advance(5)

    assert early == []
    assert join.met == [(1, "b")]


@pytest.mark.parametrize("late_data", [None, LATE])
def test_left_rows_before_the_watermark_are_late(late_data: str | None) -> None:
    join = Join(late_data=late_data)
    join.advance(5)

    join.read(Order(key=1, id=1, at=5999), Order(key=1, id=2, at=6000))
    join.advance(6)

    assert join.met == [(2, None)]
    assert (join.late_rows, join.late) == ((1, []) if late_data is None else (0, [1]))


def test_a_version_before_the_watermark_applies_unless_a_newer_one_exists() -> None:
    join = Join()
    join.advance(5)

    join.read(Rate(key=1, rate="late", since=1000), Order(key=1, id=1, at=6000))
    join.read(Rate(key=1, rate="later", since=4000), Rate(key=1, rate="too late", since=3000))
    join.advance(7)

    assert join.met == [(1, "later")]


def test_the_newest_version_before_the_watermark_and_later_ones_are_kept() -> None:
    join = Join()
    join.read(*(Rate(key=1, rate=name, since=1000 * at) for at, name in enumerate("abcd")))

    join.read(Order(key=1, id=1, at=1500))
    before = join.versions(1)
    join.advance(2)

    assert before == ["a", "b", "c", "d"]
    assert join.versions(1) == ["c", "d"]


def test_a_deleted_key_has_no_state() -> None:
    join = Join()
    join.read(Rate(key=1, rate="a", since=1000), Rate(key=1, rate="a", since=3000, kind="-D"))
    join.read(Order(key=1, id=1, at=2000), Order(key=1, id=2, at=4000))

    join.advance(3)
    half = list(join.met)
    join.advance(4)

    assert half == [(1, "a")]
    assert join.met == [(1, "a"), (2, None)]
    assert join.state == {}


def test_a_deletion_is_removed_when_the_watermark_reaches_it() -> None:
    join = Join()
    join.read(Rate(key=1, rate="a", since=1000), Rate(key=1, rate="a", since=3000, kind="-D"))

    join.advance(2)
    kept = join.versions(1)
    join.advance(3)

    assert kept == ["a", "a"]
    assert join.state == {}
