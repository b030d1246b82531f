"""Tests that published files, and files that a checkpoint refers to, survive a power failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from flykka.messages.state.handles import PendingFile, WriterState
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.file.sink import STAGING, FileSink, FileWriter
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink
from tests.power_loss import Disk
from tests.spark_bridge.connectors.delta.attempts import rows_of_table
from tests.spark_bridge.sink_contexts import sink_context
from tests.syncs import Syncs, watched_syncs

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def writer_of(spark: SparkSession, sink: FileSink, *, fsync: bool = True) -> FileWriter:
    staging = f"{sink.path}/.flykka-staging/job"
    return sink.writer(sink_context(spark, staging, subtask=0, parallelism=1, fsync=fsync))


def local(path: str) -> str:
    return path.removeprefix("file:")


@contextmanager
def watched_renames(syncs: Syncs) -> Iterator[None]:
    rename = os.rename

    def record_rename(source: str, target: str) -> None:
        rename(source, target)
        syncs.paths.append(f"renamed to {target}")

    with patch("os.rename", record_rename):
        yield


def test_staged_files_and_all_parent_folders_are_synced_at_the_barrier(spark: SparkSession, tmp_path: Path) -> None:
    writer = writer_of(spark, FileSink.parquet(tmp_path / "new" / "out").partition_by("odd"))
    names = writer.stage(spark.range(10).selectExpr("id", "id % 2 AS odd").coalesce(1)).names

    with watched_syncs() as syncs:
        prepared = writer.prepare_commit(1, names)

    files = [local(piece.staged) for piece in prepared if isinstance(piece, PendingFile)]
    assert len(files) == 2
    for file in files:
        for folder in Path(file).parents[:-1]:
            assert str(folder) in syncs.paths, f"{folder} was not synced"
            if folder.is_relative_to(tmp_path / "new" / "out" / ".flykka-staging" / "job"):
                assert syncs.paths.index(file) < syncs.paths.index(str(folder))


def test_later_checkpoints_sync_each_folder_once(spark: SparkSession, tmp_path: Path) -> None:
    writer = writer_of(spark, FileSink.parquet(tmp_path / "out"))
    writer.prepare_commit(1, writer.stage(spark.range(10)).names)
    names = writer.stage(spark.range(10).repartition(3)).names

    with watched_syncs() as syncs:
        prepared = writer.prepare_commit(2, names)

    job = tmp_path / "out" / ".flykka-staging" / "job"
    files = [local(piece.staged) for piece in prepared if isinstance(piece, PendingFile) and piece.checkpoint_id == 2]
    batch = Path(files[0]).parent
    folders = [batch, batch.parent, job / "0", job]
    assert sorted(syncs.paths[:3]) == sorted(files)
    assert syncs.paths[3:] == [str(folder) for folder in folders]


def test_renames_are_synced_once_before_a_commit_returns(spark: SparkSession, tmp_path: Path) -> None:
    output = tmp_path / "out"
    writer = writer_of(spark, FileSink.parquet(output).partition_by("odd"))
    rows = spark.range(10).selectExpr("id", "id % 2 AS odd").coalesce(1)
    prepared = writer.prepare_commit(1, writer.stage(rows).names)
    pending = [piece for piece in prepared if isinstance(piece, PendingFile)]

    with watched_syncs() as syncs, watched_renames(syncs):
        writer.commit(1)

    assert sorted(syncs.paths[:2]) == sorted(f"renamed to {local(piece.target)}" for piece in pending)
    folders = {str(Path(local(path)).parent) for piece in pending for path in (piece.staged, piece.target)}
    assert sorted(syncs.paths[2:]) == sorted({*folders, str(output)})
    staged = [STAGING in path for path in syncs.paths[2:]]
    assert staged == sorted(staged), "a name in the staging folder is gone before the published one is durable"


def test_a_restore_syncs_renames_of_an_earlier_attempt(spark: SparkSession, tmp_path: Path) -> None:
    sink = FileSink.parquet(tmp_path / "out")
    first = writer_of(spark, sink, fsync=False)
    prepared = first.prepare_commit(1, first.stage(spark.range(1)).names)
    first.commit(1)

    with watched_syncs() as syncs:
        writer_of(spark, sink).restore(prepared)

    assert str(tmp_path / "out") in syncs.paths


def test_no_staged_file_is_synced_if_syncing_is_disabled(spark: SparkSession, tmp_path: Path) -> None:
    files = writer_of(spark, FileSink.parquet(tmp_path / "out"), fsync=False)
    function = ForeachBatchSink(lambda rows, checkpoint_id: None).writer(
        sink_context(spark, f"{tmp_path}/job/staged", fsync=False)
    )
    table = DeltaSink.append(tmp_path / "table")
    delta = table.writer(sink_context(spark, f"{tmp_path}/table/_flykka-staging/job", fsync=False))

    with watched_syncs() as syncs:
        for writer in (files, function, delta):
            prepared = writer.prepare_commit(1, writer.stage(spark.range(10)).names)
            writer.commit(1)

    assert syncs.paths == []
    (state,) = (piece for piece in prepared if isinstance(piece, WriterState))
    assert all(batch.files for batch in state.batches)


def test_the_mark_of_a_complete_folder_is_synced(spark: SparkSession, tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        FileSink.parquet(tmp_path / "out").mark_success().finalize_global(sink_context(spark).filesystem)

    assert syncs.paths == [str(tmp_path / "out" / "_SUCCESS"), str(tmp_path / "out")]


def test_the_rename_of_rows_passed_to_a_function_is_synced(spark: SparkSession, tmp_path: Path) -> None:
    writer = ForeachBatchSink(lambda rows, checkpoint_id: None).writer(sink_context(spark, f"{tmp_path}/job/staged"))
    writer.prepare_commit(1, writer.stage(spark.range(10)).names)

    with watched_syncs() as syncs, watched_renames(syncs):
        writer.commit(1)

    renamed, folder = syncs.paths
    assert renamed == f"renamed to {folder}/0-1.given"


@pytest.mark.parametrize("upserts", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_commit_to_a_delta_table_is_synced_with_its_files(spark: SparkSession, tmp_path: Path, upserts: bool) -> None:
    table = tmp_path / "table"
    sink = DeltaSink.upsert(table, keys=["id"]) if upserts else DeltaSink.append(table)
    writer = sink.writer(sink_context(spark, f"{table}/_flykka-staging/job"))
    writer.prepare_commit(1, writer.stage(spark.range(10).coalesce(1)).names)

    with watched_syncs() as syncs:
        writer.commit(1)

    log = sorted((table / "_delta_log").glob("*.json"))
    (data,) = table.glob("part-*.parquet")
    in_order = [str(data), str(table), str(log[-1]), str(table / "_delta_log")]
    places = [len(syncs.paths) - 1 - syncs.paths[::-1].index(path) for path in in_order]
    assert places == sorted(places)
    assert {str(commit) for commit in log} <= set(syncs.paths)
    staged = [place for place, path in enumerate(syncs.paths) if "_flykka-staging" in path]
    assert upserts or syncs.paths.index(str(table)) < min(staged)


def test_staged_and_published_files_survive_a_power_failure(spark: SparkSession, tmp_path: Path) -> None:
    with Disk(tmp_path).mounted() as disk:
        sink = FileSink.parquet(disk.folder / "out").partition_by("odd")
        writer = writer_of(spark, sink)
        rows = spark.range(1000).selectExpr("id", "id % 2 AS odd").coalesce(1)
        for checkpoint_id in (1, 2):
            prepared = writer.prepare_commit(checkpoint_id, writer.stage(rows).names)
            pending = [piece for piece in prepared if isinstance(piece, PendingFile)]
            with disk.after_power_loss() as survived:
                check(pending, disk.folder, survived, "staged")
            writer.commit(checkpoint_id)
            with disk.after_power_loss() as survived:
                check(pending, disk.folder, survived, "target")


def check(pending: list[PendingFile], disk: Path, survived: Path, attribute: str) -> None:
    """Check that both files have the same content after the power failure as before."""
    assert len(pending) == 2
    for piece in pending:
        path = Path(local(getattr(piece, attribute)))
        assert (survived / path.relative_to(disk)).read_bytes() == path.read_bytes()


def test_a_delta_table_survives_a_power_failure_after_each_commit(spark: SparkSession, tmp_path: Path) -> None:
    with Disk(tmp_path).mounted() as disk:
        table = disk.folder / "table"
        sink = DeltaSink.upsert(table, keys=["id"])
        writer = sink.writer(sink_context(spark, f"{table}/_flykka-staging/job"))
        for checkpoint_id in (1, 2):
            writer.prepare_commit(checkpoint_id, writer.stage(spark.range(10 * checkpoint_id)).names)
            writer.commit(checkpoint_id)
            with disk.after_power_loss() as survived:
                assert len(rows_of_table(survived / "table")) == 10 * checkpoint_id
