"""Tests text files: rows are counted while they are read, and mismatches are never silently read as nulls."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka.messages.attempt.answers import EngineFailed, StageResult, WorkFailed
from flykka.messages.tasks.source import FileBatchSplit, FileSplit, SourceSplit
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.errors import EmptySourceError, UnreadableFileError
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together
from tests.spark_bridge.harness import Harness, at_ms, transform
from tests.spark_bridge.reached import Reach, both_ways, by_fsspec, by_spark

pytestmark = pytest.mark.spark

by_fsspec_in_long_runs = pytest.mark.parametrize("reach", [by_spark, pytest.param(by_fsspec, marks=pytest.mark.long)])
"""For rules that other tests check through fsspec, here or in test_files_both_ways.py."""
SCHEMA = "key int, at timestamp, amount double"
GOOD = "key,at,amount\n1,2024-01-01 00:00:03,1.5\n2,2024-01-01 00:00:09,2.5\n"


@pytest.fixture
def csv_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.csv").write_text(GOOD)
    return folder


def csv(folder: Path, **options: str | bool) -> FileSource:
    return FileSource.csv(folder, schema=SCHEMA, event_time="at", header=True, **options)


def splits(spark: SparkSession, source: FileSource) -> tuple[SourceSplit, ...]:
    return source.split_discovery(OperatorId("source"), FileSystem(spark)).discover(b"").splits


def rows_in_slices(spark: SparkSession, source: FileSource) -> list[tuple[object, ...]]:
    schema = source.prototype(spark).schema
    read = source.read(spark, schema, splits(spark, source), in_slices=True)
    return [tuple(row) for row in together(read).collect()]


def read_as_one_batch(
    harness: Harness, source: FileSource, *codes: OperatorCode
) -> StageResult | WorkFailed | EngineFailed:
    """Return the result of an attempt that reads the whole source as one batch."""
    vertex = harness.vertex("source", SourceCode(source=source, watermark_delay_ms=0), *codes, outputs=True)
    attempt = harness.begin(vertex).open()
    attempt.start_read(splits(harness.plane.session, source))
    answer = attempt.next()
    assert isinstance(answer, StageResult | WorkFailed | EngineFailed)
    return answer


@both_ways
def test_rows_and_the_latest_event_time_are_counted_below_a_filter(
    harness: Harness, csv_folder: Path, reach: Reach
) -> None:
    few = transform(lambda batch: batch.where("key = 1").select("key"))

    finished = read_as_one_batch(harness, reach(csv(csv_folder)), few)

    assert isinstance(finished, StageResult)
    assert (finished.rows_in, finished.rows_out, finished.event_time_max) == (2, 1, at_ms(9))


def tasks(spark: SparkSession) -> list[int]:
    """Return the number of tasks of each job of the session, newest first."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return [jobs.apply(place).numTasks() for place in range(jobs.length())]


@by_fsspec_in_long_runs
def test_many_small_files_are_one_batch_with_few_spark_tasks(harness: Harness, tmp_path: Path, reach: Reach) -> None:
    folder, spark = tmp_path / "many", harness.plane.session
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.json").write_text(f'{{"key": {number}, "at": "2024-01-01T00:00:{number:02}Z"}}\n')
    before = len(tasks(spark))

    finished = read_as_one_batch(
        harness, reach(FileSource.json(folder, schema="key int, at timestamp", event_time="at"))
    )

    assert isinstance(finished, StageResult)
    assert (finished.rows_in, finished.rows_out, finished.event_time_max) == (40, 40, at_ms(39))
    (of_the_job,) = tasks(spark)[: len(tasks(spark)) - before]
    assert of_the_job < 20


