"""From the files of a table to DataFrames: Spark reads them, and partition columns are put in by what the log tells.

Files in folders that are named after their partitions, which is nearly all of them, are one scan: Spark takes the
columns from there. The protocol allows any other place, and then the files of each partition are a scan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.file.source import number_of_slices
from flykka.spark_bridge.rows.files import read_parquet
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.rows.partition_folders import partition_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flykka.spark_bridge.connectors.delta.log import AddedFile

_Partition = tuple[tuple[str, str | None], ...]

_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
"""The time zone behind a time; without one it is in UTC."""


def read_files(session: SparkSession, table: str, schema: StructType, files: Iterable[AddedFile]) -> DataFrame:
    """The rows of files of a table, which lies at this path."""
    in_folders: list[str] = []
    elsewhere: dict[_Partition, list[str]] = {}
    for file in files:
        path = file.path if _is_whole(file.path) else f"{table}/{file.path}"
        if _tells_partition(file, schema):
            in_folders.append(path)
        else:
            elsewhere.setdefault(tuple(sorted(file.partition.items())), []).append(path)
    scans: list[DataFrame] = []
    if in_folders:
        scans.append(read_parquet(session, in_folders, schema, basePath=table).select(*map(_named, schema.names)))
    for partition, paths in elsewhere.items():
        values = dict(partition)
        in_files = StructType([field for field in schema if field.name not in values])
        rows = read_parquet(session, paths, in_files)
        scans.append(
            rows.select(*(_value(field, values) if field.name in values else _named(field.name) for field in schema))
        )
    return together(scans)


def slices_of(files: Sequence[AddedFile], *, cores: int) -> list[Sequence[AddedFile]]:
    """Deal files out to slices, as many as there are cores for, and rows."""
    slices = number_of_slices(len(files), sum(file.rows or 0 for file in files), cores)
    return [files[number::slices] for number in range(slices)]


def _tells_partition(file: AddedFile, schema: StructType) -> bool:
    """True if Spark finds the values of the partition columns in the folders as the log has them."""
    # Spark would read a time there in the time zone of the session; the log has it in UTC.
    has_times = any(isinstance(field.dataType, TimestampType) for field in schema if field.name in file.partition)
    return not has_times and not _is_whole(file.path) and partition_in(file.path) == file.partition


def _value(field: StructField, partition: Mapping[str, str | None]) -> Column:
    value = partition[field.name]
    if value is not None and isinstance(field.dataType, TimestampType) and not _ZONE.search(value):
        value = f"{value}Z"
    return F.lit(value).cast(field.dataType).alias(field.name)


def _is_whole(path: str) -> bool:
    """True for a path that does not begin in the folder of the table."""
    return ":/" in path or path.startswith("/")


def _named(name: str) -> Column:
    return F.col(quoted(name))
