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
from flykka.spark_bridge.worker.weighted_rows import ROW_BITS, WEIGHT, ProcessChanges, WeightedFunction

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
    """Applies batches to an index on disk, which is merged now and then."""

    def __init__(self, changed: WeightedFunction) -> None:
        self._folder = SegmentFolder(name=uuid4().hex)
        self._segments: list[str] = []
        self._changed = changed
        self._version = 0

    def process(self, batch: list[tuple[Row, int]]) -> list[dict[str, Any]]:
        self._version += 1
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
            schema=SCHEMA,
            index_keys=1,
            function=self._changed,
        )
        emitted = [row for each in process(iter(table.to_batches())) for row in each.to_pylist()]
        self._note(target, emitted)
        if self._version % 3 == 0:
            self._merge()
        return [row for row in emitted if row[CONTROL] is None]

    def _note(self, target: str, rows: list[dict[str, Any]]) -> None:
        self._segments += [target for row in rows if row[CONTROL] is not None and row[CONTROL][0]]

    def _merge(self) -> None:
        target = f"merged-{self._version}"
        merge = MergeSegments(
            folder=self._folder,
            names=tuple(self._segments),
            target=target,
            schema=SCHEMA,
            drops_deleted=True,
            clean_up=None,
        )
        one_row = iter([pa.RecordBatch.from_pydict({"id": [0]})])
        rows = [row for each in merge(one_row) for row in each.to_pylist()]
        self._segments = []
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
