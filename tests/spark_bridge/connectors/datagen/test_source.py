"""Tests that generated rows match their field definitions, whatever the batch size."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from flykka import datagen
from flykka.messages.tasks.source import IndexRangeSplit
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.connectors import datagen as datagen_module
from flykka.spark_bridge.connectors.datagen import DataGenSource
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together

pytestmark = pytest.mark.spark

FIELDS = {
    "id": datagen.sequence(start=100, step=2),
    "price": datagen.random_int(1, 10),
    "share": datagen.random_double(-1, 1),
    "side": datagen.choice("buy", "sell"),
    "at": datagen.timestamps("2024-01-01T00:00:00", "500ms"),
}


def datagen_source(seed: int = 0) -> DataGenSource:
    return DataGenSource(FIELDS, number_of_rows=10_000, seed=seed)


def rows_of_split(
    spark: SparkSession, made: DataGenSource, start: int, number: int, *, in_slices: bool = False
) -> DataFrame:
    split = IndexRangeSplit(split_id=SplitId(f"{start}+{number}"), rows=number, start=start)
    return together(made.read(spark, made.prototype(spark).schema, [split], in_slices=in_slices))


def test_row_n_does_not_depend_on_the_batch_size(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagen_module, "_ROWS_PER_CORE", 5_000)
    whole = rows_of_split(spark, datagen_source(), 0, 10_000)
    sliced = rows_of_split(spark, datagen_source(), 0, 10_000, in_slices=True)
    in_parts = rows_of_split(spark, datagen_source(), 0, 7).unionAll(rows_of_split(spark, datagen_source(), 7, 9_993))

    digests = [
        frame.agg(F.count("*"), F.sum(F.xxhash64(*FIELDS).cast("decimal(38,0)"))).first()
        for frame in (whole, sliced, in_parts)
    ]

    assert digests[0] == digests[1] == digests[2]
    assert digests[0] is not None
    assert digests[0][0] == 10_000


def test_fields_have_their_declared_values(spark: SparkSession) -> None:
    rows = rows_of_split(spark, datagen_source(), 0, 10_000)

    first = rows.first()
    seen = rows.agg(
        F.min("price"), F.max("price"), F.min("share") >= -1, F.max("share") < 1, F.count_if(F.col("side") == "buy")
    ).first()

    assert first is not None
    assert (first.id, first["at"].astimezone(UTC)) == (100, datetime(2024, 1, 1, tzinfo=UTC))
    assert rows.where("id = 106").count() == 1
    assert seen is not None
    assert tuple(seen)[:4] == (1, 10, True, True)
    assert 4_500 < seen[4] < 5_500


def test_fields_and_seeds_are_independent(spark: SparkSession) -> None:
    twins = {"a": datagen.random_int(1, 10**12), "b": datagen.random_int(1, 10**12)}

    def values(seed: int) -> Row:
        (row,) = rows_of_split(spark, DataGenSource(twins, number_of_rows=1, seed=seed), 0, 1).collect()
        return row

    assert values(1) == values(1)
    assert len({*values(1), *values(2)}) == 4


def test_columns_and_functions_of_the_index_are_generators(spark: SparkSession) -> None:
    of_columns = DataGenSource({"square": F.col("index") * F.col("index")}, number_of_rows=5)
    of_frames = DataGenSource(_even_only, number_of_rows=5)

    assert [row.square for row in rows_of_split(spark, of_columns, 2, 3).collect()] == [4, 9, 16]
    assert [row["index"] for row in rows_of_split(spark, of_frames, 0, 5).collect()] == [0, 2, 4]


def test_the_row_count_after_a_function_is_unknown() -> None:
    split = IndexRangeSplit(split_id=SplitId("0+5"), rows=5, start=0)
    of_frames = DataGenSource(_even_only, number_of_rows=5)

    assert of_frames.numbers_of(split).rows is None


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (lambda: F.col("nothing"), "nothing"),
        (lambda: F.rand(), "computed from its index alone"),
        (lambda: F.count("*"), "computed from its index alone"),
    ],
)
def test_a_field_not_derived_from_the_index_is_refused_when_bound(
    spark: SparkSession, field: object, wrong: str
) -> None:
    assert callable(field)
    column = field()
    assert isinstance(column, Column)

    with pytest.raises(PrototypeError, match=wrong):
        DataGenSource({"a": column}, number_of_rows=1).bound(spark, None)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (lambda: datagen.random_int(2, 1), "the minimum 2 lies above the maximum 1"),
        (lambda: datagen.random_int(0, 2**63), "does not fit into a bigint"),
        (lambda: datagen.random_double(1, 0), "lies above"),
        (lambda: datagen.choice(), "at least one value"),
        (lambda: datagen.timestamps("soon", "1s"), "soon"),
        (lambda: datagen.timestamps("2024-01-01", "-1s"), "step of the timestamps"),
    ],
)
def test_an_invalid_field_is_refused_on_its_line(field: object, wrong: str) -> None:
    assert callable(field)
    with pytest.raises(ValueError, match=wrong):
        field()


def test_discovered_splits_are_readable(spark: SparkSession) -> None:
    source = DataGenSource(FIELDS, number_of_rows=25, rows_per_batch=10).bound(spark, "at")

    discovered = source.split_discovery(OperatorId("source"), FileSystem(spark)).discover(b"")

    assert source.event_time == "at"
    assert [split.rows for split in discovered.splits] == [10, 10, 5]


def _even_only(indexes: DataFrame) -> DataFrame:
    return indexes.where("index % 2 = 0")
