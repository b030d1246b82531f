"""Tests that a DeltaSink publishes the rows of a checkpoint once, whatever other writers do to the table."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from flykka.connectors import FileSystem, SinkError
from flykka.connectors.testing import Row
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors import connector
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.delta.source import DeltaSource
from flykka.spark_bridge.errors import MissingExtraError, OperatorFailedError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.session.session import engine_session
from tests.spark_bridge.connectors.contracts import ShorterSinkContract
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame, rows_of_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string"


class DeltaContract(ShorterSinkContract):
    def published(self) -> list[Row]:
        return rows_of_table(self.folder / "table")


class TestAppend(DeltaContract):
    def sink(self) -> DeltaSink:
        return DeltaSink.append(self.folder / "table")


@pytest.mark.long
class TestPartitionedAppend(DeltaContract):
    def sink(self) -> DeltaSink:
        return DeltaSink.append(self.folder / "table").partition_by("name")


@pytest.mark.long
class TestOverwrite(DeltaContract):
    """Each checkpoint has rows of partitions that no other checkpoint has."""

    def sink(self) -> DeltaSink:
        return DeltaSink.overwrite_partitions(self.folder / "table", "name")


@pytest.mark.long
class TestUpsert(DeltaContract):
    def sink(self) -> DeltaSink:
        return DeltaSink.upsert(self.folder / "table", keys=["id"])


def test_a_reader_sees_only_complete_checkpoints(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    for checkpoint_id in (1, 2):
        batches = [frame(spark, SCHEMA, (10 * checkpoint_id + batch, "x")) for batch in range(3)]
        attempt.prepare(checkpoint_id, *batches)
        before = rows_of_table(table)
        attempt.writer.commit(checkpoint_id)
        assert len(before) == 3 * (checkpoint_id - 1)

    assert [len(rows_of_table(table, version)) for version in range(DeltaTable(str(table)).version() + 1)] == [3, 6]


def test_staged_files_are_hidden_and_removed(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))
    attempt.prepare(2, frame(spark, SCHEMA, (2, "b")))

    DeltaTable(str(table)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    attempt.writer.commit(2)

    assert rows_of_table(table) == [(1, "a"), (2, "b")]
    assert [path for path in (table / "_flykka-staging").rglob("*") if path.is_file()] == []


def test_a_new_table_has_the_columns_and_partitions_of_the_rows(spark: SparkSession, table: Path) -> None:
    schema = "id long, day date, name string, at timestamp, local timestamp_ntz, price decimal(10,2), tags array<int>"
    day, at = dt.date(2024, 5, 1), dt.datetime(2024, 5, 1, 10, 0, 0, 123456)
    sink = DeltaSink.append(table).partition_by("day", "name")
    rows = [
        (1, day, "a b/c=%ü", at.astimezone(dt.UTC), at, None, [1]),
        (2, None, None, None, None, None, None),
    ]

    Attempt(spark, sink).publish(1, frame(spark, schema, *rows))

    delta_table = DeltaTable(str(table))
    assert delta_table.metadata().partition_columns == ["day", "name"]
    assert [field.name for field in delta_table.schema().fields] == [each.split()[0] for each in schema.split(", ")]
    assert sorted(
        map(
            tuple,
            delta_table.to_pyarrow_table().select(["id", "day", "name"]).to_pylist()
            and [
                (row["id"], row["day"], row["name"], row["local"]) for row in delta_table.to_pyarrow_table().to_pylist()
            ],
        )
    ) == [(1, day, "a b/c=%ü", at), (2, None, None, None)]


def test_the_log_contains_the_files_statistics(spark: SparkSession, table: Path) -> None:
    schema = "id long, name string, day date, at timestamp, ratio double, nested struct<x:int>"
    at = dt.datetime(2024, 5, 1, 10, 0, 0, 123456, dt.UTC)
    rows = frame(
        engine_session(spark),
        schema,
        (1, "b", dt.date(2024, 5, 1), at, 0.5, (1,)),
        (7, None, dt.date(2024, 5, 3), at + dt.timedelta(seconds=1), 1.5, None),
    ).coalesce(1)

    Attempt(spark, DeltaSink.append(table)).publish(1, rows)

    (entry,) = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True)).to_pylist()
    assert entry["num_records"] == 2
    assert (entry["min.id"], entry["max.id"], entry["null_count.id"]) == (1, 7, 0)
    assert (entry["min.name"], entry["max.name"], entry["null_count.name"]) == ("b", "b", 1)
    assert (entry["min.day"], entry["max.day"]) == (dt.date(2024, 5, 1), dt.date(2024, 5, 3))
    assert entry["max.at"] == (at + dt.timedelta(seconds=1)).replace(microsecond=123000)
    assert (entry["min.ratio"], entry["max.ratio"]) == (0.5, 1.5)


def test_columns_are_added_on_demand(spark: SparkSession, table: Path) -> None:
    Attempt(spark, DeltaSink.append(table)).publish(1, frame(spark, SCHEMA, (1, "a")))
    wider = frame(spark, "id long, name string, more int", (2, "b", 20))
    sink = DeltaSink.append(table)

    with pytest.raises(PrototypeError, match=r"column 'more' \(of type int\), which the table does not have; its colu"):
        sink.check_rows(wider)
    sink.merge_schema().check_rows(wider)
    Attempt(spark, sink.merge_schema()).publish(2, wider)
    Attempt(spark, sink).publish(3, frame(spark, "id long", (3,)))

    assert rows_of_table(table) == [(1, "a", None), (2, "b", 20), (3, None, None)]


def test_rows_that_no_longer_match_the_table_are_not_published(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    attempt.prepare(1, frame(spark, SCHEMA, (1, "a")))
    write_deltalake(str(table), pa.table({"id": pa.array([1], pa.int32()), "name": ["theirs"]}))

    with pytest.raises(OperatorFailedError) as raised:
        attempt.writer.commit(1)

    assert "the column 'id' is of type bigint in the rows, and of type int in the table" in str(raised.value.__cause__)
    assert rows_of_table(table) == [(1, "theirs")]


def test_a_not_null_column_is_enforced(spark: SparkSession, table: Path) -> None:
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]
    write_deltalake(str(table), pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]}, schema=pa.schema(fields)))
    attempt = Attempt(spark, DeltaSink.append(table))

    attempt.publish(1, frame(spark, SCHEMA, (2, "b")))
    with pytest.raises(OperatorFailedError) as raised:
        attempt.publish(2, frame(spark, SCHEMA, (None, "c")))

    assert "'id' must not be null" in str(raised.value.__cause__)
    assert rows_of_table(table) == [(1, "x"), (2, "b")]


def test_the_partitions_of_a_checkpoint_are_replaced(spark: SparkSession, table: Path) -> None:
    schema = "day date, id long"
    first, second, third = (dt.date(2024, 5, day) for day in (1, 2, 3))
    attempt = Attempt(spark, DeltaSink.overwrite_partitions(table, "day"))
    attempt.publish(1, frame(spark, schema, (first, 1), (second, 2), (None, 3)))

    attempt.publish(2, frame(spark, schema, (second, 20), (None, 30)), frame(spark, schema, (second, 21), (third, 4)))

    assert rows_of_table(table) == sorted([(first, 1), (second, 20), (second, 21), (None, 30), (third, 4)], key=repr)
    assert [len(rows_of_table(table, version)) for version in (0, 1)] == [3, 5]


def test_a_table_with_unsupported_file_requirements_is_refused(spark: SparkSession, table: Path) -> None:
    sink, filesystem = DeltaSink.append(table), FileSystem(spark)
    Attempt(spark, sink).publish(1, frame(spark, SCHEMA, (1, "a")))
    sink.check_target(filesystem)

    with pytest.raises(SinkError, match=r"is partitioned by no column, but the sink by name: use partition_by\(\)"):
        sink.partition_by("name").check_target(filesystem)
    DeltaTable(str(table)).alter.set_table_properties({"delta.appendOnly": "true"})
    sink.check_target(filesystem)
    with pytest.raises(SinkError, match=r"append-only .* this sink replaces rows|replaces rows"):
        DeltaSink.upsert(table, keys=["id"]).check_target(filesystem)
    DeltaTable(str(table)).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(SinkError, match="with the check constraint positive, which flykka does not support"):
        sink.check_target(filesystem)


def test_unwritable_rows_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = DeltaSink.append(tmp_path / "table")
    (tmp_path / "file").write_text("x")

    with pytest.raises(SinkError, match="is a file: pass the path of a folder for the Delta table"):
        DeltaSink.append(tmp_path / "file").check_target(FileSystem(spark))
    (tmp_path / "unknown" / "_delta_log").mkdir(parents=True)
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["fancy"], "writerFeatures": ["fancy"]}
    (tmp_path / "unknown" / "_delta_log" / f"{0:020d}.json").write_text(json.dumps({"protocol": features}))
    with pytest.raises(SinkError, match=r"the Delta table .*unknown cannot be opened: "):
        DeltaSink.append(tmp_path / "unknown").check_target(FileSystem(spark))
    with pytest.raises(PrototypeError, match="no columns of type void, such as 'nothing'"):
        sink.check_rows(spark.sql("SELECT 1 AS id, NULL AS nothing"))
    with pytest.raises(PrototypeError, match="cannot be partitioned by 'at' of type timestamp here: convert the"):
        sink.partition_by("at").check_rows(spark.sql("SELECT 1 AS id, current_timestamp() AS at"))
    with pytest.raises(PrototypeError, match="no column 'day' to partition"):
        sink.partition_by("day").check_rows(spark.sql("SELECT 1 AS id"))
    with pytest.raises(ValueError, match="needs the columns that the table is partitioned by"):
        DeltaSink.overwrite_partitions("table")
    with pytest.raises(ValueError, match="needs the path of a table"):
        DeltaSink.append("")
    sink.check_target(FileSystem(spark))
    assert not (tmp_path / "table").exists()


def test_sinks_of_one_table_must_agree_on_its_partitions(spark: SparkSession, table: Path) -> None:
    sink = DeltaSink.append(table)

    assert sink.read_as == DeltaSink.upsert(table, keys=["id"]).read_as == "delta"
    assert sink.partition_by("day").read_as == "delta partitioned by day"
    assert sink.bound(spark).staging_folder(JobId("job"), "unused").startswith(f"{table}/_flykka-staging/job-")


@pytest.mark.parametrize("make", [lambda: DeltaSink.append("t"), lambda: DeltaSource.of_path("t")])
def test_an_error_names_the_missing_library(make: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "find_spec", lambda module: None)

    with pytest.raises(MissingExtraError, match=r"needs deltalake, .* pip install 'flykka\[delta\]'"):
        make()
