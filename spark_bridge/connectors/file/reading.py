"""From files to DataFrames: their schema, and the rows of a split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.tasks.source import FileBatchSplit, FileSplit
from flykka.messages.wire.ids import SplitId
from flykka.spark_bridge.connectors.file.formats import merged, merges_schemas
from flykka.spark_bridge.connectors.file.inferred_columns import checked_columns, files_with_columns
from flykka.spark_bridge.diagnosis.unreadable import reason
from flykka.spark_bridge.errors import EmptySourceError, UnreadableFileError
from flykka.spark_bridge.program.prototype import declared_columns
from flykka.spark_bridge.rows.file_formats import SPARK_FORMATS
from flykka.spark_bridge.rows.files import rows_at
from flykka.spark_bridge.rows.filesystem import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from flykka.spark_bridge.connectors.file.source import FileSource

SLICE_FILES = 24
SLICE_ROWS = 200_000
"""With fewer files and rows a slice takes longer to be planned than to be read."""
_LARGE_FILE_ROWS = 4_000_000


def empty_frame(session: SparkSession, schema: StructType | str, source: str) -> DataFrame:
    """No rows of this schema. Raises `PrototypeError` where it cannot be read, naming the source."""
    return session.createDataFrame([], declared_columns(schema, f"the columns of {source}"))


def inferred_schema(session: SparkSession, source: FileSource) -> StructType:
    """The schema of the files that are there.

    Raises:
        FileSchemaError: parquet files in different folders have different columns, and are not to be merged.
        UnreadableFileError: Spark finds none.
        EmptySourceError: the files have no columns.
    """
    options = merged({**source.file_format.reading, **source.file_format.inferring}, source.reader_options)
    reader, paths = _reader(session, source, options), [source.path]
    if source.format == "parquet":
        filesystem = FileSystem(session)
        files = files_with_columns(source, filesystem)
        if len(files) > 1 and not merges_schemas(source.reader_options):
            checked_columns(source, filesystem, [*files.values()])
        if any("=" not in folder for name in files for folder in name.split("/")[:-1]):
            # Spark does not look into folders of any other names.
            reader, paths = reader.option("basePath", source.path), [*files.values()]
    try:
        schema = rows_at(reader, paths).schema
    except (PySparkException, Py4JJavaError) as refused:
        why = reason(refused)
        hint = ": write timestamps in microseconds" if "TIMESTAMP(NANOS" in why else ""
        raise UnreadableFileError(f"no schema can be taken from {source}: {why}{hint}") from None
    if not schema.names:
        raise EmptySourceError(f"nothing in {source.path} yet to take the schema from: declare it with schema=...")
    return schema


def joined(batches: Iterable[FileBatchSplit]) -> tuple[FileBatchSplit, ...]:
    """Join batches of whole files to one, so that Spark plans and runs one scan; what is a batch by itself stays it."""
    found = tuple(batches)
    if len(found) < 2 or any(batch.size_bytes is None for batch in found):
        return found
    one = FileBatchSplit(
        split_id=SplitId("+".join(batch.split_id for batch in found)),
        files=tuple(file for batch in found for file in batch.files),
        rows=sum(batch.rows for batch in found),
    )
    return (one,)


def read_split(
    session: SparkSession, source: FileSource, schema: StructType, split: FileBatchSplit
) -> tuple[DataFrame, ...]:
    """The rows of a batch, in as many Spark partitions as Spark finds fit."""
    rows = _read(session, source, schema, split.files)
    return (rows if split.files[0].whole_file else _range(rows, split.files[0]),)


def read_sliced(
    session: SparkSession, source: FileSource, schema: StructType, split: FileBatchSplit
) -> tuple[DataFrame, ...]:
    """The rows of a batch in slices of one Spark partition each, as many as there are cores for, and rows.

    What is aggregated slice by slice needs no shuffle. A file too large for one core is read as Spark likes.
    """
    if any(not file.whole_file or file.rows > _LARGE_FILE_ROWS for file in split.files):
        return read_split(session, source, schema, split)
    rows = sum(file.rows for file in split.files)
    slices = number_of_slices(len(split.files), rows, session.sparkContext.defaultParallelism)
    return tuple(_read(session, source, schema, split.files[number::slices]).coalesce(1) for number in range(slices))


def number_of_slices(files: int, rows: int, cores: int) -> int:
    """The number of slices of some files: as many as there are cores for, and as are worth it."""
    worth = max(files // SLICE_FILES, rows // SLICE_ROWS, 1)
    return min(worth, files, max(1, cores))


def _read(session: SparkSession, source: FileSource, schema: StructType, files: Sequence[FileSplit]) -> DataFrame:
    reader = _reader(session, source, merged(source.file_format.reading, source.reader_options)).schema(schema)
    paths = [file.path for file in files]
    if all("/" not in file.split_id for file in files):
        return rows_at(reader, paths)
    # Below the source's folder: the names of the folders between may be partition columns. Spark puts these behind
    # the others, and finds more than were declared.
    rows = rows_at(reader.option("basePath", source.path), paths)
    return rows.select(*map(quoted, schema.names))


def _reader(session: SparkSession, source: FileSource, options: dict[str, str]) -> DataFrameReader:
    return session.read.format(SPARK_FORMATS[source.format].data_source).options(**options)


def _range(rows: DataFrame, split: FileSplit) -> DataFrame:
    """Some rows of a file, by their number in it.

    The bounds differ from batch to batch, and Spark writes numbers into the code that it compiles. Decimals it hands
    over, unless it can turn the comparison into one of numbers: so the first bound is subtracted.
    """
    number = F.col("_metadata.row_index").cast("decimal(17,0)") - F.lit(Decimal(split.start_row))
    return rows.where((number >= 0) & (number < F.lit(Decimal(split.rows))))
