"""At each barrier the published rows are those that the rule chooses among the current rows of each key."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import SparkFiles

from flykka.spark_bridge.worker.process_batch import ProcessKeyedBatch
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION
from flykka.spark_bridge.worker.segments import CONTROL, MergeSegments, SegmentFolder
from flykka.spark_bridge.worker.upsert_rules import CONFLICT, IS_PUBLISHED, ConflictRule, PublishRows, UpsertRules
from flykka.spark_bridge.worker.weighted_rows import ROW_BITS, WEIGHT

Row = tuple[int | None, float | None]
"""The key, and a value."""

Batch = list[tuple[Row, int]]

SCHEMA = pa.schema(
    [
        (POSITION, pa.int64()),
        ("__key_0", pa.int64()),
        ("__key_1", pa.int64()),
        ("__key_2", pa.float64()),
        (WEIGHT, pa.int64()),
        (IS_PUBLISHED, pa.bool_()),
        (VERSION, pa.int64()),
        (IS_DELETED, pa.bool_()),
    ]
)

NAN = float("inf")
"""Stands for NaN, which equals no other value in Python."""

rows = st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, -1.5, 0.0, 2.0, NAN]))
histories = st.lists(st.lists(st.lists(st.tuples(rows, st.sampled_from([1, -1])), max_size=5), max_size=3), max_size=5)
"""Batches of weighted rows between barriers. The removal of a row may come before the row."""


class Worker:
    """Applies batches to an index on disk, which it merges now and then, and publishes rows."""

    def __init__(self, rule: ConflictRule) -> None:
        self.rules = UpsertRules(rule=rule, columns=("k", "v"), keys=("k",), order=("v", "k"), row_kind="row_kind")
        self._folder = SegmentFolder(name=uuid4().hex)
        self._segments: list[tuple[str, int]] = []
        self._version = 0
        self._since = 1

    def process(self, batch: Batch) -> None:
        columns = [
            pa.array([self._position(row) for row, _ in batch], pa.int64()),
            pa.array([key for (key, _), _ in batch], pa.int64()),
            pa.array([key for (key, _), _ in batch], pa.int64()),
            pa.array([_stored(value) for (_, value), _ in batch], pa.float64()),
            pa.array([weight for _, weight in batch], pa.int64()),
        ]
        table = pa.Table.from_arrays(columns, names=SCHEMA.names[:5])
        assert self._run(ProcessKeyedBatch, table) == []
        if self._version % 3 == 0:
            self._merge()

    def publish(self, *, judges: bool = True) -> tuple[list[dict[str, Any]], str]:
        touched = tuple(name for name, version in self._segments if version >= self._since)
        options = {"touched": touched, "since": self._since, "judges": judges}
        emitted = self._run(PublishRows, pa.table({"id": [0]}), **options) if touched else []
        self._since = self._version + 1
        conflicts = [row[CONFLICT] for row in emitted if row[CONFLICT]]
        return [row for row in emitted if row[CONFLICT] is None], "".join(conflicts)

    def _run(self, work: Any, table: pa.Table, **options: Any) -> list[dict[str, Any]]:
        self._version += 1
        target = f"segment-{self._version}"
        process = work(
            folder=self._folder,
            segments=tuple(name for name, _ in self._segments),
            target=target,
            version=self._version,
            schema=SCHEMA,
            function=self.rules,
            **options,
        )
        return self._note(target, [row for each in process(iter(table.to_batches())) for row in each.to_pylist()])

    def _note(self, target: str, emitted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        reports = [row[CONTROL] for row in emitted if row[CONTROL] is not None]
        self._segments += [(target, report[1]) for report in reports if report[0]]
        return [row for row in emitted if row[CONTROL] is None]

    def _merge(self) -> None:
        target, names = f"merged-{self._version}", tuple(name for name, _ in self._segments)
        merge = MergeSegments(
            folder=self._folder, names=names, target=target, schema=SCHEMA, drops_deleted=True, clean_up=None
        )
        self._segments = []
        self._note(target, [row for each in merge(iter([pa.record_batch({"id": [0]})])) for row in each.to_pylist()])

    @staticmethod
    def _position(row: Row) -> int:
        """Return a position that several keys share, and several rows of a key."""
        key, value = row
        return ((-1 if key is None else key) % 2) << ROW_BITS | hash(value) % 3


def _stored(value: float | None) -> float | None:
    return float("nan") if value == NAN else value


def _read(value: float | None) -> float | None:
    return NAN if value is not None and value != value else value


def _in_order(row: Row) -> tuple[bool, float]:
    """Return a key that sorts nulls first, as Spark's ORDER BY does."""
    return row[1] is not None, row[1] or 0.0


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))


