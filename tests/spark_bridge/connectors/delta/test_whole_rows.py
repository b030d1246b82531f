"""Tests that a sink of changes keeps equal rows as often as they were added and not removed."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame, rows_of_table
from tests.spark_bridge.connectors.delta.commits import before_the_first_commit, crash

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string, row_kind string"
NAN = float("nan")


def files_of(table: Path) -> set[str]:
    return set(DeltaTable(str(table)).file_uris())


def test_one_of_several_equal_rows_is_removed_for_each_change(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table))
    attempt.publish(1, frame(spark, SCHEMA, *[(1, "a", "+I")] * 3, (None, None, "+I"), (None, None, "+U")))

    attempt.publish(
        2,
        frame(spark, SCHEMA, (1, "a", "-D"), (1, "a", "-U"), (None, None, "-D"), (2, "b", "+U")),
        # A row may be removed before it is added; then the table does not contain the row.
        frame(spark, SCHEMA, (3, "c", "-D"), (3, "c", "+I")),
    )

    assert rows_of_table(table) == [(1, "a"), (2, "b"), (None, None)]


def test_two_of_three_equal_rows_in_different_files_are_removed(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table))
    for number in (1, 2, 3):
        attempt.publish(number, frame(spark, SCHEMA, (1, "a", "+I"), (number, "b", "+I")))
    before = files_of(table)

    attempt.publish(4, frame(spark, SCHEMA, (1, "a", "-D"), (1, "a", "-D")))

    assert rows_of_table(table) == [(1, "a"), (1, "b"), (2, "b"), (3, "b")]
    assert len(before) == 3
    assert len(before & files_of(table)) == 1


def test_only_files_with_removed_rows_are_rewritten(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table).partition_by("name"))
    for number, name in enumerate(("a", "b", None, "x/y")):
        attempt.publish(number, frame(spark, SCHEMA, (number, name, "+I"), (-number, name, "+I")))
    before = files_of(table)

    attempt.publish(8, frame(spark, SCHEMA, (2, None, "-D"), (3, "x/y", "-D")))
    between = files_of(table)
    attempt.publish(9, frame(spark, SCHEMA, (-3, "x/y", "-D"), (1, "b", "-D"), (-1, "b", "-D")))

    assert (len(before), len(before & between), len(between)) == (4, 2, 4)
    assert rows_of_table(table) == [(-2, None), (0, "a"), (0, "a")]
    assert len(files_of(table)) == 2


def test_an_empty_partition_is_that_of_null(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table).partition_by("name"))
    attempt.publish(1, frame(spark, SCHEMA, (1, "", "+I")))

    attempt.publish(2, frame(spark, SCHEMA, (1, "", "-D"), (2, "", "+I")))

    assert rows_of_table(table) == [(2, None)]


def removed_from(table: Path) -> set[str]:
    commits = [json.loads(line) for log in table.glob("_delta_log/*.json") for line in log.read_text().splitlines()]
    return {f"{table}/{commit['remove']['path']}" for commit in commits if "remove" in commit}


VALUES = (
    "id: CAST({id} AS DOUBLE)",
    "parts: named_struct('x', CAST({id} AS FLOAT), 'y', array(CAST({id} AS DOUBLE), NULL))",
    "counts: map('b', {id}, 'a', NULL)",
    "at: TIMESTAMP '1890-01-01 00:00:00.123456 UTC'",
    "local: TIMESTAMP_NTZ '2024-03-31 02:30:00.000001'",
    "day: DATE '0001-01-01'",
    "amount: CAST('12345678901234567890.123456789' AS DECIMAL(38, 9))",
    "bytes: X'00FF'",
    "flag: CAST(NULL AS BOOLEAN)",
)


def typed(spark: SparkSession, *rows: tuple[str, str]) -> DataFrame:
    """Rows with columns of all kinds of types, whose numbers are a constant of SQL, and their kind."""
    columns = ", ".join("{1} AS `{0}`".format(*each.split(": ", 1)) for each in VALUES)
    texts = [f"SELECT {columns.format(id=number)}, '{kind}' AS kind" for number, kind in rows]
    return spark.sql(" UNION ALL ".join(texts))


@pytest.mark.parametrize(
    ("stored", "removed"), [("'NaN'", "-CAST('NaN' AS DOUBLE)"), ("-0e0", "0e0"), ("0e0", "-0e0"), ("NULL", "NULL")]
)
def test_rows_of_any_type_are_equal_as_in_spark(spark: SparkSession, tmp_path: Path, stored: str, removed: str) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(tmp_path / "table", row_kind="kind"))
    attempt.publish(1, typed(spark, (stored, "+I"), (stored, "+I"), ("1e0", "+I"), ("2e0", "+I")))

    attempt.publish(2, typed(spark, (removed, "-D"), ("1e0", "-D")))

    numbers = sorted(str(abs(row[0] or 0.0)) for row in rows_of_table(tmp_path / "table"))
    assert numbers == sorted(["2.0", {"'NaN'": "nan", "NULL": "0.0"}.get(stored, "0.0")])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((1, "b", "-D"), r'table does not have the row \{"id":1,"name":"b"\} as often as it is removed'),
        ((2, None, "-U"), r'table does not have the row \{"id":2,"name":null\} as often as it is removed'),
        ((1, "a", "+X"), r"the column 'row_kind' has \+X, which is not a row kind"),
    ],
)
def test_a_change_that_does_not_fit_the_table_is_refused(
    spark: SparkSession, table: Path, change: tuple[Any, ...], why: str
) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a", "+I"), (1, "c", "+I")))

    with pytest.raises(OperatorFailedError) as raised:
        attempt.publish(2, frame(spark, SCHEMA, (1, "a", "-D"), (3, "d", "+I"), change))

    raised.match("publishes the rows of checkpoint 2")
    with pytest.raises(Exception, match=why):
        raise raised.value.__cause__ or AssertionError
    assert rows_of_table(table) == [(1, "a"), (1, "c")]


def test_a_removal_from_a_missing_table_is_refused(spark: SparkSession, table: Path) -> None:
    with pytest.raises(OperatorFailedError) as raised:
        Attempt(spark, DeltaSink.apply_changes(table)).publish(1, frame(spark, SCHEMA, (1, "a", "-D")))

    assert "as often as it is removed" in str(raised.value.__cause__)


def test_columns_that_the_changes_lack_are_not_compared(spark: SparkSession, table: Path) -> None:
    theirs = pa.table({"id": pa.array([1, 1], pa.int64()), "more": ["x", "y"]})
    write_deltalake(str(table), theirs)
    sink = DeltaSink.apply_changes(table)

    Attempt(spark, sink).publish(1, frame(spark, "id long, row_kind string", (1, "-D"), (2, "+I")))
    (kept,) = [row for row in rows_of_table(table) if row[0] == 1]
    Attempt(spark, sink.merge_schema()).publish(
        2, frame(spark, "id long, n int, row_kind string", (2, None, "-D"), (3, 3, "+I"))
    )

    assert kept in theirs.select(["id", "more"]).to_pandas().itertuples(index=False, name=None)
    assert rows_of_table(table) == sorted([(*kept, None), (3, None, 3)], key=repr)


def test_changes_are_applied_once_if_a_crash_precedes_the_commit(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = DeltaSink.apply_changes(table)
    first = Attempt(spark, sink)
    first.publish(1, frame(spark, SCHEMA, (1, "a", "+I"), (1, "a", "+I"), (1, "a", "+I")))
    prepared = first.prepare(2, frame(spark, SCHEMA, (1, "a", "-D"), (2, "b", "+I")))

    with monkeypatch.context() as patch:
        before_the_first_commit(patch, crash)
        with pytest.raises(OperatorFailedError):
            first.writer.commit(2)
    seen_between = rows_of_table(table)
    for number in (1, 2):
        Attempt(spark, sink, number).writer.restore(prepared)

    assert seen_between == [(1, "a")] * 3
    assert rows_of_table(table) == [(1, "a"), (1, "a"), (2, "b")]


def test_a_commit_completed_by_another_attempt_is_not_repeated(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = DeltaSink.apply_changes(table)
    zombie = Attempt(spark, sink)
    zombie.publish(1, frame(spark, SCHEMA, (1, "a", "+I"), (1, "a", "+I")))
    prepared = zombie.prepare(2, frame(spark, SCHEMA, (1, "a", "-D"), (2, "b", "+I")))

    before_the_first_commit(monkeypatch, lambda: Attempt(spark, sink, 1).writer.restore(prepared))
    zombie.writer.commit(2)

    assert rows_of_table(table) == [(1, "a"), (2, "b")]


def test_changes_are_computed_again_if_the_files_were_compacted(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table))
    for number in (1, 2):
        attempt.publish(number, frame(spark, SCHEMA, (1, "a", "+I"), (number, "b", "+I")))

    before_the_first_commit(monkeypatch, lambda: DeltaTable(str(table)).optimize.compact())
    attempt.publish(3, frame(spark, SCHEMA, (1, "a", "-D")))

    assert rows_of_table(table) == [(1, "a"), (1, "b"), (2, "b")]


def test_changes_are_not_computed_again_after_an_append(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a", "+I"), (2, "b", "+I")))

    theirs = pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]})
    before_the_first_commit(monkeypatch, lambda: write_deltalake(str(table), theirs, mode="append"))
    attempt.publish(2, frame(spark, SCHEMA, (1, "a", "-D")))

    assert rows_of_table(table) == [(1, "a"), (2, "b")]
    assert files_of(table) == {str(path) for path in table.glob("*.parquet")} - removed_from(table)


def test_changes_that_cancel_out_change_no_file(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.apply_changes(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a", "+I")))
    before = files_of(table)

    attempt.publish(2, frame(spark, SCHEMA, (2, "b", "+I"), (1, "a", "-U"), (1, "a", "+U"), (2, "b", "-D")))

    assert files_of(table) == before


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_table_is_the_multiset_of_random_changes(spark: SparkSession, table: Path, seed: int) -> None:
    choice = random.Random(seed)
    attempt = Attempt(spark, DeltaSink.apply_changes(table).partition_by("part"))
    schema = "part string, id long, price double, row_kind string"
    current: Counter[tuple[Any, ...]] = Counter()
    for checkpoint_id in range(1, 7):
        changes = []
        for _ in range(choice.randrange(1, 30)):
            there = sorted(current.elements(), key=repr)
            if there and choice.random() < 0.45:
                row = choice.choice(there)
                current[row] -= 1
                changes.append((*row, choice.choice(["-D", "-U"])))
            else:
                row = (choice.choice("ab"), choice.choice([1, 2, None]), choice.choice([0.5, NAN, None]))
                current[row] += 1
                changes.append((*row, choice.choice(["+I", "+U"])))
        choice.shuffle(changes)
        attempt.publish(checkpoint_id, *(frame(spark, schema, *changes[part::2]) for part in (0, 1)))

        expected = sorted(((id_, price, part) for part, id_, price in current.elements()), key=repr)
        rows = DeltaTable(str(table)).to_pyarrow_table().select(["id", "price", "part"]).to_pylist()
        assert sorted(map(repr, (tuple(row.values()) for row in rows))) == list(map(repr, expected))


def test_rows_without_the_column_of_kinds_are_refused(spark: SparkSession, table: Path) -> None:
    with pytest.raises(PrototypeError, match="there is no column 'row_kind'; the columns are id"):
        DeltaSink.apply_changes(table).check_rows(spark.range(1))
    with pytest.raises(PrototypeError, match="cannot be partitioned by all columns of the stream"):
        DeltaSink.apply_changes(table).partition_by("id").check_rows(frame(spark, "id long, row_kind string"))
