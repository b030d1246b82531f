"""Tests that each file format is written exactly once and read back unchanged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.errors import StreamTypeError
from tests.spark_bridge.reached import Reach, by_fsspec, by_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string, at timestamp"
ROWS = [(n, f"é {n}", datetime(2024, 1, 1, 0, 0, n, tzinfo=UTC).replace(tzinfo=None)) for n in range(20)]


def copy(folder: Path, source: FileSource, sink: FileSink) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(folder / "checkpoints")).enable_checkpointing("200ms")
        env.from_source(source, WatermarkStrategy.no_watermarks(), uid="read").sink_to(sink).uid("write")
        env.execute("copy")


FORMATS = ("parquet", "orc", "avro", "json", "csv")
READ = [
    *((name, None, by_spark) for name in FORMATS),
    # test_files_both_ways.py reads with a schema and through fsspec in each run. Other formats contain their own
    # schema.
    *((name, SCHEMA, reach) for name in ("json", "csv") for reach in (by_spark, by_fsspec)),
    ("parquet", None, by_fsspec),
]
EACH_RUN, LONG_RUN = range(len(FORMATS)), range(len(FORMATS), len(READ))


def options(name: str) -> dict[str, str]:
    return {"header": "true"} if name == "csv" else {}


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder per format, all written by one job."""
    folder = tmp_path_factory.mktemp("formats")
    spark.createDataFrame(ROWS, SCHEMA).write.parquet(str(folder / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(folder / "checkpoints")).enable_checkpointing("200ms")
        rows = env.from_source(FileSource.parquet(folder / "in"), WatermarkStrategy.no_watermarks())
        for name in FORMATS:
            rows.sink_to(getattr(FileSink, name)(folder / name, **options(name)))
        env.execute("write")
    return folder


@pytest.fixture(scope="module")
def read(written: Path) -> Callable[[range], None]:
    """A function that runs one job that reads in several ways, and writes each result to a folder named by its index in
    `READ`.
    """

    @cache
    def run(places: range) -> None:
        with StreamExecutionEnvironment.get_execution_environment() as env:
            env.set_checkpoint_dir(str(written / "checkpoints")).enable_checkpointing("200ms")
            for place in places:
                name, declared, reach = READ[place]
                source = reach(getattr(FileSource, name)(written / name, schema=declared, **options(name)))
                rows = env.from_source(source, WatermarkStrategy.no_watermarks())
                rows.sink_to(FileSink.parquet(written / f"{place}"))
            env.execute(f"read {places.start}")

    return run


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, id=f"{name}-{way.__name__}-{schema}", marks=() if place in EACH_RUN else pytest.mark.long)
        for place, (name, schema, way) in enumerate(READ)
    ],
)
def test_a_folder_is_copied_in_each_format(
    spark: SparkSession, written: Path, read: Callable[[range], None], place: int
) -> None:
    name, _, _ = READ[place]

    read(EACH_RUN if place in EACH_RUN else LONG_RUN)
    rows = spark.read.parquet(str(written / f"{place}")).collect()

    seen = sorted((row["id"], row["name"], str(row["at"])[:19].replace("T", " ")) for row in rows)
    assert seen == [(key, text, str(at)[:19]) for key, text, at in ROWS]
    assert {file.suffixes[-1] for file in (written / name).glob("part-*")} == {f".{name}"}


@pytest.mark.parametrize("reach", [by_spark, pytest.param(by_fsspec, marks=pytest.mark.long)])
def test_lines_of_text_round_trip_as_rows(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text("one\ntwo, 2\n\n{")

    copy(tmp_path, reach(FileSource.text(tmp_path / "in")), FileSink.text(tmp_path / "out"))

    assert sorted(row.value for row in spark.read.text(str(tmp_path / "out")).collect()) == ["", "one", "two, 2", "{"]


def test_rows_of_two_columns_are_refused_as_text(spark: SparkSession, tmp_path: Path) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        source = FileSource.csv(tmp_path, schema="a string, b string").monitor_continuously("1s")
        rows = env.from_source(source, WatermarkStrategy.no_watermarks())
        with pytest.raises(StreamTypeError, match="Text data source supports only a single column, and you have 2"):
            rows.sink_to(FileSink.text(tmp_path / "out"))
