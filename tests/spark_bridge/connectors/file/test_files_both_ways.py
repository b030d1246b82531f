"""Tests that files give the same rows through Spark's readers and through fsspec: partition values, text formats,
options.
"""

from __future__ import annotations

import bz2
import gzip
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together
from tests.spark_bridge.connectors.file.reading import rows_of_source
from tests.spark_bridge.reached import Reach, both_ways, by_fsspec, by_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id bigint, name string"
ROWS = [(1, "Ann, B."), (2, "Bob")]
BODY = b'1,"Ann, B."\n2,Bob\n'
MARK = b"\xef\xbb\xbf"
OBJECTS = b'{"id": 1, "name": "Ann, B."}\n{"id": 2, "name": "Bob"}\n'


EACH_RUN = [("parquet", by_spark), ("json", by_fsspec)]
"""In each run one format per reader is enough, because folder names are parsed in the same way for all formats."""


by_spark_in_long_runs = pytest.mark.parametrize("reach", [pytest.param(by_spark, marks=pytest.mark.long), by_fsspec])
"""For files that fsspec must read exactly as Spark's own reader does."""


def write_contents(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("name", "reach"),
    [
        pytest.param(name, reach, marks=() if (name, reach) in EACH_RUN else pytest.mark.long)
        for name in ("parquet", "json", "csv")
        for reach in (by_spark, by_fsspec)
    ],
)
def test_partition_values_are_read_as_they_were_written(
    spark: SparkSession, tmp_path: Path, name: str, reach: Reach
) -> None:
    values = ["a/b", "x=y", "50%", "a%2Fb", "é🐟", "c:d", "007", None, "q?*[x]{y}", "#h", "'q'", "tab\there", "_u"]
    expected = [(key, value, key % 3, date(2026, 1, 1 + key)) for key, value in enumerate(values)]
    schema = "id int, P string, n int, day date"
    written = spark.createDataFrame(expected, schema).write.partitionBy("P", "day", "n").option("header", True)
    getattr(written, name)(str(tmp_path / "in"))
    options = {"header": True} if name == "csv" else {}

    source = getattr(FileSource, name)(tmp_path / "in", schema=schema.replace("P", "p"), **options)

    assert rows_of_source(spark, reach(source).files_per_batch(100)) == sorted(expected, key=repr)


@both_ways
def test_a_partition_value_of_a_wrong_type_is_refused(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    write_contents(tmp_path, {"n=x/a.json": b'{"id": 1}'})

    with pytest.raises(Exception, match=r"(n=x, and 'n' is of type int|'x' .*for partition column `n`)"):
        rows_of_source(spark, reach(FileSource.json(tmp_path, schema="id bigint, n int")))


@pytest.mark.parametrize("name", ["parquet", pytest.param("json", marks=pytest.mark.long)])
def test_a_file_beside_partition_folders_is_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = pa.table({"id": [1], "n": pa.array([1], pa.int32())})
    for place in ("a", "n=1/b"):
        path = tmp_path / f"{place}.{name}"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path) if name == "parquet" else path.write_bytes(b'{"id": 1, "n": 1}')
    source = by_fsspec(getattr(FileSource, name)(tmp_path, schema="id bigint, n int"))

    with pytest.raises(Exception, match=rf"/a\.{name} is not in a folder named n=\.\.\., unlike other files"):
        rows_of_source(spark, source.files_per_batch(2))


CSV: dict[str, dict[str, bytes]] = {
    "plain": {"a.csv": b"id,name\n" + BODY},
    "mark": {"a.csv": MARK + b"id,name\n" + BODY},
    "quoted": {"a.csv": b'"ID","name"\n' + BODY},
    "crlf": {"a.csv": b"id,name\r\n" + BODY.replace(b"\n", b"\r\n")},
    "cr": {"a.csv": b"id,name\r" + BODY.replace(b"\n", b"\r")},
    "comments": {"a.csv": b'\n# of today\nid,name\n1,"Ann, B."\n \t\n#2,Eve\n2,Bob'},
    "no rows": {"a.csv": b"id,name\n", "b.csv": b"id,name\n" + BODY, "c.csv": b""},
    "gzip": {"a.csv.gz": gzip.compress(b'id,name\n1,"Ann, B."\n') + gzip.compress(b"2,Bob\n")},
    "bzip2": {"a.csv.bz2": bz2.compress(b"id,name\n" + BODY)},
}
JSON: dict[str, dict[str, bytes]] = {
    "plain": {"a.json": OBJECTS, "b.json": b""},
    "mark": {"a.json": MARK + OBJECTS},
    "blank lines": {"a.json": OBJECTS.replace(b"\n", b"\r\n\r\n \t\n")},
    "array": {"a.json": b"[" + OBJECTS.strip().replace(b"\n", b", ") + b"]\n[]\n"},
}
OF_KINDS = f"{SCHEMA}, kind string"


def of_kinds(folder: Path, kinds: dict[str, dict[str, bytes]]) -> list[tuple[object, ...]]:
    """Write each kind of file into its own folder, whose name gives a column, and return the rows of all kinds."""
    for kind, files in kinds.items():
        write_contents(folder / f"kind={kind}", files)
    return sorted(((*row, kind) for kind in kinds for row in ROWS), key=repr)


