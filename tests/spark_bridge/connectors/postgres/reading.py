"""Discovers splits of a PostgresCdcSource and reads their rows."""

from __future__ import annotations

from pyspark.sql import SparkSession

from flykka.connectors import FileSystem, OperatorId
from flykka.connectors.testing import Row
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.rows.materialise import together
from tests.spark_bridge.connectors.postgres.server import Database


def discover_all_splits(source: PostgresCdcSource, position: bytes = b"") -> SplitsDiscovered:
    """Return all splits as one discovery would find them."""
    discovery = source.split_discovery(OperatorId("source"), FileSystem(SparkSession.active()))
    discovered = discovery.discover(position)
    splits = list(discovered.splits)
    while discovered.more:
        discovered = discovery.discover(discovered.position)
        splits += discovered.splits
    return SplitsDiscovered(
        operator_id=discovered.operator_id,
        splits=tuple(splits),
        finished=discovered.finished,
        begun_at=position,
        position=discovered.position,
    )


def read_splits(spark: SparkSession, source: PostgresCdcSource, found: SplitsDiscovered) -> list[Row]:
    """Read the splits with the columns that the table has now."""
    return read_by(spark, source.bound(spark, None), found)


def read_by(spark: SparkSession, bound: PostgresCdcSource, found: SplitsDiscovered) -> list[Row]:
    """Read the splits with the columns of a bound source."""
    frames = bound.read(spark, bound.prototype(spark).schema, found.splits, in_slices=False)
    return [tuple(row) for row in together(frames).collect()] if frames else []


def changes_since(spark: SparkSession, source: PostgresCdcSource, position: bytes) -> list[Row]:
    return read_splits(spark, source, discover_all_splits(source, position))


def confirmed_position(database: Database, source: PostgresCdcSource) -> str:
    (row,) = database.rows(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (source.slot.name,)
    )
    return str(row[0])
