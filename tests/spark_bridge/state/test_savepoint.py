"""Tests that staged sink files are copied into a savepoint and out of it again, without changes to the savepoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.messages.state.handles import PendingFile, StagedBatch, StagingFolder
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchWriter
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.state.savepoint import into_savepoint, out_of_savepoint
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = pytest.mark.spark


@pytest.fixture
def filesystem(spark: SparkSession) -> FileSystem:
    return FileSystem(spark)


@pytest.fixture
def pending_file(tmp_path: Path) -> PendingFile:
    """A file that waits for its checkpoint."""
    folder = tmp_path / "output" / ".flykka-staging" / "job" / "sink-0" / "0-1"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"rows")
    target = tmp_path / "output" / "day=1" / "part-sink-0.parquet"
    return PendingFile(checkpoint_id=4, staged=f"file:{folder}/part-0.parquet", target=f"file:{target}")


@pytest.fixture
def staged_batch(tmp_path: Path) -> StagedBatch:
    """A folder of rows that wait for the function call."""
    folder = tmp_path / "staged" / "0-1"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"rows")
    return StagedBatch(checkpoint_id=4, path=f"file:{folder}", schema="{}")


def contents_of_files(folder: Path) -> dict[str, bytes]:
    there = (file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".crc"))
    return {str(file.relative_to(folder)): file.read_bytes() for file in there}


def local(path: str) -> Path:
    return Path(path.removeprefix("file:"))


def test_staged_files_are_copied_into_the_savepoint_and_stay_staged(
    filesystem: FileSystem, pending_file: PendingFile, staged_batch: StagedBatch, tmp_path: Path
) -> None:
    folder = f"file:{tmp_path}/savepoint/sink"

    kept = into_savepoint(filesystem, [pending_file, staged_batch, StagingFolder(path="staging")], folder)

    assert kept == (
        replace(pending_file, staged=f"{folder}/0-part-0.parquet", in_savepoint=True),
        replace(staged_batch, path=f"{folder}/1", in_savepoint=True),
    )
    assert contents_of_files(tmp_path / "savepoint" / "sink") == {
        "0-part-0.parquet": b"rows",
        "1/part-0.parquet": b"rows",
    }
    assert local(pending_file.staged).exists()
    assert local(staged_batch.path).exists()


def test_a_job_starts_with_copies_like_its_own_staged_files(
    filesystem: FileSystem, pending_file: PendingFile, staged_batch: StagedBatch, tmp_path: Path
) -> None:
    kept = into_savepoint(filesystem, [pending_file, staged_batch], f"file:{tmp_path}/savepoint/sink")
    before = contents_of_files(tmp_path / "savepoint")
    staging = f"file:{tmp_path}/staging"

    taken = out_of_savepoint(filesystem, kept, staging)

    assert taken == (
        replace(pending_file, staged=f"{staging}/savepoint-0/0-part-0.parquet"),
        replace(staged_batch, path=f"{staging}/savepoint-1"),
    )
    assert contents_of_files(tmp_path / "staging") == {
        "savepoint-0/0-part-0.parquet": b"rows",
        "savepoint-1/part-0.parquet": b"rows",
    }
    assert contents_of_files(tmp_path / "savepoint") == before


def test_a_file_published_after_the_savepoint_is_not_published_again(
    filesystem: FileSystem, pending_file: PendingFile, tmp_path: Path
) -> None:
    kept = into_savepoint(filesystem, [pending_file], f"file:{tmp_path}/savepoint/sink")
    local(pending_file.target).parent.mkdir()
    local(pending_file.staged).rename(local(pending_file.target))

    assert out_of_savepoint(filesystem, kept, f"file:{tmp_path}/staging") == ()
    assert not (tmp_path / "staging").exists()


def test_a_half_finished_copy_is_repeated(
    filesystem: FileSystem, pending_file: PendingFile, staged_batch: StagedBatch, tmp_path: Path
) -> None:
    kept = into_savepoint(filesystem, [pending_file, staged_batch], f"file:{tmp_path}/savepoint/sink")
    for half in ("savepoint-0", "savepoint-1"):
        (tmp_path / "staging" / half).mkdir(parents=True)
        (tmp_path / "staging" / half / "0-part-0.parquet").write_bytes(b"ro")

    out_of_savepoint(filesystem, kept, f"file:{tmp_path}/staging")

    assert contents_of_files(tmp_path / "staging") == {
        "savepoint-0/0-part-0.parquet": b"rows",
        "savepoint-1/part-0.parquet": b"rows",
    }


def test_files_of_a_checkpoint_are_used_without_copying(
    filesystem: FileSystem, pending_file: PendingFile, staged_batch: StagedBatch, tmp_path: Path
) -> None:
    prepared = (pending_file, staged_batch, StagingFolder(path="staging"))

    assert out_of_savepoint(filesystem, prepared, f"file:{tmp_path}/staging") == prepared


def test_an_error_names_a_file_that_cannot_be_copied(
    filesystem: FileSystem, pending_file: PendingFile, tmp_path: Path
) -> None:
    local(pending_file.staged).unlink()

    with pytest.raises(OSError, match=r"part-0\.parquet does not exist"):
        into_savepoint(filesystem, [pending_file], f"file:{tmp_path}/savepoint/sink")


@pytest.mark.slow
def test_a_function_receives_a_savepoints_rows_under_their_checkpoint_id(
    spark: SparkSession, filesystem: FileSystem, tmp_path: Path
) -> None:
    calls: list[tuple[int, list[int]]] = []

    def take(rows: DataFrame, checkpoint_id: int) -> None:
        calls.append((checkpoint_id, [row.number for row in rows.collect()]))

    before, after = (
        ForeachBatchWriter(take, sink_context(spark, str(tmp_path / job / "staged"))) for job in ("before", "after")
    )
    prepared = before.prepare_commit(4, before.stage(spark.range(3).selectExpr("id AS number")).names)
    kept = into_savepoint(filesystem, prepared, f"file:{tmp_path}/savepoint/sink")
    there = contents_of_files(tmp_path / "savepoint")

    after.restore(kept)

    assert [(checkpoint_id, sorted(numbers)) for checkpoint_id, numbers in calls] == [(4, [0, 1, 2])]
    assert contents_of_files(tmp_path / "savepoint") == there
    assert contents_of_files(tmp_path / "after" / "staged") == {}


@pytest.mark.slow
def test_a_file_sink_publishes_a_savepoints_pending_files_once(
    spark: SparkSession, filesystem: FileSystem, tmp_path: Path
) -> None:
    sink = FileSink.parquet(str(tmp_path / "output"))
    before, after, again = (
        sink.writer(sink_context(spark, str(tmp_path / "output" / ".flykka-staging" / job)))
        for job in ("before", "after", "again")
    )
    prepared = before.prepare_commit(4, before.stage(spark.range(3).selectExpr("id AS number")).names)
    kept = into_savepoint(filesystem, prepared, f"file:{tmp_path}/savepoint/sink")
    there = contents_of_files(tmp_path / "savepoint")

    after.restore(kept)
    again.restore(kept)

    assert sorted(row.number for row in spark.read.parquet(str(tmp_path / "output")).collect()) == [0, 1, 2]
    assert contents_of_files(tmp_path / "savepoint") == there


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [True, False])
def test_a_job_and_another_started_from_its_savepoint_do_not_interfere(
    spark: SparkSession, filesystem: FileSystem, tmp_path: Path, restarted: bool
) -> None:
    sink = FileSink.parquet(str(tmp_path / "output"))
    original, fork, next_attempt = (
        sink.writer(sink_context(spark, str(tmp_path / "output" / ".flykka-staging" / job), attempt_number=number))
        for job, number in (("original", 0), ("fork", 0), ("original", 1))
    )
    prepared = original.prepare_commit(4, original.stage(spark.range(3).selectExpr("id AS number")).names)
    kept = into_savepoint(filesystem, prepared, f"file:{tmp_path}/savepoint/sink")

    fork.restore(kept)
    if restarted:
        next_attempt.restore(prepared)
    else:
        original.commit(4)

    assert sorted(row.number for row in spark.read.parquet(str(tmp_path / "output")).collect()) == [0, 1, 2]
    assert contents_of_files(tmp_path / "output" / ".flykka-staging") == {}
