"""Tests that after any batches the sum of the changes of a join's result equals the join of the summed changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import SparkFiles

from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION
from flykka.spark_bridge.worker.segments import CONTROL, MergeSegments, SegmentFolder
from flykka.spark_bridge.worker.weighted_results import IS_AFTER, JoinChanges, JoinKind, RowsBeforeAndAfter
from flykka.spark_bridge.worker.weighted_rows import (
    ROW_BITS,
    WEIGHT,
    ProcessChanges,
    TimeToLive,
    WeightedFunction,
    written_at,
)

Row = tuple[int | None, int, int | None, float | None]
"""The key, the side, a column of the left side, and a column of the right side."""

SCHEMA = pa.schema(
    [
        (POSITION, pa.int64()),
        ("__key_0", pa.int64()),
        ("__key_1", pa.int8()),
        ("__key_2", pa.int64()),
        ("__key_3", pa.float64()),
        (WEIGHT, pa.int64()),
        (VERSION, pa.int64()),
        (IS_DELETED, pa.bool_()),
    ]
)

TTL_MS = 10
EXPIRING_SCHEMA = SCHEMA.insert(6, pa.field(written_at(TTL_MS), pa.int64()))

keys = st.sampled_from([None, 0, 1, 2, 5])
left_rows = st.tuples(keys, st.just(0), st.sampled_from([None, 1, 2]), st.none())
right_rows = st.tuples(keys, st.just(1), st.none(), st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]))


@st.composite
def histories(draw: Callable[..., Any]) -> list[list[tuple[Row, int]]]:
    """Draw batches of weighted rows, in which the total weight of a row is never negative."""
    content = Counter[Row]()
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        batch = []
        for row in draw(st.lists(left_rows | right_rows, max_size=6)):
            row = canonical(row)
            least = -content[row]
            weight = draw(st.integers(max(least, -2), 2))
            content[row] += weight
            batch.append((row, weight))
        batches.append(batch)
    return batches


def canonical(row: Row) -> Row:
    *others, value = row
    if value is not None:
        value = float("inf") if value != value else value + 0.0
    return (*others, value)  # type: ignore[return-value]


class Worker:
    """Applies batches to an index on disk, which is merged now and then; if it `expires`, with a time-to-live."""

    def __init__(self, changed: WeightedFunction, *, merged_every: int = 3, expires: bool = False) -> None:
        self._folder = SegmentFolder(name=uuid4().hex)
        self._segments: list[str] = []
        self._changed = changed
        self._merged_every = merged_every
        self._version = 0
        self._expiry: TimeToLive | None = None
        self.expires = expires
        self.settled = 0
        self.since_ms = 0

    def settle(self) -> None:
        self.settled = self._version

    @property
    def stored(self) -> list[dict[str, Any]]:
        return [row for each in self._folder.read(self._segments) for run in each for row in run.table.to_pylist()]

    @property
    def segments(self) -> int:
        return len(self._segments)

    def restore(self) -> None:
        """Read all rows again in the current schema, as from a checkpoint."""
        rows = [{**dict.fromkeys(self._schema.names), **row} for row in self.stored]
        self._folder.write("restored", self._schema, [pa.Table.from_pylist(rows, self._schema)])
        self._segments = ["restored"]

    @property
    def _schema(self) -> pa.Schema:
        return EXPIRING_SCHEMA if self.expires else SCHEMA

    def process(self, batch: list[tuple[Row, int]], now_ms: int = 0) -> list[dict[str, Any]]:
        self._version += 1
        if self.expires:
            self._expiry = TimeToLive(ms=TTL_MS, now_ms=now_ms, since_ms=self.since_ms, settled=self.settled)
        rows = [(self._position(row), *row, weight) for row, weight in batch]
        names = [POSITION, "__key_0", "__key_1", "__key_2", "__key_3", WEIGHT]
        columns = [pa.array([row[n] for row in rows], SCHEMA.field(name).type) for n, name in enumerate(names)]
        table = pa.Table.from_arrays(columns, names=names)
        target = f"segment-{self._version}"
        process = ProcessChanges(
            folder=self._folder,
            segments=tuple(self._segments),
            target=target,
            version=self._version,
            schema=self._schema,
            index_keys=1,
            function=self._changed,
            time_to_live=self._expiry,
        )
        emitted = [row for each in process(iter(table.to_batches())) for row in each.to_pylist()]
        self._note(target, emitted)
        if self._version % self._merged_every == 0:
            self.merge(len(self._segments))
        return [row for row in emitted if row[CONTROL] is None]

    def _note(self, target: str, rows: list[dict[str, Any]]) -> None:
        self._segments += [target for row in rows if row[CONTROL] is not None and row[CONTROL][0]]

    def merge(self, number: int) -> None:
        """Merge this number of the newest segments."""
        if not number:
            return
        first = len(self._segments) - number
        self._segments, merged = self._segments[:first], self._segments[first:]
        target = f"merged-{uuid4().hex}"
        merge = MergeSegments(
            folder=self._folder,
            names=tuple(merged),
            target=target,
            schema=self._schema,
            drops_deleted=first == 0,
            clean_up=self._expiry,
        )
        one_row = iter([pa.RecordBatch.from_pydict({"id": [0]})])
        rows = [row for each in merge(one_row) for row in each.to_pylist()]
        self._note(target, rows)

    @staticmethod
    def _position(row: Row) -> int:
        """Return a position that several keys and rows share."""
        key, *others = row
        return ((-1 if key is None else key) % 3) << ROW_BITS | hash(tuple(others)) % 4


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))


def join_of(content: Counter[Row], kind: JoinKind) -> Counter[tuple[Any, ...]]:
    """Return the join of two multisets, computed row by row."""
    results = Counter[tuple[Any, ...]]()
    lefts = [row for row in content.elements() if row[1] == 0]
    rights = [row for row in content.elements() if row[1] == 1]

    def matches(left: Row, right: Row) -> bool:
        return left[0] is not None and left[0] == right[0]

    for left in lefts:
        partners = [right for right in rights if matches(left, right)]
        if kind is JoinKind.SEMI or kind is JoinKind.ANTI:
            if bool(partners) is (kind is JoinKind.SEMI):
                results[(left[2],)] += 1
            continue
        for right in partners:
            results[left[2], right[3]] += 1
        if not partners and kind in (JoinKind.LEFT, JoinKind.FULL):
            results[left[2], None] += 1
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        for right in rights:
            if not any(matches(left, right) for left in lefts):
                results[None, right[3]] += 1
    return results


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories(), kind=st.sampled_from(JoinKind))
def test_the_summed_changes_of_a_join_equal_the_join_of_the_sums(
    history: list[list[tuple[Row, int]]], kind: JoinKind
) -> None:
    right = () if kind in (JoinKind.SEMI, JoinKind.ANTI) else ("b",)
    worker = Worker(JoinChanges(kind=kind, side="side", left=("a",), right=("b",)))
    content, results = Counter[Row](), Counter[tuple[Any, ...]]()
    for batch in history:
        for row in worker.process(batch):
            results[tuple(canonical((None, 0, row["a"], row.get("b")))[2 : 3 + len(right)])] += row[WEIGHT]
        for changed, weight in batch:
            content[changed] += weight

        assert +results == join_of(content, kind)
        assert not -results


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_the_rows_of_touched_keys_are_passed_before_and_after_a_batch(history: list[list[tuple[Row, int]]]) -> None:
    columns = ("side", "a", "b")
    worker = Worker(RowsBeforeAndAfter(columns=columns))
    content = Counter[Row]()
    for batch in history:
        touched = {row[0] for row, _ in batch}
        before = Counter({row: number for row, number in content.items() if row[0] in touched})
        for changed, weight in batch:
            content[changed] += weight
        after = Counter({row: number for row, number in content.items() if row[0] in touched})

        rows = worker.process(batch)

        for expected, is_after in ((before, False), (after, True)):
            given_rows = Counter(
                canonical((None, *(row[name] for name in columns)))[1:] for row in rows if row[IS_AFTER] is is_after
            )
            assert given_rows == Counter(row[1:] for row in expected.elements())


COLUMNS = ("side", "a", "b")


def one(key: int, value: int) -> Row:
    return (key, 0, value, None)


def before_and_after(worker: Worker, batch: list[tuple[Row, int]], now_ms: int) -> tuple[list[int], list[int]]:
    """Process rows of the left side, and return the values of their keys' rows before and after the batch."""
    rows = worker.process(batch, now_ms)
    before, after = (sorted(row["a"] for row in rows if row[IS_AFTER] is is_after) for is_after in (False, True))
    return before, after


