"""Parquet written into a folder of its own, which is used or discarded as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.filesystem import FileStatus, FileSystem


def write_parquet(filesystem: FileSystem, rows: DataFrame, folder: str) -> tuple[FileStatus, ...]:
    """Write rows into a folder that is not there yet; the files. One Spark job."""
    # Nobody reads the folder before it is complete: neither a second rename nor a marker is needed.
    writer = rows.write.mode("error").option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
    return tuple(filesystem.files_below(folder))
