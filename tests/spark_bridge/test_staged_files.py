"""Tests that changed staged files are not published and fail the job at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import flykka.state
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.machines.state.operator_state import list_state
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, TaskStateEntry
from flykka.messages.state.handles import (
    COMMITTABLES,
    OperatorSubtaskState,
    PendingFile,
    StagedBatch,
    TaskStateSnapshot,
    WriterState,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.foreach_batch import ForeachBatchSink
from flykka.spark_bridge.diagnosis.failures import serialized
from flykka.spark_bridge.errors import OperatorFailedError, StagedFileError
from flykka.spark_bridge.program.sink import Sink
from flykka.spark_bridge.program.sink_writer import SinkWriter
from flykka.spark_bridge.state.savepoint import into_savepoint
from tests.spark_bridge.connectors.delta.attempts import rows_of_table
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Damage = Callable[[Path], object]


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


class Target:
    def __init__(self, spark: SparkSession, folder: Path, kind: str) -> None:
        self.spark = spark
        self.output = folder / "out"
        self.checkpoints = folder / "checkpoints"
        self.calls: list[int] = []
        sinks: dict[str, Callable[[], Sink]] = {
            "files": lambda: FileSink.parquet(self.output),
            "compacted files": lambda: FileSink.parquet(self.output).files_per_checkpoint(2),
            "function": lambda: ForeachBatchSink(lambda rows, checkpoint_id: self.calls.append(checkpoint_id)),
            "delta": lambda: DeltaSink.append(self.output),
            "delta upsert": lambda: DeltaSink.upsert(self.output, keys=["id"]),
        }
        self.sink = sinks[kind]().bound(spark)

    def writer(self, attempt: int = 0) -> SinkWriter[DataFrame]:
        staging = f"{self.checkpoints}/job/staged"
        if isinstance(self.sink, FileSink | DeltaSink):
            staging = f"{self.output}/.staging/job"
        return self.sink.writer(sink_context(self.spark, staging, attempt_number=attempt, subtask=0, parallelism=1))

    def prepare(self, writer: SinkWriter[DataFrame], checkpoint_id: int = 1) -> Sequence[Value]:
        rows = self.spark.range(0, 100, 1, 2).toDF("id")
        return writer.prepare_commit(checkpoint_id, writer.stage(rows).names)

    def staged(self) -> list[Path]:
        files = [*self.output.rglob("*.parquet"), *self.checkpoints.rglob("*.parquet")]
        return sorted(file for file in files if (file.is_file() and "staged" in str(file)) or ".staging" in str(file))

    def published(self) -> list[object]:
        if isinstance(self.sink, DeltaSink):
            return [*rows_of_table(self.output)]
        return [*self.calls, *self.output.glob("part-*")]


KINDS = ["files", "compacted files", "function", "delta", "delta upsert"]
QUICK = ("files", "function", "delta")
"""The sinks for quick runs; the other sinks stage their files like one of these sinks."""
EACH_KIND = [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.long) for kind in KINDS]


def failure(call: Callable[[], object]) -> BaseException:
    """Return the StagedFileError that a call raises, directly or as a cause."""
    with pytest.raises((StagedFileError, OperatorFailedError)) as raised:
        call()
    error = raised.value if isinstance(raised.value, StagedFileError) else raised.value.__cause__
    assert isinstance(error, StagedFileError)
    assert serialized("sink", raised.value).suppress_restarts
    return error


def cases(values: Sequence[object]) -> list[Any]:
    """Parametrise the first value with several types of sinks, and the others with the file sink. All but a few cases
    are for long runs.
    """
    is_quick = {(kind, values[0]) for kind in QUICK} | {("files", value) for value in values}
    return [
        pytest.param(kind, value, marks=() if (kind, value) in is_quick else pytest.mark.long)
        for value in values
        for kind in KINDS
    ]


@pytest.mark.parametrize(("kind", "damage"), cases([cut_in_half, empty]))
def test_a_damaged_file_is_detected_by_its_size_before_a_commit(
    spark: SparkSession, tmp_path: Path, kind: str, damage: Damage
) -> None:
    target = Target(spark, tmp_path, kind)
    writer = target.writer()
    target.prepare(writer)
    file = target.staged()[-1]
    size = file.stat().st_size
    damage(file)

    raised = failure(lambda: writer.commit(1))

    assert f"{file} is damaged: {size} bytes were staged, but it has {file.stat().st_size}" in str(raised)
    assert target.published() == []


@pytest.mark.parametrize(("kind", "damage"), cases([flip_a_byte, empty, cut_in_half]))
def test_a_damaged_file_is_detected_after_a_restore(
    spark: SparkSession, tmp_path: Path, kind: str, damage: Damage
) -> None:
    target = Target(spark, tmp_path, kind)
    prepared = target.prepare(target.writer())
    file = target.staged()[-1]
    damage(file)

    raised = failure(lambda: target.writer(attempt=1).restore(prepared))

    assert f"{file} is damaged" in str(raised)
    assert target.published() == []
    assert file.exists()


@pytest.mark.parametrize(("kind", "restores"), cases([True, False]))
def test_a_missing_file_in_an_existing_folder_is_an_error(
    spark: SparkSession, tmp_path: Path, kind: str, restores: bool
) -> None:
    target = Target(spark, tmp_path, kind)
    writer = target.writer()
    prepared = target.prepare(writer)
    file = target.staged()[-1]
    file.unlink()

    raised = failure(lambda: target.writer(attempt=1).restore(prepared) if restores else writer.commit(1))

    assert str(file) in str(raised)
    assert "is missing" in str(raised)
    assert target.published() == []


@pytest.mark.parametrize("kind", EACH_KIND)
def test_verify_names_each_damaged_staged_file_until_it_is_published(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    target = Target(spark, tmp_path, kind)
    writer = target.writer()
    checkpoint = checkpoint_of(tmp_path / "kept", target.prepare(writer))
    files = target.staged()
    assert flykka.state.verify(checkpoint).damages == ()
    assert flykka.state.verify(checkpoint).staged_files == len(files) == 2
    for file in files:
        whole = file.read_bytes()
        for damage in (empty, cut_in_half, flip_a_byte, Path.unlink):
            damage(file)
            [found] = flykka.state.verify(checkpoint).damages
            assert found.startswith(f"{file} ")
            file.write_bytes(whole)

    writer.commit(1)

    assert target.published() != []
    assert flykka.state.verify(checkpoint).damages == ()


def checkpoint_of(folder: Path, prepared: Sequence[Value]) -> str:
    state = OperatorSubtaskState(operator_id=OperatorId("sink"), operator_state=(list_state(COMMITTABLES, prepared),))
    entry = TaskStateEntry(
        vertex_id=JobVertexId("v"),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        state=TaskStateSnapshot(operators=(state,)),
    )
    taken = CompletedCheckpoint(
        job_id=JobId("job"), checkpoint_id=1, timestamp_ms=0, duration_ms=1, task_states=(entry,)
    )
    return CheckpointStorage(str(folder)).write_metadata(taken)


def test_a_missing_batch_of_a_function_is_not_treated_as_delivered(spark: SparkSession, tmp_path: Path) -> None:
    target = Target(spark, tmp_path, "function")
    writer = target.writer()
    target.prepare(writer)
    (folder,) = {file.parent for file in target.staged()}
    folder.rename(folder.with_name("elsewhere"))

    raised = failure(lambda: writer.commit(1))

    assert "is missing: its rows would be lost" in str(raised)
    assert target.published() == []


@pytest.mark.parametrize("kind", ["files", "function"])
def test_a_file_changed_before_its_barrier_fails_the_checkpoint(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    target = Target(spark, tmp_path, kind)
    writer = target.writer()
    names = writer.stage(spark.range(10).coalesce(1)).names
    (file,) = target.staged()
    cut_in_half(file)

    raised = failure(lambda: writer.prepare_commit(1, names))

    assert f"{file} is damaged" in str(raised)


@pytest.mark.parametrize("kind", EACH_KIND)
def test_a_checkpoint_of_an_older_version_is_published_with_one_log_line(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    target = Target(spark, tmp_path, kind)
    prepared = target.prepare(target.writer())

    with caplog.at_level(logging.INFO, "flykka.spark_bridge"):
        target.writer(attempt=1).restore([without_digests(piece) for piece in prepared])

    assert target.published() != []
    assert caplog.text.count("was written by an older version, without digests of staged files") == 1


def without_digests(piece: Value) -> Value:
    match piece:
        case PendingFile():
            return replace(piece, digest=None)
        case StagedBatch():
            return replace(piece, files=())
        case WriterState():
            return replace(piece, batches=tuple(replace(batch, files=()) for batch in piece.batches))
        case _:
            return piece


@pytest.mark.parametrize("kind", EACH_KIND)
def test_damage_in_a_savepoint_is_detected_by_a_job_starting_from_it(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    target = Target(spark, tmp_path, kind)
    writer = target.writer()
    savepoint = tmp_path / "savepoint"
    context = sink_context(spark)
    kept = into_savepoint(context.filesystem, target.prepare(writer), f"file:{savepoint}")
    *_, copy = sorted(file for file in savepoint.rglob("*.parquet") if not file.name.startswith("."))
    flip_a_byte(copy)
    copy.with_name(f".{copy.name}.crc").unlink()

    raised = failure(lambda: target.writer(attempt=1).restore(kept))

    assert "is damaged" in str(raised)
    assert target.published() == []
