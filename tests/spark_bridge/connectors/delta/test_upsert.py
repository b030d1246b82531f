"""Tests that a changelog is written as a table that contains only the last change of each key."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from flykka.messages.state.handles import WriterState
from flykka.spark_bridge.connectors.delta.publishing import newer_than_stored
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame, rows_of_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string, seq long, row_kind string"


def test_the_last_change_of_a_key_is_applied_within_a_checkpoint(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"], sequence_by="seq"))

    attempt.publish(
        1,
        frame(spark, SCHEMA, (1, "third", 3, "+U"), (1, "first", 1, "+I"), (2, "gone", 1, "+I"), (4, "kept", 1, "+I")),
        frame(spark, SCHEMA, (1, "second", 2, "+U"), (2, None, 2, "-D"), (3, "again", 3, "+I"), (3, None, 2, "-D")),
    )

    assert rows_of_table(table) == [(1, "third", 3), (3, "again", 3), (4, "kept", 1)]


@pytest.mark.long
def test_changes_of_later_checkpoints_replace_and_delete_rows(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"], sequence_by="seq"))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a", 1, "+I"), (2, "b", 1, "+I"), (3, "c", 1, "+I")))

    attempt.publish(
        2, frame(spark, SCHEMA, (1, "a", 1, "-U"), (1, "a2", 2, "+U"), (2, "b", 2, "-D"), (9, "never there", 2, "-D"))
    )

    assert rows_of_table(table) == [(1, "a2", 2), (3, "c", 1)]


def test_a_late_older_change_is_ignored(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"], sequence_by="seq"))
    attempt.publish(1, frame(spark, SCHEMA, (1, "new", 5, "+I"), (2, "new", 5, "+I")))

    attempt.publish(2, frame(spark, SCHEMA, (1, "old", 4, "+U"), (2, "old", 4, "-D")))
    (state, *_) = attempt.publish(3, frame(spark, SCHEMA, (2, "older", 4, "+U")))
    delta_table = DeltaTable(str(table))
    attempt.publish(4, frame(spark, SCHEMA, (2, "as new", 5, "+U")))

    assert rows_of_table(table) == [(1, "new", 5), (2, "as new", 5)]
    assert isinstance(state, WriterState)
    assert delta_table.transaction_version(state.writer) == 3


def test_changes_without_a_sequence_apply_in_arrival_order(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"]))
    schema = "id long, name string"

    attempt.publish(
        1,
        frame(spark, schema, *((1, f"{number}") for number in range(100))).coalesce(1),
        frame(spark, schema, (1, "second batch"), (2, "a"), (2, "b")).coalesce(1),
    )

    assert rows_of_table(table) == [(1, "second batch"), (2, "b")]


def test_several_columns_may_order_the_changes(spark: SparkSession, table: Path) -> None:
    schema = "id long, at long, offset long, row_kind string"
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"], sequence_by=["at", "offset"]))

    attempt.publish(1, frame(spark, schema, (1, 5, 2, "+I"), (1, 5, 1, "+I"), (1, 4, 9, "+I"), (2, 5, 3, "+I")))
    attempt.publish(2, frame(spark, schema, (1, 5, 1, "-D"), (2, 6, 0, "-D")))

    assert rows_of_table(table) == [(1, 5, 2)]
    assert newer_than_stored(["a"]) == '(target."a" IS NULL OR source."a" >= target."a")'


def test_keys_may_have_several_columns_and_special_characters(spark: SparkSession, table: Path) -> None:
    schema = "`Order Id` long, part string, `va``lue` string, kind string"
    sink = DeltaSink.upsert(table, keys=["Order Id", "part"], row_kind="kind").partition_by("part")
    attempt = Attempt(spark, sink)

    attempt.publish(1, frame(spark, schema, (1, "x", "a", "+I"), (1, "y", "b", "+I"), (2, "x", "c", "+I")))
    attempt.publish(2, frame(spark, schema, (1, "x", "a2", "+U"), (1, "y", None, "-D")))

    assert rows_of_table(table) == [(1, "x", "a2"), (2, "x", "c")]
    assert DeltaTable(str(table)).metadata().partition_columns == ["part"]


def test_nan_and_zero_are_equal_to_their_other_representations_as_keys(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"]))
    schema = "id double, name string"

    attempt.publish(1, frame(spark, schema, (0.0, "a"), (math.nan, "b")))
    attempt.publish(2, frame(spark, schema, (-0.0, "a2"), (-math.nan, "b2")))

    assert sorted(name for _, name in rows_of_table(table)) == ["a2", "b2"]


def test_columns_are_added_on_demand(spark: SparkSession, table: Path) -> None:
    sink = DeltaSink.upsert(table, keys=["id"])
    Attempt(spark, sink).publish(1, frame(spark, "id long, row_kind string", (1, "+I"), (2, "+I")))

    Attempt(spark, sink.merge_schema()).publish(2, frame(spark, "id long, more int, row_kind string", (2, 20, "+U")))

    assert rows_of_table(table) == [(1, None), (2, 20)]


def test_a_conflicting_merge_is_retried(spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = "id long, name string"
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"]))
    attempt.publish(1, frame(spark, schema, (1, "a"), (2, "b")))
    merge, moments = DeltaTable.merge, [None]

    def disturbed(self: DeltaTable, *args: object, **kwargs: object) -> object:
        if moments:
            moments.pop()
            theirs = pa.table({"id": pa.array([1], pa.int64()), "name": ["theirs"]})
            write_deltalake(str(table), theirs, mode="overwrite")
        return merge(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaTable, "merge", disturbed)
    attempt.publish(2, frame(spark, schema, (1, "ours"), (3, "c")))

    assert rows_of_table(table) == [(1, "ours"), (3, "c")]
    assert not moments


def test_a_restore_merges_once(spark: SparkSession, table: Path) -> None:
    sink = DeltaSink.upsert(table, keys=["id"])
    schema = "id long, name string"
    first = Attempt(spark, sink)
    prepared = first.prepare(1, frame(spark, schema, (1, "mine")))
    first.writer.commit(1)
    theirs = pa.table({"id": pa.array([1], pa.int64()), "name": ["theirs"]})
    write_deltalake(str(table), theirs, mode="overwrite")

    Attempt(spark, sink, 1).writer.restore(prepared)

    assert rows_of_table(table) == [(1, "theirs")]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ((1, "a", 1, "I"), "the column 'row_kind' has I, which is not a row kind"),
        pytest.param(
            (1, "a", 1, None),
            "the column 'row_kind' has null, which is not a row kind",
            marks=pytest.mark.long,
        ),
        ((None, "a", 1, "+I"), "a change has no value in the column 'id', by which changes are merged"),
        pytest.param(
            (1, "a", None, "+I"),
            "a change has no value in the column 'seq', by which changes are merged",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_unmergeable_change_is_reported(
    spark: SparkSession, table: Path, row: tuple[object, ...], text: str
) -> None:
    attempt = Attempt(spark, DeltaSink.upsert(table, keys=["id"], sequence_by="seq"))

    with pytest.raises(OperatorFailedError) as raised:
        attempt.publish(1, frame(spark, SCHEMA, row))

    assert text in str(raised.value.__cause__)


def test_invalid_settings_are_refused(spark: SparkSession, table: Path) -> None:
    rows = spark.sql("SELECT 1L AS id, 1 AS row_kind")

    with pytest.raises(ValueError, match=r"needs a list of key columns, such as keys=\['id'\], not 'id'"):
        DeltaSink.upsert(table, keys="id")
    with pytest.raises(PrototypeError, match="there is no column 'key'; the columns are id, row_kind"):
        DeltaSink.upsert(table, keys=["key"]).check_rows(rows)
    with pytest.raises(PrototypeError, match=r"a string such as '\+I', but 'row_kind' is of type int"):
        DeltaSink.upsert(table, keys=["id"]).check_rows(rows)
    with pytest.raises(PrototypeError, match="the column 'id' contains kinds of changes"):
        DeltaSink.upsert(table, keys=["id"], row_kind="id").check_rows(rows)
