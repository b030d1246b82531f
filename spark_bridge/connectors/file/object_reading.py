"""Reads files with fsspec in Spark's Python workers, so that rows never pass through the driver.

pyarrow reads parquet. For json, csv and text the workers only split lines, like Hadoop; Spark parses the lines,
including headers and values in the names of folders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.tasks.source import FileSplit
from flykka.spark_bridge.connectors.file.footers import checked_columns, files_with_columns
from flykka.spark_bridge.connectors.file.formats import merged
from flykka.spark_bridge.connectors.file.object_store import ObjectStore
from flykka.spark_bridge.diagnosis.unreadable import plain_path
from flykka.spark_bridge.errors import FileSchemaError, SourceError, UnreadableFileError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.file_formats import partition_in
from flykka.spark_bridge.rows.marks import refused_if_corrupt

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flykka.spark_bridge.connectors.file.source_settings import FileSourceSettings

_OF_FILES = frozenset(
    {
        "charset",
        "datetimerebasemode",
        "encoding",
        "ignorecorruptfiles",
        "ignoremissingfiles",
        "int96rebasemode",
        "linesep",
        "multiline",
        "wholetext",
    }
)
"""Options of Spark's readers for the files themselves. They have no effect, because Spark does not read the files."""

_ROWS_AT_ONCE = 10_000
_LINE, _FILE, _HEADER, _PARSED, _FOLDER = "__line", "__file", "__header", "__parsed", "__folder_"
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"
_BLANK = "".join(map(chr, range(0x21)))
"""Java's white space characters. Spark skips lines that contain only these."""


def check_readable(source: FileSourceSettings) -> None:
    without = "without storage_options, Spark reads the path with a Hadoop file system"
    if source.format not in ("parquet", "json", "csv", "text"):
        raise PrototypeError(
            f"{source} cannot be read with storage_options, which support parquet, json, csv and text: {without}"
        )
    for key, value in source.reader_options:
        if key.lower() in _OF_FILES and value.lower() not in ("false", "utf-8"):
            raise PrototypeError(f"{source} cannot be read with storage_options and {key}={value!r}: {without}")


def schema_of_objects(source: FileSourceSettings) -> StructType:
    """Return the schema of the parquet files. Raises `SourceError` if there are none, or `UnreadableFileError`."""
    if source.format != "parquet":
        raise SourceError(f"{source} needs a schema if it is read with storage_options: schema='id long, ...'")
    files = files_with_columns(source, source.store)
    if in_folders := {column for name in files for column in partition_in(name)}:
        raise SourceError(
            f"{source} needs a schema if it is read with storage_options and the names of its folders contain values of"
            f" columns ({', '.join(sorted(in_folders))}): schema='id long, ...'"
        )
    try:
        return from_arrow_schema(checked_columns(source, source.store, [*files.values()]), prefer_timestamp_ntz=True)
    except PySparkException as unknown:
        raise UnreadableFileError(f"no schema can be taken from {source}: {unknown}") from unknown