@pytest.mark.parametrize(
    ("reads_them", "reach"),
    [
        (True, by_spark),
        pytest.param(False, by_spark, marks=pytest.mark.long),
        pytest.param(True, by_fsspec, marks=pytest.mark.long),
        pytest.param(False, by_fsspec, marks=pytest.mark.long),
    ],
)
def test_rows_are_counted_even_if_a_function_drops_the_input(
    harness: Harness, csv_folder: Path, reads_them: bool, reach: Reach
) -> None:
    static = harness.plane.session.newSession().createDataFrame([(1, "one")], "key int, name string").coalesce(1)
    function = transform(lambda batch: static.join(batch, "key") if reads_them else static)

    finished = read_as_one_batch(harness, reach(csv(csv_folder)), function)

    assert isinstance(finished, StageResult)
    assert (finished.rows_in, finished.rows_out, finished.event_time_max) == (2, 1, at_ms(9))


TOO_LONG = ("long", GOOD + "{}\n", "1,2024-01-01 00:00:03,1,1", "Malformed CSV record: 1,2024-01-01 00:00:03,1,1")
OTHER_HEADER = ("header", "{}\n1,1,2024-01-01 00:00:03\n", "key,amount,at", "Expected: at but found: amount")
TYPED_VALUE = ("typed", GOOD + "{}\n", "x,2024-01-01 00:00:03,1", 'For input string: "x"')
MISFITS = [
    ("short", "key,at,amount\n{}\n", "1,2024-01-01 00:00:03", "Malformed CSV record: 1,2024-01-01 00:00:03"),
    TOO_LONG,
    TYPED_VALUE,
    OTHER_HEADER,
]


@pytest.mark.parametrize(
    ("name", "text", "line", "why", "reach"),
    [
        pytest.param(*misfit, reach, marks=() if misfit in each_run else pytest.mark.long)
        for reach, each_run in (
            (by_spark, (TOO_LONG, TYPED_VALUE, OTHER_HEADER)),
            (by_fsspec, (OTHER_HEADER,)),
        )
        for misfit in MISFITS
    ],
)
def test_an_error_names_a_malformed_csv_file_and_the_reason(
    harness: Harness, csv_folder: Path, name: str, text: str, line: str, why: str, reach: Reach
) -> None:
    (csv_folder / f"{name} file.csv").write_text(text.format(line))

    failed = read_as_one_batch(harness, reach(csv(csv_folder)).files_per_batch(2))

    assert isinstance(failed, WorkFailed | EngineFailed)
    assert re.search(rf"/{name} file.csv(: | has the header )", failed.cause.message)
    assert (why if reach is by_spark else line) in failed.cause.message


TYPED, CUT = ('{"key": 1}\n{"key": "x"}\n', "'key' and the value x"), ('{"key": 1}\n{"key":', "end-of-input")


@pytest.mark.parametrize(
    ("text", "why", "reach"),
    [
        (*TYPED, by_spark),
        pytest.param(*CUT, by_spark, marks=pytest.mark.long),
        (*TYPED, by_fsspec),
        pytest.param(*CUT, by_fsspec, marks=pytest.mark.long),
    ],
)
def test_an_error_names_a_malformed_json_line_and_the_reason(
    harness: Harness, tmp_path: Path, text: str, why: str, reach: Reach
) -> None:
    (tmp_path / "bad.json").write_text(text)

    failed = read_as_one_batch(harness, reach(FileSource.json(tmp_path / "bad.json", schema="key int")))

    assert isinstance(failed, WorkFailed | EngineFailed)
    assert "/bad.json: " in failed.cause.message
    assert (why if reach is by_spark else text.splitlines()[1]) in failed.cause.message
    assert ("mode='PERMISSIVE'" in failed.cause.message) == (reach is by_spark)


@by_fsspec_in_long_runs
def test_an_error_names_a_parquet_file_with_a_corrupt_page(harness: Harness, tmp_path: Path, reach: Reach) -> None:
    pq.write_table(pa.table({"key": list(range(100))}), tmp_path / "broken.parquet")
    sound = (tmp_path / "broken.parquet").read_bytes()
    (tmp_path / "broken.parquet").write_bytes(sound[:4] + b"\xff" * 60 + sound[64:])

    failed = read_as_one_batch(harness, reach(FileSource.parquet(tmp_path / "broken.parquet", schema="key long")))

    assert isinstance(failed, WorkFailed | EngineFailed)
    assert "/broken.parquet: " in failed.cause.message


