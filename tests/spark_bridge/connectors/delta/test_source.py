"""Tests that a DeltaSource reads the rows of a version, and then each row that later versions add, once."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession

from flykka.connectors import Boundedness, FileSystem, OperatorId, SourceError
from flykka.connectors.testing import Row, SourceContract
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.spark_bridge.connectors.delta import source as delta_source
from flykka.spark_bridge.connectors.delta.source import DeltaSource, DeltaSplitDiscovery
from flykka.spark_bridge.errors import FileSchemaError, SourceNotFoundError
from flykka.spark_bridge.rows.materialise import together
from tests.spark_bridge.connectors.delta.deletion_vectors import deletion_vector

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def add(table: Path, rows: Sequence[Row], **options: Any) -> None:
    columns = {"id": pa.array([row[0] for row in rows], pa.int64()), "name": pa.array([row[1] for row in rows])}
    write_deltalake(str(table), pa.table(columns), mode="append", **options)


class DeltaContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _numbers(self) -> None:
        self.numbers = count()

    def add(self, rows: Sequence[Row]) -> None:
        add(self.folder / "table", rows, partition_by=["name"])

    def rows(self) -> list[Row]:
        return [(number, f"row {number % 2}") for number in (next(self.numbers) for _ in range(3))]


class TestBounded(DeltaContract):
    def source(self) -> DeltaSource:
        return DeltaSource.of_path(self.folder / "table")


class TestMonitored(DeltaContract):
    def source(self) -> DeltaSource:
        return DeltaSource.of_path(self.folder / "table").monitor_continuously("1s")


@pytest.mark.long
class TestChangesAlone(DeltaContract):
    def source(self) -> DeltaSource:
        return DeltaSource.of_path(self.folder / "table").starting_version(0).monitor_continuously("1s")


@pytest.fixture
def versioned_table(tmp_path: Path) -> Path:
    """A table whose versions 0 to 3 add the rows 0 to 3."""
    path = tmp_path / "table"
    for number in range(4):
        add(path, [(number, f"row {number}")])
    return path


def looking(spark: SparkSession, source: DeltaSource, event_time: str | None = None) -> DeltaSplitDiscovery:
    return source.bound(spark, event_time).split_discovery(OperatorId("source"), FileSystem(spark))


def discover_splits(spark: SparkSession, source: DeltaSource, position: bytes = b"") -> SplitsDiscovered:
    return looking(spark, source).discover(position)


def read_sorted_rows(spark: SparkSession, source: DeltaSource, discovered: SplitsDiscovered) -> list[tuple[Any, ...]]:
    bound = source.bound(spark, None)
    if not discovered.splits:
        return []
    (rows,) = bound.read(spark, bound.prototype(spark).schema, discovered.splits, in_slices=False)
    return sorted((tuple(row) for row in rows.collect()), key=repr)


def keys(spark: SparkSession, source: DeltaSource) -> list[int]:
    return [row[0] for row in read_sorted_rows(spark, source, discover_splits(spark, source))]


def test_a_source_reads_the_configured_version(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table)
    times = {entry["version"]: entry["timestamp"] for entry in DeltaTable(str(versioned_table)).history()}

    assert keys(spark, source) == [0, 1, 2, 3]
    assert keys(spark, source.version_as_of(1)) == [0, 1]
    assert keys(spark, source.timestamp_as_of(times[2])) == [0, 1, 2]
    assert keys(spark, source.timestamp_as_of(dt.datetime.fromtimestamp(times[2] / 1000 + 3600, dt.UTC))) == [
        0,
        1,
        2,
        3,
    ]


def test_a_source_starts_at_the_configured_version(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table)
    times = {entry["version"]: entry["timestamp"] for entry in DeltaTable(str(versioned_table)).history()}

    assert keys(spark, source.starting_version(2)) == [2, 3]
    assert keys(spark, source.starting_version(4)) == []
    assert keys(spark, source.starting_timestamp(times[3])) == [3]
    assert keys(spark, source.starting_timestamp(times[3] + 1)) == []
    assert keys(spark, source.starting_timestamp(0).monitor_continuously("1s")) == [0, 1, 2, 3]


def test_a_bounded_source_ends_with_its_initial_version(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table)
    discovered = discover_splits(spark, source)
    add(versioned_table, [(4, "later")])
    again = discover_splits(spark, source, discovered.position)

    assert source.boundedness is Boundedness.BOUNDED
    assert discovered.finished
    assert (len(discovered.splits), again.splits, again.finished) == (4, (), True)


def test_many_files_take_several_discoveries(
    spark: SparkSession, versioned_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_source, "SPLITS_PER_LOOK", 3)
    source = DeltaSource.of_path(versioned_table).version_as_of(3).monitor_continuously("1s")
    add(versioned_table, [(number, f"{number}") for number in range(10, 12)])
    add(versioned_table, [(12, "x")])

    position, counts, rows = b"", [], []
    while True:
        discovered = discover_splits(spark, source, position)
        counts.append(len(discovered.splits))
        rows += read_sorted_rows(spark, source, discovered)
        position = discovered.position
        if not discovered.more:
            break

    assert counts == [3, 3, 0]
    assert sorted(key for key, _ in rows) == [0, 1, 2, 3, 10, 11, 12]


def test_many_rows_are_sliced_by_partition(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    for start in (0, 300_000):
        rows = pa.table({"id": pa.array(range(start, start + 300_000), pa.int64())})
        write_deltalake(str(table), rows, mode="append")
    source = DeltaSource.of_path(table).bound(spark, None)

    slices = source.read(spark, source.prototype(spark).schema, discover_splits(spark, source).splits, in_slices=True)

    assert [rows.rdd.getNumPartitions() for rows in slices] == [1, 1]
    assert sum(rows.count() for rows in slices) == 600_000


@pytest.mark.parametrize("partition_by", [None, ["name"], ["day"]])
def test_rows_keep_the_order_of_versions_if_required(
    spark: SparkSession, tmp_path: Path, partition_by: list[str] | None
) -> None:
    table, sizes = tmp_path / "table", (1, 10, 100, 1000, 1, 5)
    for version, size in enumerate(sizes):
        name, day = f"row {version % 2}", dt.datetime(2024, 1, 1 + version % 2, tzinfo=dt.UTC)
        columns = {"id": [version] * size, "name": [name] * size, "day": [day] * size}
        write_deltalake(str(table), pa.table(columns), mode="append", partition_by=partition_by)
    source = DeltaSource.of_path(table).starting_version(0).in_order().bound(spark, None)

    read = source.read(spark, source.prototype(spark).schema, discover_splits(spark, source).splits, in_slices=False)

    ids = [row.id for row in together(read).collect()]
    assert ids == [version for version, size in enumerate(sizes) for _ in range(size)]


def test_a_new_version_is_discovered(spark: SparkSession, versioned_table: Path) -> None:
    looks = looking(spark, DeltaSource.of_path(versioned_table).monitor_continuously("1s"))
    discovered = looks.discover(b"")
    assert looks.changed is not None
    before = looks.changed()

    add(versioned_table, [(4, "new")])

    assert (before, looks.changed()) == (False, True)
    assert len(looks.discover(discovered.position).splits) == 1


def test_row_counts_are_read_from_the_log(spark: SparkSession, tmp_path: Path) -> None:
    at = dt.datetime(2024, 5, 1, 10, 0, 0, 123456, dt.UTC)
    rows = pa.table({"at": pa.array([at, at - dt.timedelta(days=1)], pa.timestamp("us", "UTC"))})
    write_deltalake(str(tmp_path / "table"), rows)
    source = DeltaSource.of_path(tmp_path / "table", event_time="at")

    for beginning in (source, source.starting_version(0)):
        (split,) = looking(spark, beginning, "at").discover(b"").splits
        numbers = source.numbers_of(split)
        assert (numbers.rows, numbers.event_time_max) == (2, int(at.timestamp() * 1000))


@pytest.mark.parametrize("whole", [True, pytest.param(False, marks=pytest.mark.long)])
def test_partition_columns_are_added_to_rows(spark: SparkSession, tmp_path: Path, whole: bool) -> None:
    table = tmp_path / "table"
    at = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "day": pa.array([dt.date(2024, 5, 1), None]),
        "name": pa.array(["a b/c=%ü", None], pa.string()),
        "at": pa.array([at, at], pa.timestamp("us", "UTC")),
        "flag": [True, False],
    }
    write_deltalake(str(table), pa.table(columns), partition_by=["day", "name", "at"])
    write_deltalake(
        str(table), pa.table({**columns, "at": pa.array([None, None], pa.timestamp("us", "UTC"))}), mode="append"
    )
    source = DeltaSource.of_path(table) if whole else DeltaSource.of_path(table).starting_version(0)

    discovered = read_sorted_rows(spark, source, discover_splits(spark, source))

    local = at.astimezone().replace(tzinfo=None)
    assert [(key, day, name, flag) for key, day, name, _, flag in discovered] == [
        (1, dt.date(2024, 5, 1), "a b/c=%ü", True),
        (1, dt.date(2024, 5, 1), "a b/c=%ü", True),
        (2, None, None, False),
        (2, None, None, False),
    ]
    assert {time for _, _, _, time, _ in discovered} == {local, None}


def test_files_outside_partition_folders_are_read(spark: SparkSession, versioned_table: Path) -> None:
    partitioned = versioned_table.parent / "partitioned"
    write_deltalake(
        str(partitioned),
        pa.table({"id": pa.array([1, 2], pa.int64()), "day": pa.array([dt.date(2024, 5, 1), dt.date(2024, 5, 2)])}),
        partition_by=["day"],
    )
    commit = partitioned / "_delta_log" / f"{0:020d}.json"
    lines = commit.read_text().splitlines()
    for number, line in enumerate(lines):
        entry = json.loads(line)
        if "add" in entry:
            place = entry["add"]["path"]
            (partitioned / place).rename(partitioned / f"{number} +.parquet")
            lines[number] = line.replace(place, f"{number}%20+.parquet")
    commit.write_text("\n".join(lines))
    source = DeltaSource.of_path(partitioned)

    assert read_sorted_rows(spark, source, discover_splits(spark, source)) == [
        (1, dt.date(2024, 5, 1)),
        (2, dt.date(2024, 5, 2)),
    ]


def test_columns_missing_from_a_file_are_null(spark: SparkSession, versioned_table: Path) -> None:
    DeltaTable(str(versioned_table)).alter.add_columns([Field("more", PrimitiveType("integer"))])
    source = DeltaSource.of_path(versioned_table)

    assert read_sorted_rows(spark, source, discover_splits(spark, source))[0] == (0, "row 0", None)


def test_added_columns_are_ignored_and_dropped_columns_fail_the_job(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table).monitor_continuously("1s")
    looks = looking(spark, source)
    discovered = looks.discover(b"")
    DeltaTable(str(versioned_table)).alter.add_columns([Field("more", PrimitiveType("integer"))])

    discovered = looks.discover(discovered.position)
    assert (discovered.splits, json.loads(discovered.position)["version"]) == ((), 5)

    other = pa.table({"id": pa.array([1], pa.int64())})
    write_deltalake(str(versioned_table), other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(FileSchemaError, match=r"version 5 of .*table has no column 'name', which the job reads as str"):
        looks.discover(discovered.position)


def test_versions_that_only_rewrite_rows_are_skipped(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table).monitor_continuously("1s")
    discovered = discover_splits(spark, source)
    DeltaTable(str(versioned_table)).optimize.compact()
    add(versioned_table, [(4, "new")])

    assert [key for key, _ in read_sorted_rows(spark, source, discover_splits(spark, source, discovered.position))] == [
        4
    ]


def rewrite(table: Path) -> None:
    DeltaTable(str(table)).update(updates={"name": "'changed'"}, predicate="id = 1")


def delete(table: Path) -> None:
    DeltaTable(str(table)).delete("id = 1")


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (rewrite, r"version 4 of .*table has rewritten rows, in 1 files such as part-.*: skip_change_commits\(\) skip"),
        (delete, r"version 4 of .*table has deleted rows, in 1 files such as part-.*: ignore_deletes\(\) or skip_ch"),
    ],
)
def test_a_version_that_deletes_rows_fails_the_job(
    spark: SparkSession, versioned_table: Path, act: Callable[[Path], None], text: str
) -> None:
    source = DeltaSource.of_path(versioned_table).monitor_continuously("1s")
    discovered = discover_splits(spark, source)
    act(versioned_table)
    add(versioned_table, [(4, "new")])

    with pytest.raises(SourceError, match=text):
        discover_splits(spark, source, discovered.position)
    skipping = source.skip_change_commits()
    assert [
        key for key, _ in read_sorted_rows(spark, skipping, discover_splits(spark, skipping, discovered.position))
    ] == [4]
    if act is delete:
        ignoring = source.ignore_deletes()
        assert [
            key for key, _ in read_sorted_rows(spark, ignoring, discover_splits(spark, ignoring, discovered.position))
        ] == [4]


def commit(table: Path, version: int, *entries: dict[str, Any]) -> None:
    lines = "\n".join(json.dumps(entry) for entry in entries)
    (table / "_delta_log" / f"{version:020d}.json").write_text(lines)


def test_features_beyond_plain_files_are_refused_by_name(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table).monitor_continuously("1s")
    position = discover_splits(spark, source).position
    add(versioned_table, [(number, "x") for number in range(4)])
    log = versioned_table / "_delta_log" / f"{4:020d}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        if "add" in entry:
            entry["add"]["deletionVector"] = deletion_vector(1)
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(versioned_table, 4, {"protocol": protocol}, *entries)

    for begun_at in (b"", position):
        with pytest.raises(SourceError, match="has deletion vectors, which a DeltaSource does not read"):
            discover_splits(spark, source, begun_at)


def test_a_table_with_column_mapping_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "mapped"
    (table / "_delta_log").mkdir(parents=True)
    column = {"name": "id", "type": "long", "nullable": True}
    mapped = {**column, "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}}
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [mapped]}),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"},
        "createdTime": 1,
    }
    commit(table, 0, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": metadata})

    with pytest.raises(SourceError, match="mapped is a Delta table with column mapping, which a DeltaSource does not"):
        DeltaSource.of_path(table).bound(spark, None)


def test_a_truncated_log_is_refused(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table).starting_version(1).monitor_continuously("1s")
    DeltaTable(str(versioned_table)).create_checkpoint()
    for version in range(3):
        (versioned_table / "_delta_log" / f"{version:020d}.json").unlink()

    with pytest.raises(SourceError, match="no longer contains version 1, from which it is to be read: start"):
        discover_splits(spark, source)
    with pytest.raises(SourceError, match="is to be read from version 6, but its last version is 3: was it deleted"):
        discover_splits(spark, source.starting_version(6))


def test_unreadable_tables_are_refused(spark: SparkSession, versioned_table: Path) -> None:
    source = DeltaSource.of_path(versioned_table)

    with pytest.raises(SourceNotFoundError, match=r"there is no Delta table at .*nowhere"):
        DeltaSource.of_path(versioned_table.parent / "nowhere").bound(spark, None)
    with pytest.raises(SourceError, match="cannot be opened as of version 9"):
        source.version_as_of(9).bound(spark, None)
    with pytest.raises(
        SourceError, match=r"log of .*table begins at 20.*: the table cannot be read as of an earlier time"
    ):
        source.timestamp_as_of(1).bound(spark, None)
    with pytest.raises(ValueError, match="use the first to read the whole table, or the second to read the rows"):
        source.version_as_of(1).starting_version(2)
    with pytest.raises(ValueError, match="has no time zone"):
        source.timestamp_as_of(dt.datetime(2024, 1, 1))
    with pytest.raises(SourceError, match="is not a position of a Delta source"):
        discover_splits(spark, source, b"7")