def read_objects(
    session: SparkSession, source: FileSourceSettings, schema: StructType, files: Sequence[FileSplit]
) -> DataFrame:
    tasks = min(len(files), max(1, session.sparkContext.defaultParallelism))
    numbers = session.range(0, tasks, 1, tasks)
    bounds = [len(files) * number // tasks for number in range(tasks + 1)]
    dealt = [files[first:behind] for first, behind in pairwise(bounds)]
    named = {name.lower() for file in files for name in _partition(file)}
    in_folders = [field for field in schema if field.name.lower() in named]
    in_files = StructType([field for field in schema if field.name.lower() not in named])
    names = tuple(field.name for field in in_folders)
    texts = [StructField(f"{_FOLDER}{name}", StringType()) for name in names]
    if source.format == "parquet":
        of_parquet = _ReadParquet(store=source.store, tasks=dealt, folders=names, schema=in_files)
        rows = numbers.mapInArrow(of_parquet, StructType([*in_files, *texts]))
        columns = {name: F.col(quoted(name)) for name in in_files.names}
    else:
        options = {key.lower(): value for key, value in _options(source).items()}
        of_lines = _ReadLines(
            store=source.store,
            tasks=dealt,
            folders=names,
            has_header=source.format == "csv" and options.get("header") == "true",
            comment=options.get("comment") if source.format == "csv" else None,
            keeps_blank=source.format == "text",
        )
        fixed = [
            StructField(_LINE, StringType()),
            StructField(_FILE, StringType()),
            StructField(_HEADER, BooleanType()),
        ]
        rows = numbers.mapInArrow(of_lines, StructType([*fixed, *texts]))
        columns = {name: F.col(_LINE) for name in in_files.names}
        if source.format != "text":
            if of_lines.has_header:
                rows = _without_headers(rows, in_files.names, options)
            rows = _parsed(session, rows, source.format, in_files, options)
            columns = {name: F.col(_PARSED)[name] for name in in_files.names}
    columns |= {field.name: _folder_value(field) for field in in_folders}
    return rows.select(*(columns[name].alias(name) for name in schema.names))


def _options(source: FileSourceSettings) -> dict[str, str]:
    return merged(source.file_format.reading, source.reader_options)


def _partition(split: FileSplit) -> dict[str, str | None]:
    return partition_in(unquote(split.split_id))


def _folder_value(field: StructField) -> Column:
    """Return a value in a folder's name, cast by Spark. A value that cannot be cast is an error."""
    text = F.col(quoted(f"{_FOLDER}{field.name}"))
    value, kind = text.try_cast(field.dataType), field.dataType.simpleString()
    told = F.concat(F.lit(f"a folder is named {field.name}="), text, F.lit(f", and {field.name!r} is of type {kind}"))
    return F.when(text.isNotNull() & value.isNull(), F.raise_error(told)).otherwise(value)


def _without_headers(lines: DataFrame, names: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """Drop the first line of each file, which must be a header with these names unless the schema is enforced."""
    if options.get("enforceschema") == "true":
        return lines.where(~F.col(_HEADER))
    columns = ", ".join(f"c{number} string" for number in range(len(names)))
    for_header = {**options, "mode": "PERMISSIVE", "columnnameofcorruptrecord": "corrupt", "nullvalue": ""}
    header = F.from_csv(F.col(_LINE), f"{columns}, corrupt string", for_header)
    same = header["corrupt"].isNull()
    for number, name in enumerate(names):
        same &= F.lower(header[f"c{number}"]).eqNullSafe(name.lower())
    told = F.concat(F.col(_FILE), F.lit(" has the header '"), F.col(_LINE), F.lit(f"', not {','.join(names)!r}"))
    is_row = F.when(F.col(_HEADER), F.when(same, F.lit(False)).otherwise(F.raise_error(told))).otherwise(F.lit(True))
    return lines.where(is_row)


def _parsed(
    session: SparkSession, lines: DataFrame, name: str, schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    mode, key = options["mode"].upper(), "columnnameofcorruptrecord"
    corrupt = options.get(key) or str(session.conf.get(_CORRUPT))
    with_corrupt = schema if corrupt in schema.names else StructType([*schema, StructField(corrupt, StringType())])
    for_spark = {**options, "mode": "PERMISSIVE", key: corrupt}
    line = F.col(_LINE)
    if name == "json":
        # As in Spark's reader, each object in an array is a row.
        objects = F.when(F.ltrim(line).startswith("["), F.from_json(line, "array<string>", for_spark))
        lines = lines.withColumn(_LINE, F.explode(F.coalesce(objects, F.array(line))))
    parsed = (
        F.from_json(line, with_corrupt, for_spark)
        if name == "json"
        else F.from_csv(line, with_corrupt.toDDL(), for_spark)
    )
    rows = lines.withColumn(_PARSED, parsed)
    text = F.col(_PARSED)[corrupt]
    if mode == "DROPMALFORMED":
        rows = rows.where(text.isNull())
    if mode == "FAILFAST":
        subject = F.concat(F.lit("cannot read "), F.col(_FILE), F.lit(": a line"))
        rows = rows.withColumn(_PARSED, refused_if_corrupt(F.col(_PARSED), text, subject, name))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading(ABC):
    """Reads the files of tasks. `folders` are the columns whose values are in the names of folders."""

    store: ObjectStore
    tasks: Sequence[Sequence[FileSplit]]
    folders: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for split in self.tasks[task]:
                    try:
                        yield from self._with_folders(split)
                    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
                        raise UnreadableFileError(f"cannot read {plain_path(split.path)}: {broken}") from broken

    def _with_folders(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        values = {name.lower(): value for name, value in _partition(split).items()}
        if missing := [name for name in self.folders if name.lower() not in values]:
            raise FileSchemaError(
                f"{plain_path(split.path)} is not in a folder named {missing[0]}=..., unlike other files"
            )
        for rows in self.rows(split):
            for name in self.folders:
                column = pa.repeat(pa.scalar(values[name.lower()], pa.string()), rows.num_rows)
                rows = rows.append_column(f"{_FOLDER}{name}", column)
            yield rows

    @abstractmethod
    def rows(self, split: FileSplit) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadParquet(_Reading):
    schema: StructType

    def rows(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with self.store.open(split.path) as opened:
            file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            names = {name.lower(): name for name in file.schema_arrow.names}
            columns = [names[field.name.lower()] for field in wanted if field.name.lower() in names]
            skip, left = split.start_row, split.rows
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                rows = batch.slice(skip)[:left]
                skip, left = max(0, skip - batch.num_rows), left - rows.num_rows
                if rows.num_rows:
                    yield _with_columns(rows, wanted, names)


def _with_columns(rows: pa.RecordBatch, wanted: pa.Schema, names: Mapping[str, str]) -> pa.RecordBatch:
    found = rows.select([])
    for field in wanted:
        name = names.get(field.name.lower())
        column = pa.nulls(rows.num_rows, field.type) if name is None else rows.column(name).cast(field.type)
        found = found.append_column(field, column)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadLines(_Reading):
    has_header: bool
    comment: str | None
    keeps_blank: bool

    def rows(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        with self.store.open_text(split.path) as file:
            lines = (line.removesuffix("\n") for line in file)
            lines = (line for line in lines if self.keeps_blank or self._is_read(line))
            is_header = self.has_header
            while some := list(islice(lines, 1 if is_header else _ROWS_AT_ONCE)):
                columns = {_LINE: some, _FILE: [plain_path(split.path)] * len(some), _HEADER: [is_header] * len(some)}
                yield pa.RecordBatch.from_pydict(columns)
                is_header = False

    def _is_read(self, line: str) -> bool:
        return bool(line.strip(_BLANK)) and not (self.comment is not None and line.startswith(self.comment))