def _chosen(rule: ConflictRule, present: set[Row], published: Row | None) -> Row | None:
    if rule is ConflictRule.DEDUPLICATE:
        return max(present, key=_in_order, default=None)
    return published if published in present else min(present, key=_in_order, default=None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories, rule=st.sampled_from(ConflictRule), judges=st.booleans())
def test_published_rows_follow_the_rule_at_each_barrier(
    history: list[list[Batch]], rule: ConflictRule, judges: bool
) -> None:
    worker = Worker(rule)
    content, table = Counter[Row](), dict[int | None, Row]()
    for batches in history:
        for batch in filter(None, batches):
            worker.process(batch)
            for row, weight in batch:
                content[row] += weight
        present = defaultdict[int | None, set[Row]](set)
        for row in +content:
            present[row[0]].add(row)
        several = [key for key, found in present.items() if len(found) > 1]
        before = dict(table)

        emitted, conflict = worker.publish(judges=judges)

        if rule is ConflictRule.ERROR and judges and several:
            assert conflict.startswith("the key (k = ")
            assert emitted == []
            return
        assert conflict == ""
        changed = [change["k"] for change in emitted]
        assert len(changed) == len(set(changed)), "a key has one change"
        for change in emitted:
            key, new = change["k"], (change["k"], _read(change["v"]))
            if change["row_kind"] == "-D":
                assert table.pop(key) == new
            else:
                assert table.get(key) != new, "what does not change is not emitted"
                table[key] = new
        expected = {key: _chosen(rule, found, before.get(key)) for key, found in present.items()}
        assert table == expected


def test_an_earlier_choice_stays_with_nothing_until_its_row_is_gone() -> None:
    worker = Worker(ConflictRule.NOTHING)
    worker.process([((1, 2.0), 1)])
    worker.publish()

    worker.process([((1, 0.0), 1)])
    assert worker.publish() == ([], "")
    worker.process([((1, 2.0), -1)])

    assert worker.publish()[0] == [{"k": 1, "v": 0.0, "row_kind": "+U", CONFLICT: None, CONTROL: None}]


def test_a_removal_may_come_before_its_row() -> None:
    worker = Worker(ConflictRule.ERROR)
    worker.process([((1, 0.0), -1)])
    worker.process([((1, 2.0), 1)])
    worker.process([((1, 0.0), 1)])

    emitted, conflict = worker.publish()

    assert (conflict, [(row["v"], row["row_kind"]) for row in emitted]) == ("", [(2.0, "+U")])


def test_equal_rows_of_a_key_are_no_conflict() -> None:
    worker = Worker(ConflictRule.ERROR)
    worker.process([((1, 2.0), 1), ((1, 2.0), 1)])

    emitted, conflict = worker.publish()

    assert (conflict, len(emitted)) == ("", 1)


def test_a_conflict_names_the_key_and_both_rows() -> None:
    worker = Worker(ConflictRule.ERROR)
    worker.process([((None, 1.5), 1), ((2, 2.0), 1), ((2, None), 1)])

    assert worker.publish() == ([], "the key (k = 2): (k = 2, v = None) and (k = 2, v = 2.0)")


def test_nested_values_are_compared_by_their_texts() -> None:
    rules = UpsertRules(
        rule=ConflictRule.DEDUPLICATE, columns=("k", "v"), keys=("k",), order=("k", "v"), row_kind="row_kind"
    )
    rows = pa.table({"k": [1, 1, 1], "v": [[1, 2], [3], None]})
    key_of, weights = pa.array([0, 0, 0]).to_numpy(), pa.array([1, 1, 1]).to_numpy()
    is_published = pa.array([False] * 3).to_numpy(zero_copy_only=False)

    places, several = rules.chosen(rows, key_of, weights, is_published)

    assert (places.tolist(), several.tolist()) == ([1], [2, 0, 1])
