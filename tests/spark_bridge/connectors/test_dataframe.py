"""Tests that the rows of a DataFrame are computed once and read by groups of partitions as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.messages.tasks.source import FileBatchSplit, PartitionsSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.connectors.dataframe import ComputedFrame, DataFrameSource
from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together

pytestmark = pytest.mark.spark

Made = Callable[..., DataFrameSource]


@pytest.fixture
def bound(spark: SparkSession) -> Iterator[Made]:
    """Creates bound sources of DataFrames, and frees them."""
    computed: list[ComputedFrame] = []

    def make(frame: DataFrame, limit: int | None = None) -> DataFrameSource:
        computed.append(ComputedFrame(frame))
        return DataFrameSource(computed=computed[-1], partitions_limit=limit).bound(spark, None)

    yield make
    for each in computed:
        each.free()


def discover_splits(spark: SparkSession, source: DataFrameSource, position: bytes = b"") -> SplitsDiscovered:
    return source.split_discovery(OperatorId("source"), FileSystem(spark)).discover(position)


def split_ids(found: SplitsDiscovered) -> list[str]:
    return [str(split.split_id) for split in found.splits]


def test_a_batch_is_a_group_of_partitions(spark: SparkSession, bound: Made) -> None:
    source = bound(spark.range(0, 100, 1, 7), 3)

    discovered = discover_splits(spark, source)

    assert split_ids(discovered) == ["0-2", "3-5", "6"]
    assert discovered.finished


def test_discovered_partitions_are_not_discovered_again(spark: SparkSession, bound: Made) -> None:
    source = bound(spark.range(0, 100, 1, 7), 3)

    assert split_ids(discover_splits(spark, source, discover_splits(spark, source).position)) == []
    assert split_ids(discover_splits(spark, source, b"2")) == ["2-4", "5-6"]


def test_every_row_is_read_once_and_again_unchanged(spark: SparkSession, plane: SparkDataPlane, bound: Made) -> None:
    source = bound(spark.range(0, 100, 1, 4).withColumn("chance", F.rand()), 2)
    schema = source.prototype(spark).schema
    splits = discover_splits(spark, source).splits

    def everything(*, in_slices: bool) -> list[tuple[int, float]]:
        read = [source.read(plane.session, schema, [split], in_slices=in_slices) for split in splits]
        frame = together([rows for slices in read for rows in slices])
        return sorted((row.id, row.chance) for row in frame.collect())

    once = everything(in_slices=False)

    assert [number for number, _ in once] == list(range(100))
    assert everything(in_slices=True) == once


def test_batches_are_planned_with_the_engines_settings(spark: SparkSession, plane: SparkDataPlane, bound: Made) -> None:
    source = bound(spark.range(0, 4, 1, 2))
    (split,) = discover_splits(spark, source).splits

    (rows,) = source.read(plane.session, source.prototype(spark).schema, [split], in_slices=False)

    assert rows.sparkSession is plane.session


def test_a_checkpoint_with_more_partitions_is_refused(spark: SparkSession, bound: Made) -> None:
    with pytest.raises(SourceError, match="has 2 Spark partitions, but had more when the checkpoint was taken"):
        discover_splits(spark, bound(spark.range(0, 4, 1, 2)), b"8")


def test_the_split_of_another_source_is_refused(spark: SparkSession, bound: Made) -> None:
    source = bound(spark.range(1))
    split = FileBatchSplit(split_id=SplitId("a"), rows=1, files=())

    with pytest.raises(SourceError, match="DataFrame cannot read a FileBatchSplit"):
        source.read(spark, source.prototype(spark).schema, [split], in_slices=False)


def test_a_wrong_event_time_is_refused_before_any_computation(spark: SparkSession) -> None:
    computed = ComputedFrame(spark.range(1).select(F.raise_error(F.lit("computed")).alias("at")))

    with pytest.raises(PrototypeError, match="'at' is of type void, not timestamp"):
        DataFrameSource(computed=computed).bound(spark, "at")


def test_freed_rows_cannot_be_read(spark: SparkSession, bound: Made) -> None:
    before = len(spark.sparkContext._jsc.getPersistentRDDs())
    source = bound(spark.range(0, 4, 1, 2))
    held = len(spark.sparkContext._jsc.getPersistentRDDs())

    source.computed.free()
    source.computed.free()

    assert (held, len(spark.sparkContext._jsc.getPersistentRDDs())) == (before + 1, before)
    with pytest.raises(SourceError, match="the rows of the DataFrame were freed"):
        discover_splits(spark, source)


def test_a_split_names_its_partitions(spark: SparkSession, bound: Made) -> None:
    (split,) = discover_splits(spark, bound(spark.range(0, 4, 1, 2), 2)).splits

    assert split == PartitionsSplit(split_id=SplitId("0-1"), rows=0, partitions=(0, 1))