def expiring(merged_every: int = 100) -> Worker:
    return Worker(RowsBeforeAndAfter(columns=COLUMNS), merged_every=merged_every, expires=True)


@pytest.mark.parametrize("merged_every", [1, 100])
def test_an_index_key_is_forgotten_if_its_rows_have_not_changed_for_the_time_to_live(merged_every: int) -> None:
    worker = expiring(merged_every)
    worker.process([(one(1, 10), 1), (one(2, 20), 1), (one(5, 50), 1)], now_ms=100)

    assert before_and_after(worker, [(one(1, 11), 1)], 109) == ([10], [10, 11])
    assert before_and_after(worker, [(one(2, 21), 1)], 110) == ([], [21])
    assert before_and_after(worker, [(one(1, 12), 1)], 118) == ([10, 11], [10, 11, 12])
    assert before_and_after(worker, [(one(2, 22), 1)], 119) == ([21], [21, 22])


def test_merging_segments_removes_the_rows_of_forgotten_keys() -> None:
    worker = expiring()
    worker.process([(one(1, 10), 1), (one(2, 20), 1)], now_ms=100)
    worker.process([(one(2, 21), 1)], now_ms=109)
    worker.process([(one(2, 22), 1)], now_ms=120)

    worker.merge(3)

    assert [row["__key_2"] for row in worker.stored] == [22]