@by_spark_in_long_runs
def test_all_csv_dialects_give_the_same_rows(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    expected = of_kinds(tmp_path, CSV)
    source = FileSource.csv(tmp_path, schema=OF_KINDS, header=True, comment="#")

    assert rows_of_source(spark, reach(source).files_per_batch(100)) == expected


@by_spark_in_long_runs
def test_all_json_variants_give_the_same_rows(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    expected = of_kinds(tmp_path, JSON)

    for mode in ("FAILFAST", "PERMISSIVE"):
        source = FileSource.json(tmp_path, schema=OF_KINDS, mode=mode)
        assert rows_of_source(spark, reach(source).files_per_batch(100)) == expected


@by_spark_in_long_runs
def test_all_text_variants_give_the_same_lines(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    write_contents(tmp_path, {"a.txt": MARK + b"  one \r\n\r\n\ttwo\rthree", "b.txt": b""})

    assert {line for (line,) in rows_of_source(spark, reach(FileSource.text(tmp_path)))} == {
        "",
        "  one ",
        "\ttwo",
        "three",
    }


def test_zstandard_is_read_through_fsspec(spark: SparkSession, tmp_path: Path) -> None:
    with pa.CompressedOutputStream(tmp_path / "a.txt.zst", "zstd") as file:
        file.write(b"one\ntwo")

    assert rows_of_source(spark, by_fsspec(FileSource.text(tmp_path))) == [("one",), ("two",)]


@both_ways
def test_malformed_lines_are_stored_in_the_corrupt_record_column(
    spark: SparkSession, tmp_path: Path, reach: Reach
) -> None:
    write_contents(tmp_path, {"a.json": b'{"id": 1}\n{"id"\n'})
    source = FileSource.json(tmp_path, schema="id bigint, odd string", mode="PERMISSIVE")

    assert rows_of_source(spark, reach(source.option("columnNameOfCorruptRecord", "odd"))) == [
        (1, None),
        (None, '{"id"'),
    ]


BROKEN: dict[str, dict[str, bytes]] = {
    "cut": {"cut.json.gz": gzip.compress(OBJECTS * 100)[:-20]},
    "no gzip": {"cut.json.gz": OBJECTS},
    "damaged": {"cut.json.gz": gzip.compress(OBJECTS * 100)[:-30] + b"x" * 30},
    "no UTF-8": {"cut.json": b'{"id": 1, "name": "\xff"}'},
}


@pytest.mark.parametrize(
    ("files", "reach"),
    [
        pytest.param(
            files,
            reach,
            id=f"{name}-{reach.__name__}",
            marks=pytest.mark.long if name in ("no gzip", "damaged") else (),
        )
        for name, files in BROKEN.items()
        for reach in (by_spark, by_fsspec)
    ],
)
def test_an_error_names_the_broken_file(
    spark: SparkSession, tmp_path: Path, files: dict[str, bytes], reach: Reach
) -> None:
    write_contents(tmp_path, {"good.json": OBJECTS, **files})

    with pytest.raises(Exception, match=r"/cut\.json"):
        rows_of_source(spark, reach(FileSource.json(tmp_path, schema=SCHEMA)))


@pytest.mark.parametrize(
    ("source", "option"),
    [
        (FileSource.json("in", schema=SCHEMA, multiLine=True), "multiLine='true'"),
        (FileSource.csv("in", schema=SCHEMA, encoding="latin1"), "encoding='latin1'"),
        (FileSource.csv("in", schema=SCHEMA, lineSep="|"), r"lineSep='\|'"),
        (FileSource.text("in", wholetext=True), "wholetext='true'"),
        (FileSource.parquet("in", schema=SCHEMA, int96RebaseMode="LEGACY"), "int96RebaseMode='LEGACY'"),
    ],
    ids=str,
)
def test_an_option_for_files_invisible_to_spark_is_refused(
    spark: SparkSession, source: FileSource, option: str
) -> None:
    with pytest.raises(PrototypeError, match=rf"cannot be read with storage_options and {option}: without"):
        by_fsspec(source).bound(spark, None)


@both_ways
@pytest.mark.parametrize("files", [None, 3])
def test_rows_keep_the_order_of_files_if_required(
    spark: SparkSession, tmp_path: Path, reach: Reach, files: int | None
) -> None:
    expected = [(number, f"row {row}") for number in range(5) for row in range(1 + 10 * number)]
    for number in range(5):
        rows = [f"{each},{text}\n" for each, text in expected if each == number]
        write_contents(tmp_path, {f"{number}.csv": "".join(rows).encode()})
    source = reach(FileSource.csv(tmp_path, schema=SCHEMA)).in_order()
    bound = (source if files is None else source.files_per_batch(files)).bound(spark, None)
    discovered = bound.split_discovery(OperatorId("source"), FileSystem(spark)).discover(b"")

    read = bound.read(spark, bound.prototype(spark).schema, discovered.splits, in_slices=False)

    assert [tuple(row) for row in together(read).collect()] == expected
