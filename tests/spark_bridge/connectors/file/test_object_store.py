"""Tests that files in an object store are read once each through fsspec, without a jar, even while others arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
import s3fs
from moto.server import ThreadedMotoServer
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.connectors import SourceError
from flykka.connectors.testing import Row, SourceContract
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from flykka.spark_bridge.errors import FileSchemaError, MissingExtraError, SourceNotFoundError
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.file.reading import rows_of_source

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Options = dict[str, object]

_BUCKETS = count()


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    """Options of fsspec's file system for a local server with S3's protocol."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield {"key": "any", "secret": "any", "endpoint_url": f"http://{host}:{port}"}
    server.stop()


@pytest.fixture
def bucket(s3: Options) -> str:
    name = f"bucket-{next(_BUCKETS)}"
    _store(s3).mkdir(name)
    return f"s3://{name}/orders"


def _store(s3: Options) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False, **s3)


def put_object(s3: Options, path: str, content: bytes | pa.Table) -> None:
    with _store(s3).open(path, "wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            pq.write_table(content, file)


class TestObjectStore(SourceContract):
    s3: Options
    path: str

    @pytest.fixture(autouse=True)
    def _bucket(self, s3: Options, bucket: str) -> None:
        self.s3, self.path, self._numbers = s3, bucket, count()

    def source(self) -> FileSource:
        source = FileSource.parquet(self.path, schema="id long, name string").monitor_continuously("100ms")
        return source.storage_options(**self.s3)

    def add(self, rows: Sequence[Row]) -> None:
        keys, names = zip(*rows, strict=True)
        put_object(self.s3, f"{self.path}/{next(self._numbers):05}.parquet", pa.table({"id": keys, "name": names}))


def test_a_parquet_schema_is_inferred_and_row_ranges_are_read(spark: SparkSession, s3: Options, bucket: str) -> None:
    put_object(s3, f"{bucket}/first/a.parquet", pa.table({"id": range(2_500), "x": [0.5] * 2_500}))
    put_object(s3, f"{bucket}/_hidden/b.parquet", pa.table({"id": [1], "x": [0.5]}))
    source = FileSource.parquet(bucket).storage_options(**s3).rows_per_batch(1_000)

    assert rows_of_source(spark, source) == sorted(((number, 0.5) for number in range(2_500)), key=repr)


@pytest.mark.long
def test_columns_are_converted_and_partition_columns_are_added(spark: SparkSession, s3: Options, bucket: str) -> None:
    put_object(s3, f"{bucket}/day=7/a.parquet", pa.table({"ID": pa.array([1, 2], pa.int32())}))
    source = FileSource.parquet(bucket, schema="id bigint, day int").storage_options(**s3)

    assert rows_of_source(spark, source) == [(1, 7), (2, 7)]


# Text is read through fsspec as from a disk: see tests/spark_bridge/connectors/file/test_files_both_ways.py.
@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "name", "content"),
    [
        (FileSource.json, "a.json", b'{"id": 1, "name": "a;b"}\n\n{"id": 2}\n'),
        (FileSource.csv, "a.csv", b"id,name\r\n1,a;b\r\n2,"),
    ],
)
def test_lines_are_read_as_rows_through_fsspec(
    spark: SparkSession, s3: Options, bucket: str, source: object, name: str, content: bytes
) -> None:
    put_object(s3, f"{bucket}/{name}", content)
    more = {"header": True} if name.endswith("csv") else {}
    made = source(bucket, schema="id long, name string", **more).storage_options(**s3)  # type: ignore[operator]

    assert rows_of_source(spark, made) == [(1, "a;b"), (2, None)]


@pytest.mark.long
def test_compressed_text_is_read(spark: SparkSession, s3: Options, bucket: str) -> None:
    with _store(s3).open(f"{bucket}/a.txt.gz", "wt", compression="gzip") as file:
        file.write("one\ntwo")

    assert rows_of_source(spark, FileSource.text(bucket).storage_options(**s3)) == [("one",), ("two",)]