@by_fsspec_in_long_runs
def test_malformed_values_become_null_if_configured(spark: SparkSession, csv_folder: Path, reach: Reach) -> None:
    (csv_folder / "good.csv").write_text("key,at,amount\nx,,1\n")

    assert rows_in_slices(spark, reach(csv(csv_folder, MODE="permissive"))) == [(None, None, 1.0)]


@both_ways
def test_columns_are_matched_by_position_if_configured(spark: SparkSession, csv_folder: Path, reach: Reach) -> None:
    (csv_folder / "good.csv").write_text("a,b,c\n1,,1\n")

    assert rows_in_slices(spark, reach(csv(csv_folder)).option("enforceSchema", True)) == [(1, None, 1.0)]


@both_ways
def test_reader_options_apply_and_the_last_value_wins(spark: SparkSession, csv_folder: Path, reach: Reach) -> None:
    (csv_folder / "good.csv").write_text("1;31.12.2024\n")
    source = reach(FileSource.csv(csv_folder, schema="key int, day date", sep=",", dateFormat="dd.MM.yyyy")).options(
        sep=";"
    )

    ((key, day),) = rows_in_slices(spark, source)

    assert (key, str(day)) == (1, "2024-12-31")


@by_fsspec_in_long_runs
def test_text_files_have_partition_columns(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    (tmp_path / "in" / "day=7").mkdir(parents=True)
    (tmp_path / "in" / "day=7" / "a.csv").write_text("key\n1\n")

    assert rows_in_slices(spark, reach(FileSource.csv(tmp_path / "in", schema="day int, key int", header=True))) == [
        (7, 1)
    ]


def test_a_schema_is_inferred_with_its_types(spark: SparkSession, csv_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"key": 1, "names": ["x"]}\n')

    assert FileSource.csv(csv_folder, header=True).prototype(spark).schema.simpleString() == (
        "struct<key:int,at:timestamp,amount:double>"
    )
    assert FileSource.json(tmp_path / "a.json").prototype(spark).schema.simpleString() == (
        "struct<key:bigint,names:array<string>>"
    )


def test_no_schema_is_inferred_from_malformed_or_empty_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"key":')
    (tmp_path / "empty.csv").write_text("")

    with pytest.raises(UnreadableFileError, match=r"no schema can be taken from json .*bad\.json: .*end-of-input"):
        FileSource.json(tmp_path / "bad.json").prototype(spark)
    with pytest.raises(EmptySourceError, match="declare it with schema"):
        FileSource.csv(tmp_path / "empty.csv").prototype(spark)


def test_a_text_batch_has_no_known_row_count(spark: SparkSession, csv_folder: Path) -> None:
    (split,) = splits(spark, csv(csv_folder))

    assert split == FileBatchSplit(
        split_id=SplitId("good.csv"),
        rows=0,
        files=(FileSplit(split_id=SplitId("good.csv"), path=f"file:{csv_folder}/good.csv", start_row=0, rows=0),),
        size_bytes=len(GOOD),
    )


def test_rows_per_batch_requires_files_with_known_row_counts() -> None:
    with pytest.raises(ValueError, match=r"csv files are counted by files_per_batch"):
        FileSource.csv("in").rows_per_batch(10)


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("mode", "strict", "'mode' must be one of PERMISSIVE, DROPMALFORMED, FAILFAST, not 'strict'"),
        ("pathGlobFilter", "*.csv", "'pathGlobFilter' does not apply"),
        ("basePath", "/", "'basePath' does not apply"),
    ],
)
def test_an_option_that_would_break_guarantees_is_refused(key: str, value: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        FileSource.csv("in").option(key, value)
    with pytest.raises(ValueError, match=wrong):
        FileSource.csv("in", **{key: value})
