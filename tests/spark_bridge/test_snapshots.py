"""Tests snapshots while stages continue, and snapshots that fail, are aborted or are slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from threading import Event

import pytest
from pyspark.sql import DataFrame

from flykka.actors.machines.state.keyed_state import StatePart
from flykka.messages.attempt.answers import (
    ChainOpened,
    CommitPrepared,
    EngineFailed,
    SnapshotWritten,
    StageResult,
    WorkDone,
    WorkFailed,
)
from flykka.messages.attempt.commands import DiscardSnapshot, WriteSnapshot
from flykka.messages.checkpointing.checkpoint import CheckpointOptions, SnapshotType
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend
from tests.spark_bridge.driven_attempts import PATIENCE_SECONDS, DrivenAttempt
from tests.spark_bridge.harness import END, Harness, at_ms, transform, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = [(1, 10, 0.0), (2, 20, 0.5), (1, 30, 1.0), (1, 40, 2.0), (2, 50, 3.0)]


class Line:
    """Windows whose snapshots block before they compute the firing windows, until the test releases them."""

    def __init__(self, harness: Harness) -> None:
        write_rows(harness.input / "0.parquet", ROWS)
        self.harness = harness
        self.may_fire = Event()
        windows = harness.windows()
        self.source = harness.begin(harness.source(LocalAggregateCode(of=windows))).open()
        vertex = harness.vertex("windows", windows, transform(self._wait), harness.sink())
        self.windows = harness.begin(vertex, reads=self.source).open()

    def read(self, watermark_ms: int = WATERMARK_MIN) -> int:
        """Read the file once more, and return the number of its late rows."""
        (run,) = self.windows.run(self._read(), watermark_ms=watermark_ms)
        return run.late_rows

    def pass_barrier(self, checkpoint_id: int, watermark_ms: int, savepoint: str | None = None) -> None:
        """Start to prepare a snapshot, and wait until stages may continue."""
        options = CheckpointOptions(
            snapshot_type=SnapshotType.CHECKPOINT if savepoint is None else SnapshotType.SAVEPOINT,
            target_location=savepoint,
        )
        self.windows.start_prepare(checkpoint_id, watermark_ms, options)

    def write(self, prepared: CommitPrepared, savepoint: str | None = None) -> None:
        checkpoint_id, sinks = prepared.checkpoint_id, prepared.sinks
        self.windows.tell(WriteSnapshot(checkpoint_id=checkpoint_id, savepoint=savepoint, sinks=sinks))

    def restart(self, state: TaskStateSnapshot, *, is_state_lost: bool = False) -> DrivenAttempt:
        """Start the next attempt of the windows from a snapshot, in place of this one."""
        self.windows.close(cancel=True)
        if is_state_lost:
            self.harness.lose_local_state()
        vertex = self.windows.engine.descriptor.vertex
        self.windows = self.harness.begin(vertex, reads=self.source, number=1).open(state)
        return self.windows

    def _read(self) -> StageResult:
        return self.source.read(self.harness.splits(self.source.engine.descriptor.vertex))

    def _wait(self, rows: DataFrame) -> DataFrame:
        assert self.may_fire.wait(PATIENCE_SECONDS)
        return rows


@pytest.fixture
def line(harness: Harness) -> Iterator[Line]:
    created = Line(harness)
    yield created
    created.may_fire.set()


def test_rows_fired_by_a_failed_snapshot_are_in_the_next_one(line: Line) -> None:
    line.read()
    line.pass_barrier(1, at_ms(1))
    line.pass_barrier(2, END)
    in_the_way = line.harness.folder / "checkpoints" / "job" / "shared" / f"{line.windows.engine.descriptor.attempt}-1"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()

    line.may_fire.set()
    prepared = [line.windows.expect(CommitPrepared) for _ in range(2)]
    line.write(prepared[0])
    failed = line.windows.expect(WorkFailed)
    line.write(prepared[1])
    line.windows.expect(SnapshotWritten)
    line.windows.commit(2)

    assert not failed.ends_attempt
    assert line.harness.published().count() == 5


def test_fired_state_may_be_merged_during_a_snapshot(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkStateBackend, "merge_at", 4)
    line.may_fire.set()
    for _ in range(3):
        line.read()
    line.windows.snapshot(1)
    line.windows.commit(1)
    line.may_fire.clear()

    line.pass_barrier(2, at_ms(1) - 1)
    line.read(at_ms(1) - 1)
    line.may_fire.set()
    line.write(line.windows.expect(CommitPrepared))
    line.windows.expect(SnapshotWritten)
    line.windows.commit(2)

    assert {row.n for row in line.harness.published().collect()} == {3}


def test_an_aborted_checkpoints_state_is_not_written_and_its_fired_rows_stay(line: Line) -> None:
    line.read()
    line.pass_barrier(1, at_ms(1))
    line.pass_barrier(2, END)

    line.may_fire.set()
    _, prepared = [line.windows.expect(CommitPrepared) for _ in range(2)]
    line.windows.tell(DiscardSnapshot(checkpoint_id=1))
    line.windows.expect(WorkDone)
    line.write(prepared)
    line.windows.expect(SnapshotWritten)
    line.windows.commit(2)

    assert not (line.harness.folder / "checkpoints").exists()
    assert line.harness.published().count() == 5


def test_rows_that_fire_after_a_barrier_are_counted_as_staged(line: Line) -> None:
    line.read()
    line.may_fire.set()

    snapshots = [line.windows.snapshot(1, at_ms(1)), line.windows.snapshot(2, END)]
    line.windows.commit(2)

    assert sum(snapshot.rows_staged for snapshot in snapshots) == 5
    assert line.harness.published().count() == 5


@pytest.mark.parametrize(
    "is_state_lost", [pytest.param(False, marks=pytest.mark.long), True], ids=["still registered", "lost"]
)
def test_state_merged_after_a_checkpoint_is_restored_once(
    line: Line, is_state_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkStateBackend, "merge_at", 4)
    line.may_fire.set()
    for _ in range(5):
        line.read()
    line.windows.snapshot(1)
    line.windows.commit(1)
    for _ in range(3):
        line.read()
    state = line.windows.snapshot(2).state

    restored = line.restart(state, is_state_lost=is_state_lost)
    restored.snapshot(3, END)
    restored.commit(3)

    assert {row.n for row in line.harness.published().collect()} == {8}


def test_batches_are_merged_while_restored_state_is_still_loading(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    may_read = Event()
    line.may_fire.set()
    line.read()
    state = line.windows.snapshot(1).state

    def load_late(backend: SparkStateBackend, part: StatePart) -> DataFrame:
        assert may_read.wait(PATIENCE_SECONDS)
        return load(backend, part)

    load = SparkStateBackend.load
    monkeypatch.setattr(SparkStateBackend, "load", load_late)
    restored = line.restart(state, is_state_lost=True)
    line.read()
    may_read.set()
    restored.snapshot(2, END)
    restored.commit(2)

    assert {row.n for row in line.harness.published().collect()} == {2}


def test_unreadable_state_fails_the_attempt_and_its_waiters(line: Line) -> None:
    line.may_fire.set()
    line.read()
    state = line.windows.snapshot(1).state
    rmtree(line.harness.folder / "checkpoints")

    restored = line.restart(state, is_state_lost=True)
    failed = restored.expect_failure()

    assert "reading the state of" in failed.cause.message
    restored.close(cancel=True)


@pytest.mark.parametrize("keep", [True, False])
def test_pending_files_of_a_retained_checkpoint_outlive_the_job(line: Line, keep: bool) -> None:
    line.may_fire.set()
    line.read()
    state = line.windows.snapshot(1, END).state

    line.harness.plane.release_job(line.harness.job_id, keep_staged=keep)
    line.harness.job_id = JobId("next job")
    again = line.harness.begin(line.windows.engine.descriptor.vertex, number=1)
    again.start_open(state)
    answer = again.next()

    if keep:
        assert isinstance(answer, ChainOpened)
        assert line.harness.published().count() == 5
    else:
        assert isinstance(answer, WorkFailed | EngineFailed)
        assert answer.cause.type_name == "StagedFileError"


def test_lateness_does_not_depend_on_a_restart(line: Line) -> None:
    line.may_fire.set()
    closed = at_ms(2) - 1
    state = line.windows.snapshot(1, closed).state
    before = line.read(closed)

    line.restart(state)
    after = line.read()

    assert (before, after) == (3, 3)


def test_ended_event_time_restarts_in_a_successor_job(line: Line) -> None:
    line.may_fire.set()
    line.read()
    drained = line.windows.snapshot(1, END).state

    line.restart(drained)
    late_rows = line.read()
    line.windows.snapshot(2, END)
    line.windows.commit(2)

    assert late_rows == 0
    assert line.harness.published().count() == 10


@pytest.mark.parametrize("written_by_others", [True, False])
def test_a_subtask_leaves_no_file_in_a_savepoint_if_its_state_fails(
    line: Line, tmp_path: Path, written_by_others: bool
) -> None:
    savepoint = tmp_path / "savepoint-1"
    line.may_fire.set()
    line.read()
    # Creating the state's folder fails here, after the sink's staged files have been copied.
    attempt = line.windows.engine.descriptor.attempt
    savepoint.mkdir()
    (savepoint / f"{attempt}-1").touch()
    if written_by_others:
        (savepoint / "another-1").mkdir()

    line.pass_barrier(1, at_ms(1), str(savepoint))
    line.write(line.windows.expect(CommitPrepared), str(savepoint))
    failed = line.windows.expect(WorkFailed)

    assert not failed.ends_attempt
    assert [path.name for path in savepoint.glob("*")] == (["another-1"] if written_by_others else [])
    assert savepoint.exists() is written_by_others