@pytest.mark.long
def test_a_malformed_line_is_handled_by_the_configured_mode(spark: SparkSession, s3: Options, bucket: str) -> None:
    put_object(s3, f"{bucket}/a.json", b'{"id": 1}\n{"id"')
    source = FileSource.json(bucket, schema="id long").storage_options(**s3)
    with pytest.raises(Exception, match=r'cannot read s3://.*/a.json: a line is no json .*: {"id"'):
        rows_of_source(spark, source)

    assert rows_of_source(spark, source.option("mode", "PERMISSIVE")) == [(1,), (None,)]
    assert rows_of_source(spark, source.option("mode", "DROPMALFORMED")) == [(1,)]


@pytest.mark.long
def test_a_header_with_other_names_is_refused(spark: SparkSession, s3: Options, bucket: str) -> None:
    put_object(s3, f"{bucket}/a.csv", b"key,name\n1,a\n")
    source = FileSource.csv(bucket, schema="id long, name string", header=True).storage_options(**s3)

    with pytest.raises(Exception, match=r"a.csv has the header 'key,name', not 'id,name'"):
        rows_of_source(spark, source)


def test_an_error_names_a_file_without_a_declared_column(spark: SparkSession, s3: Options, bucket: str) -> None:
    put_object(s3, f"{bucket}/a.parquet", pa.table({"key": [1]}))

    with pytest.raises(FileSchemaError, match=r"s3://.*/a.parquet does not fit .* it has no column 'id'"):
        rows_of_source(spark, FileSource.parquet(bucket, schema="id long").storage_options(**s3))


def test_unreadable_files_are_reported_when_the_program_is_defined(
    spark: SparkSession, s3: Options, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceNotFoundError, match="nothing to read at s3://"):
        rows_of_source(spark, FileSource.parquet(bucket, schema="id long").storage_options(**s3))
    put_object(s3, f"{bucket}/a.json", b"{}")
    with pytest.raises(SourceError, match="needs a schema"):
        rows_of_source(spark, FileSource.json(bucket).storage_options(**s3))
    with pytest.raises(PrototypeError, match=r"orc .* cannot be read with storage_options"):
        rows_of_source(spark, FileSource.orc(bucket, schema="id long").storage_options(**s3))
    with pytest.raises(PrototypeError, match="storage_options and multiLine='true'"):
        rows_of_source(spark, FileSource.json(bucket, schema="id long", multiLine=True).storage_options(**s3))
    with pytest.raises(SourceError, match="nowhere://x cannot be read: Protocol not known"):
        FileSource.parquet("nowhere://x").storage_options()
    with pytest.raises(MissingExtraError, match=r"gs://bucket/x cannot be read: .*gcsfs"):
        FileSource.parquet("gs://bucket/x").storage_options()

    def is_missing(path: str, **options: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("flykka.spark_bridge.connectors.file.object_store.url_to_fs", is_missing)
    with pytest.raises(MissingExtraError, match=r"Install s3fs to access S3: pip install 'flykka\[s3\]'"):
        FileSource.parquet("s3://bucket/x").storage_options(anon=True)


def test_a_bucket_is_monitored(spark: SparkSession, s3: Options, bucket: str, tmp_path: Path) -> None:
    put_object(s3, f"{bucket}/0.parquet", pa.table({"id": range(10)}))
    source = FileSource.parquet(bucket, schema="id long").monitor_continuously("100ms").storage_options(**s3)
    written = threading.Event()

    def next_file(message: Message) -> None:
        if isinstance(message, CheckpointCompleted) and not written.is_set():
            written.set()
            put_object(s3, f"{bucket}/1.parquet", pa.table({"id": range(10, 20)}))
            put_object(s3, f"{bucket}/_SUCCESS", b"")

    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(tmp_path / "checkpoints")).enable_checkpointing("100ms")
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="numbers")
        numbers.sink_to(FileSink.parquet(tmp_path / "out")).uid("out")
        client = env.execute_async("watch")
        client.add_listener(next_file)
        client.wait(timeout=60)

    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(20))
