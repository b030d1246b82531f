"""Tests that a failed, late or repeated commit adds the rows of its checkpoint to the table exactly once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, transaction, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession

from flykka.connectors import FileSystem
from flykka.messages.state.handles import WriterState
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.state.savepoint import into_savepoint
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame, rows_of_table
from tests.spark_bridge.connectors.delta.commits import before_the_first_commit, crash
from tests.spark_bridge.sink_contexts import CrashingFileSystem

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string"


def others_append(table: Path, key: int) -> None:
    write_deltalake(str(table), pa.table({"id": pa.array([key], pa.int64()), "name": ["theirs"]}), mode="append")


def before_the_table_is_made(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` once, right before the log is created."""
    create = transaction.create_table_with_add_actions
    acts = [act]

    def acted(*args: Any, **kwargs: Any) -> None:
        if acts:
            acts.pop()()
        create(*args, **kwargs)

    patch.setattr(transaction, "create_table_with_add_actions", acted)


# This test starts another process; the tests below append within this process.
@pytest.mark.long
def test_rows_staged_during_a_foreign_append_are_committed(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))

    attempt.prepare(2, frame(spark, SCHEMA, (2, "b")))
    program = (
        "import sys, pyarrow as pa; from deltalake import write_deltalake;"
        "write_deltalake(sys.argv[1], pa.table({'id': pa.array([100], pa.int64()), 'name': ['theirs']}), mode='append')"
    )
    subprocess.run([sys.executable, "-c", program, str(table)], check=True, timeout=60)
    attempt.writer.commit(2)

    assert rows_of_table(table) == [(1, "a"), (100, "theirs"), (2, "b")]


def test_rows_are_committed_despite_an_append_right_before_the_commit(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))

    before_the_first_commit(monkeypatch, lambda: others_append(table, 100))
    attempt.publish(2, frame(spark, SCHEMA, (2, "b")))

    assert rows_of_table(table) == [(1, "a"), (100, "theirs"), (2, "b")]


def test_a_conflicting_commit_is_retried(spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))

    before_the_first_commit(
        monkeypatch, lambda: DeltaTable(str(table)).alter.add_columns([Field("more", PrimitiveType("integer"))])
    )
    attempt.publish(2, frame(spark, SCHEMA, (2, "b")))

    assert rows_of_table(table) == [(1, "a", None), (2, "b", None)]