def test_an_old_row_of_a_changed_key_survives_a_merge_without_the_newer_rows() -> None:
    worker = expiring()
    worker.process([(one(1, 10), 1)], now_ms=100)
    for now_ms in range(105, 145, 5):
        worker.process([(one(1, now_ms), 1)], now_ms)
        worker.merge(1)

    before, _ = before_and_after(worker, [(one(1, 1), 1)], 144)

    assert before == [10, *range(105, 145, 5)]


def test_a_row_that_returns_after_it_was_forgotten_is_present() -> None:
    worker = expiring()
    worker.process([(one(1, 10), 1)], now_ms=100)

    assert before_and_after(worker, [(one(1, 10), -1), (one(1, 11), 1)], 110) == ([], [11])
    worker.settle()
    assert before_and_after(worker, [(one(1, 11), -1), (one(1, 10), 1)], 111) == ([11], [10])


def test_a_row_that_is_removed_before_it_is_added_is_absent_before_a_barrier() -> None:
    worker = expiring()
    worker.process([(one(1, 10), -1)], now_ms=100)

    assert before_and_after(worker, [(one(1, 10), 1)], 101) == ([], [])


def test_rows_stored_without_the_time_to_live_count_from_the_start_until_their_key_changes() -> None:
    worker = Worker(RowsBeforeAndAfter(columns=COLUMNS), merged_every=100)
    worker.process([(one(1, 10), 1), (one(2, 20), 1)])
    worker.merge(1)
    worker.expires, worker.since_ms = True, 100

    worker.restore()

    assert before_and_after(worker, [(one(1, 11), 1)], 109) == ([10], [10, 11])
    assert before_and_after(worker, [(one(2, 21), 1)], 110) == ([], [21])
    worker.since_ms = 112
    assert before_and_after(worker, [(one(1, 12), 1)], 119) == ([], [12])


def test_a_join_with_a_time_to_live_forgets_both_sides_of_a_key() -> None:
    worker = Worker(JoinChanges(kind=JoinKind.LEFT, side="side", left=("a",), right=("b",)), expires=True)

    def changes(batch: list[tuple[Row, int]], now_ms: int) -> list[tuple[int, float | None, int]]:
        return sorted((row["a"], row["b"], row[WEIGHT]) for row in worker.process(batch, now_ms))

    changes([(one(1, 10), 1), ((1, 1, None, 0.5), 1)], 100)

    assert changes([(one(1, 11), 1)], 109) == [(11, 0.5, 1)]
    assert changes([(one(1, 10), -1)], 110) == [(10, 0.5, -1)]
    assert changes([(one(1, 12), 1), (one(1, 11), -1)], 120) == [(12, None, 1)]


@st.composite
def timed_histories(draw: Callable[..., Any]) -> list[tuple[list[tuple[Row, int]], int, int, bool]]:
    """Draw batches of rows of the left side with the time since the last batch, the number of newest segments that are
    merged after it, and whether a barrier follows.
    """
    row = st.tuples(st.sampled_from([0, 1, 3]), st.just(0), st.sampled_from([1, 2]), st.none())
    change = st.tuples(row, st.sampled_from([-1, 1, 2]))
    batch = st.lists(change, min_size=1, max_size=3)
    return draw(st.lists(st.tuples(batch, st.integers(0, 12), st.integers(0, 3), st.booleans()), max_size=12))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=timed_histories())
def test_results_with_a_time_to_live_do_not_depend_on_merges(
    history: list[tuple[list[tuple[Row, int]], int, int, bool]],
) -> None:
    merging, plain = expiring(), expiring()
    now_ms = 0
    for batch, elapsed_ms, merged, is_settled in history:
        now_ms += elapsed_ms

        assert before_and_after(merging, batch, now_ms) == before_and_after(plain, batch, now_ms)

        merging.merge(merged if merged <= merging.segments else 0)
        if is_settled:
            merging.settle()
            plain.settle()
