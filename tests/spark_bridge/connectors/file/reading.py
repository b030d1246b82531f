"""Helpers to read files through a source."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together


def rows_of_source(spark: SparkSession, source: FileSource) -> list[tuple[object, ...]]:
    bound = source.bound(spark, source.event_time)
    discovered = bound.split_discovery(OperatorId("source"), FileSystem(spark)).discover(b"")
    read = bound.read(spark, bound.prototype(spark).schema, discovered.splits, in_slices=False)
    return sorted((tuple(row) for row in together(read).collect()), key=repr)