def test_a_commit_completed_by_another_attempt_is_not_repeated(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = DeltaSink.append(table)
    zombie = Attempt(spark, sink)
    zombie.publish(1, frame(spark, SCHEMA, (1, "a")))
    prepared = zombie.prepare(2, frame(spark, SCHEMA, (2, "b")))

    before_the_first_commit(monkeypatch, lambda: Attempt(spark, sink, 1).writer.restore(prepared))
    zombie.writer.commit(2)

    assert rows_of_table(table) == [(1, "a"), (2, "b")]
    assert DeltaTable(str(table)).version() == 1


def test_rows_are_added_to_a_table_created_concurrently(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_table_is_made(monkeypatch, lambda: others_append(table, 100))

    Attempt(spark, DeltaSink.append(table)).publish(1, frame(spark, SCHEMA, (1, "a")))

    assert rows_of_table(table) == [(1, "a"), (100, "theirs")]


def test_a_kill_between_renames_and_commit_loses_no_row(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = DeltaSink.append(table).partition_by("name")
    attempt = Attempt(spark, sink)
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))
    prepared = attempt.prepare(2, frame(spark, SCHEMA, (2, "b"), (3, "c")), frame(spark, SCHEMA, (4, "b")))

    before_the_first_commit(monkeypatch, crash)
    with pytest.raises(OperatorFailedError):
        attempt.writer.commit(2)
    seen_between = rows_of_table(table)
    Attempt(spark, sink, 1).writer.restore(prepared)

    assert seen_between == [(1, "a")]
    assert rows_of_table(table) == [(1, "a"), (2, "b"), (3, "c"), (4, "b")]
    files = {path.name for path in table.rglob("part-*.parquet")}
    assert files == {uri.rsplit("/", 1)[1] for uri in DeltaTable(str(table)).file_uris()}


@pytest.mark.parametrize(
    "survives", [pytest.param(0, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.long), 2]
)
def test_a_kill_before_any_rename_loses_no_row(spark: SparkSession, table: Path, survives: int) -> None:
    sink = DeltaSink.append(table).partition_by("name")
    attempt = Attempt(spark, sink, filesystem=CrashingFileSystem(spark, survives))
    prepared = attempt.prepare(1, frame(spark, SCHEMA, (2, "b"), (3, "c")), frame(spark, SCHEMA, (4, "b")))

    with pytest.raises(OperatorFailedError):
        attempt.writer.commit(1)
    Attempt(spark, sink, 1).writer.restore(prepared)

    assert rows_of_table(table) == [(2, "b"), (3, "c"), (4, "b")]


@pytest.mark.parametrize(
    "survives", [pytest.param(each, marks=() if each == 1 else pytest.mark.long) for each in range(4)]
)
def test_a_kill_while_restoring_a_checkpoint_without_digests_loses_no_row(
    spark: SparkSession, table: Path, survives: int
) -> None:
    sink = DeltaSink.append(table).partition_by("name")
    state, *folders = Attempt(spark, sink).prepare(
        1, frame(spark, SCHEMA, (2, "b"), (3, "c")), frame(spark, SCHEMA, (4, "b"))
    )
    assert isinstance(state, WriterState)
    older = [replace(state, batches=tuple(replace(batch, files=()) for batch in state.batches)), *folders]

    with pytest.raises(OperatorFailedError):
        Attempt(spark, sink, 1, filesystem=CrashingFileSystem(spark, survives)).writer.restore(older)
    Attempt(spark, sink, 2).writer.restore(older)

    assert rows_of_table(table) == [(2, "b"), (3, "c"), (4, "b")]


@pytest.mark.parametrize("crashes", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_savepoint_is_published_once_by_all_jobs_that_start_from_it(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch, crashes: bool
) -> None:
    sink, filesystem = DeltaSink.append(table).partition_by("name"), FileSystem(spark)
    attempt = Attempt(spark, sink)
    prepared = attempt.prepare(1, frame(spark, SCHEMA, (2, "b"), (3, "c")), frame(spark, SCHEMA, (4, "b")))
    savepoint = into_savepoint(filesystem, prepared, f"{table.parent}/savepoint")

    if crashes:
        before_the_table_is_made(monkeypatch, crash)
        with pytest.raises(OperatorFailedError):
            attempt.writer.commit(1)
    for number in (1, 2):
        Attempt(spark, sink, number, uid=f"restored {number}").writer.restore(savepoint)
    attempt.writer.commit(1)

    assert rows_of_table(table) == [(2, "b"), (3, "c"), (4, "b")]
    assert DeltaTable(str(table)).version() == 0


@pytest.mark.parametrize("act", [DeltaTable.delete, lambda table: table.optimize.compact()])
def test_a_replacement_is_retried_if_other_writers_removed_its_files(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[DeltaTable], object]
) -> None:
    attempt = Attempt(spark, DeltaSink.overwrite_partitions(table, "name"))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")), frame(spark, SCHEMA, (3, "a")))

    before_the_first_commit(monkeypatch, lambda: act(DeltaTable(str(table))))
    attempt.publish(2, frame(spark, SCHEMA, (2, "a")))

    assert rows_of_table(table) == [(2, "a")]


def test_endless_commit_conflicts_are_reported(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(spark, DeltaSink.append(table))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))
    commit, numbers = DeltaTable.create_write_transaction, count()

    def disturbed(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        more = Field(f"more_{next(numbers)}", PrimitiveType("integer"))
        DeltaTable(str(table)).alter.add_columns([more])
        commit(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", disturbed)
    with pytest.raises(OperatorFailedError) as raised:
        attempt.publish(2, frame(spark, SCHEMA, (2, "b")))

    assert "times other writers committed first, the last time with" in str(raised.value.__cause__)
    assert [row[:2] for row in rows_of_table(table)] == [(1, "a")]


def test_a_commit_that_the_table_refuses_is_not_retried(spark: SparkSession, table: Path) -> None:
    attempt = Attempt(spark, DeltaSink.overwrite_partitions(table, "name"))
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))
    DeltaTable(str(table)).alter.set_table_properties({"delta.appendOnly": "true"})

    with pytest.raises(OperatorFailedError) as raised:
        attempt.publish(2, frame(spark, SCHEMA, (2, "a")))

    assert "append-only" in str(raised.value.__cause__)
