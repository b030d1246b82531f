"""Tests slices by key group: complete, disjoint, and owned as the control plane assigns them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.actors.machines.state.key_groups import key_group_of, key_groups_of, owner
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.spark_bridge.rows.local_rows import LocalRows, rows_of_table
from flykka.spark_bridge.rows.partitioning import KeyGroups, Sliced, materialise_slices
from flykka.spark_bridge.session.attempt_scope import AttemptScope
from flykka.spark_bridge.session.interpretation import interpreted
from flykka.spark_bridge.session.session import engine_session, jobs_run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GROUPS = KeyGroups(keys=("name", "number"), max_parallelism=128)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    numbers = spark.range(1000)
    return numbers.select(
        F.when(F.col("id") % 7 > 0, F.concat(F.lit("n"), F.col("id"))).alias("name"), (F.col("id") % 13).alias("number")
    )


@pytest.fixture(
    scope="module", params=[1, pytest.param(2, marks=pytest.mark.long), 3, pytest.param(5, marks=pytest.mark.long)]
)
def sliced(spark: SparkSession, rows: DataFrame, request: pytest.FixtureRequest) -> Iterator[Sliced]:
    scope = AttemptScope(spark, ExecutionAttemptId("attempt"), pool="pool", label="(1/1)#0")
    slices = materialise_slices(scope, rows, GROUPS, request.param, {"most": F.max("number")})
    yield slices
    slices.materialised.blocks.free()


def frames_of(sliced: Sliced) -> list[DataFrame]:
    return [each.frame if isinstance(each, LocalRows) else each for each in sliced.slices]


def test_slices_are_complete_and_disjoint(rows: DataFrame, sliced: Sliced) -> None:
    together = [tuple(row) for part in frames_of(sliced) for row in part.collect()]

    assert sorted(together, key=repr) == sorted((tuple(row) for row in rows.collect()), key=repr)


def test_a_slice_contains_the_key_groups_of_its_subtask(sliced: Sliced) -> None:
    for subtask, part in enumerate(frames_of(sliced)):
        owned = key_groups_of(subtask, GROUPS.max_parallelism, len(sliced.slices))
        lowest, highest = part.agg(F.min(GROUPS.of_row()), F.max(GROUPS.of_row())).collect()[0]

        assert owned.start <= lowest <= highest <= owned.end


@pytest.mark.parametrize("parallelism", [1, 3, 128])
def test_rows_and_the_control_plane_agree_on_key_groups_and_owners(rows: DataFrame, parallelism: int) -> None:
    hashed = rows.select(F.hash("name", "number"), GROUPS.of_row(), GROUPS.owner(parallelism)).distinct().collect()

    for key_hash, group, subtask in hashed:
        assert group == key_group_of(key_hash, GROUPS.max_parallelism)
        assert subtask == owner(group, GROUPS.max_parallelism, parallelism)


def test_rows_are_counted_by_slice_while_they_are_computed(sliced: Sliced) -> None:
    assert sliced.rows == tuple(part.count() for part in frames_of(sliced))
    assert sliced.materialised.rows == 1000
    assert sliced.materialised.numbers["most"] == 12


def test_a_slice_is_read_without_other_partitions(sliced: Sliced) -> None:
    partitions = [part.rdd.getNumPartitions() for part in frames_of(sliced)]

    assert sum(partitions) == sliced.materialised.frame.rdd.getNumPartitions()


def test_a_range_of_key_groups_keeps_only_its_owners_rows(rows: DataFrame) -> None:
    parts = [GROUPS.within(rows, key_groups_of(subtask, 128, 4)).count() for subtask in range(4)]

    assert sum(parts) == 1000
    assert all(parts)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("is_function", [False, True], ids=["column", "function"])
def test_slices_of_few_rows_are_complete(spark: SparkSession, parallelism: int, *, is_function: bool) -> None:
    engine = engine_session(spark)
    scope = AttemptScope(engine, ExecutionAttemptId("attempt"), pool="pool", label="(1/1)#0")
    ids = pa.table({"id": list(range(20))})
    rows = interpreted(rows_of_table(engine, ids, engine.range(0).schema))
    key = F.udf(lambda id_: id_ + 1, "bigint")("id") if is_function else "id"
    before = jobs_run()

    sliced = materialise_slices(scope, rows, KeyGroups(keys=(key,), max_parallelism=128), parallelism, {})

    assert (jobs_run() > before) is (is_function and parallelism > 1)
    frames = frames_of(sliced)
    assert sum(sliced.rows) == 20
    assert sorted(row.id for each in frames for row in each.collect()) == list(range(20))
    assert [each.count() for each in frames] == list(sliced.rows)
    sliced.materialised.blocks.free()
