"""Tests how a folder of parquet files is divided into batches: which files, in which order, and until when."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka.messages.tasks.source import FileBatchSplit, SplitsDiscovered, size_of
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.connectors.file import source as file_source
from flykka.spark_bridge.connectors.file import split_discovery
from flykka.spark_bridge.connectors.file.source import FileSource, read_sliced, read_split
from flykka.spark_bridge.connectors.file.split_discovery import FileSplitDiscovery
from flykka.spark_bridge.errors import (
    EmptySourceError,
    FileSchemaError,
    SourceNotFoundError,
    UnreadableFileError,
)
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together
from tests.spark_bridge.harness import at_ms, time_at, write_rows
from tests.spark_bridge.reached import Reach, both_ways

pytestmark = pytest.mark.spark


@pytest.fixture
def parquet_folder(tmp_path: Path) -> Path:
    """Five files of ten rows, `0.parquet` to `4.parquet`."""
    for number in range(5):
        write_rows(tmp_path / "in" / f"{number}.parquet", [(number, row, number * 10 + row) for row in range(10)])
    return tmp_path / "in"


def discovery(spark: SparkSession, source: FileSource) -> FileSplitDiscovery:
    return source.split_discovery(OperatorId("source"), FileSystem(spark))


def file_names(discovered: SplitsDiscovered) -> list[list[str]]:
    batches = [split for split in discovered.splits if isinstance(split, FileBatchSplit)]
    return [[Path(file.path).name for file in batch.files] for batch in batches]


def everything(spark: SparkSession, source: FileSource, splits: SplitsDiscovered) -> list[list[tuple[int, int]]]:
    schema = source.prototype(spark).schema
    read = [source.read(spark, schema, (batch,), in_slices=False) for batch in splits.splits]
    return [sorted((row.key, row.amount) for row in together(rows).collect()) for rows in read]


@both_ways
def test_a_bounded_source_is_discovered_at_once_in_path_order(
    spark: SparkSession, parquet_folder: Path, reach: Reach
) -> None:
    discovered = discovery(spark, reach(FileSource.parquet(str(parquet_folder))).files_per_batch(2)).discover(b"")

    assert file_names(discovered) == [["0.parquet", "1.parquet"], ["2.parquet", "3.parquet"], ["4.parquet"]]
    assert [split.rows for split in discovered.splits] == [20, 20, 10]
    assert discovered.finished


@both_ways
def test_whole_files_are_combined_up_to_a_row_limit(spark: SparkSession, parquet_folder: Path, reach: Reach) -> None:
    discovered = discovery(spark, reach(FileSource.parquet(str(parquet_folder))).rows_per_batch(35)).discover(b"")

    assert [split.rows for split in discovered.splits] == [30, 20]


@both_ways
def test_a_large_file_is_split_and_every_row_read_once(spark: SparkSession, parquet_folder: Path, reach: Reach) -> None:
    for number in (2, 3, 4):
        (parquet_folder / f"{number}.parquet").unlink()
    source = reach(FileSource.parquet(str(parquet_folder))).rows_per_batch(4)

    discovered = discovery(spark, source).discover(b"")
    batches = everything(spark, source, discovered)

    assert [len(batch) for batch in batches] == [4, 4, 2] * 2
    assert sorted(row for batch in batches for row in batch) == [(key, row) for key in range(2) for row in range(10)]


@both_ways
def test_discovered_files_are_never_discovered_again(spark: SparkSession, parquet_folder: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(str(parquet_folder))).rows_per_batch(4)
    first = discovery(spark, source).discover(b"")
    write_rows(parquet_folder / "5.parquet", [(5, 0, 50)])

    again = discovery(spark, source).discover(first.position)

    assert file_names(again) == [["5.parquet"]]


@both_ways
def test_many_files_take_several_discoveries(
    spark: SparkSession, parquet_folder: Path, monkeypatch: pytest.MonkeyPatch, reach: Reach
) -> None:
    monkeypatch.setattr(split_discovery, "SPLITS_PER_LOOK", 2)
    look = discovery(spark, reach(FileSource.parquet(str(parquet_folder))))

    discovered = [look.discover(b"")]
    while discovered[-1].more:
        discovered.append(look.discover(discovered[-1].position))
    elsewhere = discovery(spark, reach(FileSource.parquet(str(parquet_folder)))).discover(discovered[0].position)

    assert [name for each in discovered for name in file_names(each)] == [[f"{number}.parquet"] for number in range(5)]
    assert [(len(each.splits) <= 3, each.finished) for each in discovered[:-1]] == [(True, False)] * (
        len(discovered) - 1
    )
    assert discovered[-1].finished
    assert file_names(elsewhere)[0] == file_names(discovered[1])[0]


@both_ways
def test_a_failed_discovery_is_repeated_without_loss(spark: SparkSession, parquet_folder: Path, reach: Reach) -> None:
    bad = parquet_folder / "3.parquet"
    good = bad.read_bytes()
    bad.write_bytes(b"no parquet")
    look = discovery(spark, reach(FileSource.parquet(str(parquet_folder))))
    with pytest.raises(UnreadableFileError):
        look.discover(b"")
    bad.write_bytes(good)

    assert file_names(look.discover(b"")) == [[f"{number}.parquet"] for number in range(5)]


@both_ways
def test_a_monitored_folder_ends_with_its_marker(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(str(tmp_path / "in"))).monitor_continuously("300ms", watch=False)
    look = discovery(spark, source)

    before = look.discover(b"")
    write_rows(tmp_path / "in" / "a.parquet", [(1, 1, 1)])
    (tmp_path / "in" / ".b.parquet.tmp").write_bytes(b"being written")
    discovered = look.discover(b"")
    (tmp_path / "in" / "_SUCCESS").touch()
    last = look.discover(discovered.position)

    assert (before.splits, before.finished) == ((), False)
    assert (file_names(discovered), discovered.finished) == ([["a.parquet"]], False)
    assert (last.splits, last.finished) == ((), True)
    assert look.interval_ms == 300


@both_ways
def test_a_missing_monitored_folder_is_reported_and_read_once_it_exists(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reach: Reach
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = "key long, amount long, at timestamp"
    look = discovery(
        spark, reach(FileSource.parquet("in", schema=schema)).monitor_continuously("1s", watch=False).bound(spark, None)
    )

    before = look.discover(b"")
    write_rows(tmp_path / "in" / "a.parquet", [(1, 1, 1)])
    discovered = look.discover(before.position)

    assert (before.splits, before.finished, before.missing_path) == ((), False, "in")
    assert (file_names(discovered), discovered.missing_path) == ([["a.parquet"]], None)


@both_ways
def test_splits_have_their_file_size_without_rows_per_batch(
    spark: SparkSession, parquet_folder: Path, reach: Reach
) -> None:
    of_reader, of_user = (
        reach(FileSource.parquet(str(parquet_folder))),
        reach(FileSource.parquet(str(parquet_folder))).files_per_batch(2),
    )

    sizes = [size_of(split) for split in discovery(spark, of_reader).discover(b"").splits]

    assert sizes == [(parquet_folder / f"{number}.parquet").stat().st_size for number in range(5)]
    assert {size_of(split) for split in discovery(spark, of_user).discover(b"").splits} == {None}


@both_ways
def test_files_of_the_next_discovery_are_counted(
    spark: SparkSession, parquet_folder: Path, monkeypatch: pytest.MonkeyPatch, reach: Reach
) -> None:
    monkeypatch.setattr(split_discovery, "SPLITS_PER_LOOK", 2)

    discovered = discovery(spark, reach(FileSource.parquet(str(parquet_folder)))).discover(b"")

    assert discovered.files_left == 5 - len(discovered.splits) > 0


@pytest.mark.parametrize("in_slices", [True, False])
def test_files_read_together_are_one_scan(
    spark: SparkSession, parquet_folder: Path, in_slices: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "SLICE_FILES", 1)
    source = FileSource.parquet(str(parquet_folder), event_time="at")
    discovered = discovery(spark, source).discover(b"").splits

    read = source.read(spark, source.prototype(spark).schema, discovered, in_slices=in_slices)

    assert len(read) == (min(5, spark.sparkContext.defaultParallelism) if in_slices else 1)
    assert len({path for part in read for path in part.inputFiles()}) == 5
    assert sorted(row.key * 10 + row.amount for row in together(read).collect()) == list(range(50))


def test_splits_that_are_batches_stay_separate(spark: SparkSession, parquet_folder: Path) -> None:
    source = FileSource.parquet(str(parquet_folder)).files_per_batch(2)
    discovered = discovery(spark, source).discover(b"").splits

    read = source.read(spark, source.prototype(spark).schema, discovered, in_slices=False)

    assert [len(part.inputFiles()) for part in read] == [2, 2, 1]


@both_ways
def test_a_marker_of_any_name_is_not_read_as_data(spark: SparkSession, parquet_folder: Path, reach: Reach) -> None:
    (parquet_folder / "DONE").touch()
    source = reach(FileSource.parquet(str(parquet_folder))).monitor_continuously("1s", until="DONE")

    discovered = discovery(spark, source).discover(b"")

    assert file_names(discovered) == [[f"{number}.parquet"] for number in range(5)]
    assert discovered.finished


@both_ways
def test_a_function_can_end_a_discovery(spark: SparkSession, parquet_folder: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(str(parquet_folder))).monitor_continuously(
        timedelta(seconds=1), until=lambda: True
    )

    assert discovery(spark, source).discover(b"").finished


def test_subfolders_are_read_and_give_partition_columns(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "day=7" / "a.parquet", [(1, 1, 1)])
    source = FileSource.parquet(str(tmp_path / "in"))

    (split,) = discovery(spark, source).discover(b"").splits
    assert isinstance(split, FileBatchSplit)
    (rows,) = read_split(spark, source, source.prototype(spark).schema, split)
    (row,) = rows.collect()

    assert row.day == 7


@both_ways
def test_file_statistics_give_the_latest_event_time_of_complete_files(
    spark: SparkSession, parquet_folder: Path, reach: Reach
) -> None:
    source = reach(FileSource.parquet(str(parquet_folder), event_time="at"))

    whole = discovery(spark, source.files_per_batch(2)).discover(b"").splits[0]
    cut = discovery(spark, source.rows_per_batch(4)).discover(b"").splits[0]

    assert isinstance(whole, FileBatchSplit)
    assert isinstance(cut, FileBatchSplit)
    assert whole.event_time_max == at_ms(19)
    assert cut.event_time_max is None


@pytest.mark.parametrize(("enough", "slices"), [({"SLICE_FILES": 2}, 2), ({"SLICE_ROWS": 25}, 2), ({}, 1)])
def test_slices_match_the_available_work_and_partition_each_batch(
    spark: SparkSession, parquet_folder: Path, enough: dict[str, int], slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in enough.items():
        monkeypatch.setattr(file_source, name, number)
    source = FileSource.parquet(str(parquet_folder)).files_per_batch(5)
    (split,) = discovery(spark, source).discover(b"").splits
    assert isinstance(split, FileBatchSplit)

    read = read_sliced(spark, source, source.prototype(spark).schema, split)

    assert len(read) == min(slices, spark.sparkContext.defaultParallelism)
    assert sum(part.count() for part in read) == 50


@both_ways
def test_an_error_names_the_missing_folder(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(str(tmp_path / "nowhere")))

    with pytest.raises(SourceNotFoundError, match="nowhere"):
        discovery(spark, source).discover(b"")
    with pytest.raises(SourceNotFoundError, match="nowhere"):
        source.prototype(spark)


@both_ways
def test_an_error_names_the_empty_folder(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(str(tmp_path)))

    with pytest.raises(EmptySourceError, match=tmp_path.name):
        discovery(spark, source).discover(b"")
    with pytest.raises(EmptySourceError, match="declare it with schema"):
        source.prototype(spark)


@both_ways
def test_an_error_names_a_file_that_is_not_parquet(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    (tmp_path / "bad.parquet").write_text("not parquet at all")

    with pytest.raises(UnreadableFileError, match=r"bad\.parquet"):
        discovery(spark, reach(FileSource.parquet(str(tmp_path)))).discover(b"")


@both_ways
def test_a_file_of_a_wrong_type_is_found_before_reading_rows(
    spark: SparkSession, parquet_folder: Path, reach: Reach
) -> None:
    pq.write_table(pa.table({"key": ["x"], "amount": [1], "at": [time_at(0)]}), parquet_folder / "odd.parquet")
    source = reach(FileSource.parquet(parquet_folder, schema="key long, amount long, at timestamp")).bound(spark, "at")

    with pytest.raises(FileSchemaError, match=r"odd\.parquet .*'key' is of type string, not bigint"):
        discovery(spark, source).discover(b"")


@both_ways
def test_files_with_different_columns_are_merged_if_configured(
    spark: SparkSession, parquet_folder: Path, reach: Reach
) -> None:
    pq.write_table(pa.table({"key": [7], "more": [8]}), parquet_folder / "5.parquet")
    source = reach(FileSource.parquet(parquet_folder, mergeSchema=True)).files_per_batch(6).bound(spark, None)

    discovered = discovery(spark, source).discover(b"")
    (rows,) = source.read(spark, source.prototype(spark).schema, discovered.splits[:1], in_slices=False)

    assert [tuple(row) for row in rows.where("more IS NOT NULL").collect()] == [(7, None, None, 8)]


@both_ways
def test_a_partition_column_keeps_its_declared_position(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    write_rows(tmp_path / "in" / "day=7" / "a.parquet", [(1, 1, 1)])
    source = reach(FileSource.parquet(tmp_path / "in", schema="day int, key long")).bound(spark, None)

    discovered = discovery(spark, source).discover(b"")
    (rows,) = source.read(spark, source.prototype(spark).schema, discovered.splits[:1], in_slices=False)

    assert [tuple(row) for row in rows.collect()] == [(7, 1)]


@both_ways
def test_names_with_special_characters_are_read(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    odd = tmp_path / "in" / "a+b #1%20 [ü].parquet"
    odd.parent.mkdir()
    pq.write_table(pa.table({"key": [1], "amount": [2]}), odd)
    source = reach(FileSource.parquet(str(odd.parent)))
    look = discovery(spark, source)

    discovered = look.discover(b"")

    assert everything(spark, source, discovered) == [[(1, 2)]]
    assert look.discover(discovered.position).splits == ()


@pytest.mark.parametrize("folder", [".", "of={all}"])
@both_ways
def test_names_that_look_like_patterns_are_read_once(
    spark: SparkSession, tmp_path: Path, folder: str, reach: Reach
) -> None:
    for number, name in enumerate(("a[1].parquet", "a[2].parquet", "{b}*.parquet", "a1.parquet", "a2.parquet")):
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"key": [number], "amount": [0]}), path)
    source = reach(FileSource.parquet(str(tmp_path), schema="key long, amount long")).files_per_batch(5)

    (batch,) = everything(spark, source, discovery(spark, source).discover(b""))

    assert sorted(batch) == [(number, 0) for number in range(5)]


@pytest.mark.parametrize("interval", ["soon", "10", 0, "0s"])
def test_an_invalid_interval_is_refused(interval: str | int) -> None:
    with pytest.raises(ValueError, match="interval"):
        FileSource.parquet("in").monitor_continuously(interval)


def test_an_empty_batch_size_is_refused() -> None:
    with pytest.raises(ValueError, match="files per batch must be at least 1, not 0"):
        FileSource.parquet("in").files_per_batch(0)
