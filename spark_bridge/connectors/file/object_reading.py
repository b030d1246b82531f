"""Reads files through fsspec in Python workers of Spark: rows never pass the driver.

Parquet becomes the columns of the source. Of json, csv and text lines are read, and Spark parses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from flykka.messages.tasks.source import FileSplit
from flykka.spark_bridge.connectors.corrupt_text import refused_if_corrupt
from flykka.spark_bridge.connectors.file.formats import merged
from flykka.spark_bridge.connectors.file.object_store import ObjectStore
from flykka.spark_bridge.errors import FileSchemaError, SourceError, UnreadableFileError
from flykka.spark_bridge.program.prototype import PrototypeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.spark_bridge.connectors.file.source import FileSource

_PARSED_BY_LINE = ("json", "csv", "text")
_ROWS_AT_ONCE = 10_000
_LINE, _FILE, _PARSED, _CORRUPT = "__line", "__file", "__parsed", "__corrupt"


def check_readable(source: FileSource) -> None:
    """Raise `PrototypeError` where files cannot be read like this through fsspec."""
    if source.format not in ("parquet", *_PARSED_BY_LINE):
        raise PrototypeError(
            f"{source} cannot be read with storage_options, through which parquet, json, csv and text are read; without"
            " them Spark reads it, with a file system of Hadoop's for the path"
        )
    if _options(source).get("multiline") == "true":
        raise PrototypeError(f"{source} is read line by line with storage_options: multiLine is not possible there")


def schema_of_objects(source: FileSource) -> StructType:
    """The schema of the first file of parquet. Raises `SourceError` for other formats, `UnreadableFileError`."""
    if source.format != "parquet":
        raise SourceError(f"{source} needs a schema where it is read with storage_options: schema='id long, ...'")
    path = next(source.store.paths_below(source.path))
    try:
        with source.store.open(path) as file:
            return from_arrow_schema(pq.read_schema(file), prefer_timestamp_ntz=True)
    except (pa.ArrowException, OSError, PySparkException) as broken:
        raise UnreadableFileError(f"no schema can be taken from {path}: {broken}") from broken


def read_objects(
    session: SparkSession, source: FileSource, schema: StructType, files: Sequence[FileSplit]
) -> DataFrame:
    """The rows of files, those of one file in their order."""
    tasks = min(len(files), max(1, session.sparkContext.defaultParallelism))
    numbers = session.range(0, tasks, 1, tasks)
    dealt = [files[number::tasks] for number in range(tasks)]
    if source.format == "parquet":
        return numbers.mapInArrow(_ReadParquet(store=source.store, tasks=dealt, schema=schema), schema)
    options = _options(source)
    header = tuple(schema.names) if source.format == "csv" and options.get("header") == "true" else None
    checks = options.get("enforceschema") != "true"
    work = _ReadLines(store=source.store, tasks=dealt, header=header, sep=options.get("sep", ","), checks=checks)
    lines = numbers.mapInArrow(work, f"{_LINE} string, {_FILE} string")
    return lines.select(F.col(_LINE).alias("value")) if source.format == "text" else _parsed(lines, source, schema)


def _options(source: FileSource) -> dict[str, str]:
    given = merged(source.file_format.reading, source.reader_options)
    return {key.lower(): value for key, value in given.items()}


def _parsed(lines: DataFrame, source: FileSource, schema: StructType) -> DataFrame:
    options = _options(source)
    mode = options["mode"].upper()
    with_corrupt = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    for_spark = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    line = F.col(_LINE)
    parsed = (
        F.from_json(line, with_corrupt, for_spark)
        if source.format == "json"
        else F.from_csv(line, with_corrupt.toDDL(), for_spark)
    )
    rows = lines.where(F.length(F.trim(line)) > 0).withColumn(_PARSED, parsed)
    corrupt = F.col(_PARSED)[_CORRUPT]
    if mode == "DROPMALFORMED":
        rows = rows.where(corrupt.isNull())
    if mode == "FAILFAST":
        subject = F.concat(F.lit("cannot read "), F.col(_FILE), F.lit(": a line"))
        rows = rows.withColumn(_PARSED, refused_if_corrupt(F.col(_PARSED), corrupt, subject, source.format))
    return rows.select(*(F.col(_PARSED)[name].alias(name) for name in schema.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    store: ObjectStore
    tasks: Sequence[Sequence[FileSplit]]

    def _files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[FileSplit]:
        """The files of the tasks whose numbers are in the batches."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from self.tasks[task]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadParquet(_Reading):
    schema: StructType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        for split in self._files(batches):
            try:
                with self.store.open(split.path) as file:
                    yield from _rows(pq.ParquetFile(file), split, wanted)
            except (pa.ArrowException, OSError) as broken:
                raise UnreadableFileError(f"cannot read {split.path}: {broken}") from broken


def _rows(file: pq.ParquetFile, split: FileSplit, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    names = {name.lower(): name for name in file.schema_arrow.names}
    columns = [names[field.name.lower()] for field in wanted if field.name.lower() in names]
    # As Spark has it, folders between may name values of columns: `day=1/`.
    folders = dict(part.split("=", 1) for part in unquote(split.split_id).split("/")[:-1] if "=" in part)
    skip, left = split.start_row, split.rows
    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
        rows = batch.slice(skip)[:left]
        skip, left = max(0, skip - batch.num_rows), left - rows.num_rows
        if rows.num_rows:
            there = {name.lower(): rows.column(name) for name in columns}
            arrays = [_column(field, there.get(field.name.lower()), folders, rows.num_rows) for field in wanted]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _column(field: pa.Field, found: pa.Array | None, folders: dict[str, str], rows: int) -> pa.Array:
    values = pa.array([folders.get(field.name)] * rows, pa.string()) if found is None else found
    return values if values.type == field.type else values.cast(field.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadLines(_Reading):
    """`header` are the names that the first line of each file has, where it has names, and must have if it `checks`."""

    header: tuple[str, ...] | None
    sep: str
    checks: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split in self._files(batches):
            try:
                yield from self._lines(split.path)
            except (UnicodeDecodeError, OSError) as broken:
                raise UnreadableFileError(f"cannot read {split.path}: {broken}") from broken

    def _lines(self, path: str) -> Iterator[pa.RecordBatch]:
        with self.store.open_text(path) as file:
            lines = (line.rstrip("\r\n") for line in file)
            if self.header is not None:
                names = next(lines, None)
                if (
                    self.checks
                    and names is not None
                    and names.lower().split(self.sep) != [*map(str.lower, self.header)]
                ):
                    raise FileSchemaError(f"{path} has the header {names!r}, not {self.sep.join(self.header)!r}")
            while some := list(islice(lines, _ROWS_AT_ONCE)):
                yield pa.RecordBatch.from_pydict({_LINE: some, _FILE: [path] * len(some)})
