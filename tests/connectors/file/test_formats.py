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


@pytest.mark.parametrize(
    ("name", "declared", "reach"),
    # The other formats know the schema themselves.
    [
        *((name, None, by_spark) for name in ("parquet", "orc", "avro", "json", "csv")),
        *((name, SCHEMA, reach) for name in ("json", "csv") for reach in (by_spark, by_fsspec)),
        ("parquet", None, by_fsspec),
    ],
)
def test_a_folder_is_copied_in_each_format(
    spark: SparkSession, tmp_path: Path, name: str, declared: str | None, reach: Reach
) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)
    there, copied = tmp_path / "in", tmp_path / "out"
    rows.write.parquet(str(there))
    made = {"header": "true"} if name == "csv" else {}
    copy(tmp_path / "1", FileSource.parquet(there), getattr(FileSink, name)(copied, **made))

    back = tmp_path / "back"
    copy(tmp_path / "2", reach(getattr(FileSource, name)(copied, schema=declared, **made)), FileSink.parquet(back))

    read = spark.read.parquet(str(back)).collect()
    seen = sorted((row["id"], row["name"], str(row["at"])[:19].replace("T", " ")) for row in read)
    assert seen == [(key, text, str(at)[:19]) for key, text, at in ROWS]
    assert {file.suffixes[-1] for file in copied.glob("part-*")} == {f".{name}"}


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
