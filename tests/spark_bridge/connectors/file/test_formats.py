"""Each format of files is written exactly once and read back as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.errors import StreamTypeError
from tests.spark_bridge.reached import Reach, both_ways, by_fsspec, by_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string, at timestamp"
ROWS = [(n, f"é {n}", datetime(2024, 1, 1, 0, 0, n, tzinfo=UTC).replace(tzinfo=None)) for n in range(20)]


def copy(folder: Path, source: FileSource, sink: FileSink) -> None:
    """Let a job read one folder and write another."""
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(folder / "checkpoints")).enable_checkpointing("200ms")
        env.from_source(source, WatermarkStrategy.no_watermarks(), uid="read").sink_to(sink).uid("write")
        env.execute("copy")


FORMATS = ("parquet", "orc", "avro", "json", "csv")
READ = [
    # The other formats know the schema themselves.
    *((name, None, by_spark) for name in FORMATS),
    *((name, SCHEMA, reach) for name in ("json", "csv") for reach in (by_spark, by_fsspec)),
    ("parquet", None, by_fsspec),
]


def options(name: str) -> dict[str, str]:
    return {"header": "true"} if name == "csv" else {}


@pytest.fixture(scope="module")
def folders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each format, and what each way of reading it gives, by its place: all written by two jobs."""
    folder = tmp_path_factory.mktemp("formats")
    spark.createDataFrame(ROWS, SCHEMA).write.parquet(str(folder / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(folder / "checkpoints")).enable_checkpointing("200ms")
        rows = env.from_source(FileSource.parquet(folder / "in"), WatermarkStrategy.no_watermarks())
        for name in FORMATS:
            rows.sink_to(getattr(FileSink, name)(folder / name, **options(name)))
        env.execute("write")
        for place, (name, declared, reach) in enumerate(READ):
            source = reach(getattr(FileSource, name)(folder / name, schema=declared, **options(name)))
            env.from_source(source, WatermarkStrategy.no_watermarks()).sink_to(FileSink.parquet(folder / f"{place}"))
        env.execute("read")
    return folder


@pytest.mark.parametrize("place", range(len(READ)), ids=[f"{name}-{way.__name__}-{said}" for name, said, way in READ])
def test_a_folder_is_copied_in_each_format(spark: SparkSession, folders: Path, place: int) -> None:
    name, _, _ = READ[place]

    read = spark.read.parquet(str(folders / f"{place}")).collect()

    seen = sorted((row["id"], row["name"], str(row["at"])[:19].replace("T", " ")) for row in read)
    assert seen == [(key, text, str(at)[:19]) for key, text, at in ROWS]
    assert {file.suffixes[-1] for file in (folders / name).glob("part-*")} == {f".{name}"}


@both_ways
def test_lines_of_text_are_rows_and_rows_are_lines(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text("one\ntwo, 2\n\n{")

    copy(tmp_path, reach(FileSource.text(tmp_path / "in")), FileSink.text(tmp_path / "out"))

    assert sorted(row.value for row in spark.read.text(str(tmp_path / "out")).collect()) == ["", "one", "two, 2", "{"]


def test_rows_of_two_columns_are_no_text(spark: SparkSession, tmp_path: Path) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        source = FileSource.csv(tmp_path, schema="a string, b string").monitor_continuously("1s")
        rows = env.from_source(source, WatermarkStrategy.no_watermarks())
        with pytest.raises(StreamTypeError, match="Text data source supports only a single column, and you have 2"):
            rows.sink_to(FileSink.text(tmp_path / "out"))
