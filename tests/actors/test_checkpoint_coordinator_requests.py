"""Savepoints, master hooks and storage failures: the coordinator's replies and log messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

import pytest

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CompletedCheckpoint,
    DeclineCheckpoint,
    MasterState,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointingStopped,
    FinalCheckpointRequest,
    RequestRestoreState,
    RestoreState,
    RestoreStateFailed,
    SavepointCompleted,
    SavepointFailed,
    SavepointRequest,
    StopCheckpointFailed,
    StopCheckpointing,
    StopCheckpointRequest,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.coordinator_cluster import JOB, CoordinatorCluster


class Counter(MasterTriggerRestoreHook):
    identifier = "counter"

    def __init__(self) -> None:
        self.count = 0
        self.fails = False
        self.closed = False

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> bytes | None:
        if self.fails:
            raise RuntimeError("no more")
        self.count += 1
        return str(self.count).encode()

    def restore_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        self.count = int(state or b"0")

    def reset(self) -> None:
        if self.fails:
            raise RuntimeError("no way back")
        self.count = 0

    def close(self) -> None:
        self.closed = True


class FullStorage(CheckpointStorage):
    def __init__(self, directory: str, *, writes: bool) -> None:
        super().__init__(directory)
        self._writes = writes

    def write_metadata(self, checkpoint: CompletedCheckpoint, target_location: str | None = None) -> str:
        if not self._writes:
            raise OSError("disk full")
        return super().write_metadata(checkpoint, target_location)

    def dispose(self, checkpoints: Iterable[str], state: Iterable[str]) -> None:
        raise OSError("read-only file system")


def request_savepoint(cluster: CoordinatorCluster, folder: Path, request_id: str = "wish") -> None:
    cluster.send(SavepointRequest(job_id=JOB, request_id=request_id, target_location=str(folder)))


def decline(cluster: CoordinatorCluster, attempt: str, checkpoint_id: int) -> None:
    refusal = DeclineCheckpoint(job_id=JOB, attempt=ExecutionAttemptId(attempt), checkpoint_id=checkpoint_id)
    cluster.send(refusal)


def test_a_savepoint_is_written_to_the_requested_folder_and_retained(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path / "checkpoints")
    cluster.deploy("a")
    folder = tmp_path / "savepoint-1"

    request_savepoint(cluster, folder)
    cluster.complete(1, "a")
    cluster.send(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    assert cluster.received(SavepointCompleted) == [
        SavepointCompleted(job_id=JOB, request_id="wish", checkpoint_id=1, path=str(folder))
    ]
    assert cluster.storage.read_metadata(str(folder)).job_name == "job"
    assert cluster.received(CheckpointingStopped) == [CheckpointingStopped(job_id=JOB)]


def test_a_savepoint_that_a_task_declines_leaves_no_files(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path / "checkpoints", tolerable_failures=1)
    cluster.deploy("a", "b")
    folder = tmp_path / "savepoint-1"
    folder.mkdir()

    request_savepoint(cluster, folder)
    decline(cluster, "b", 1)

    reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
    assert cluster.received(SavepointFailed) == [SavepointFailed(job_id=JOB, request_id="wish", reason=reason)]
    assert not folder.exists()


def test_a_savepoint_request_is_answered_if_there_are_no_tasks(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path)

    request_savepoint(cluster, tmp_path / "savepoint-1")

    [failed] = cluster.received(SavepointFailed)
    assert failed.reason is CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_a_job_is_drained_with_a_savepoint(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path / "checkpoints")
    cluster.deploy("a")
    folder = str(tmp_path / "savepoint-1")

    cluster.send(StopCheckpointRequest(job_id=JOB, target_location=folder, drain=True, request_id="stop"))
    [trigger] = [message for message in cluster.task_messages() if isinstance(message, TriggerCheckpoint)]
    cluster.complete(1, "a")

    assert (trigger.options.is_final, trigger.options.drain, trigger.options.target_location) == (True, True, folder)
    assert [done.path for done in cluster.received(SavepointCompleted)] == [folder]


def test_a_stop_that_is_too_late_for_a_savepoint_is_refused(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path)
    cluster.deploy("a")
    cluster.send(FinalCheckpointRequest(job_id=JOB))

    cluster.send(StopCheckpointRequest(job_id=JOB, target_location="savepoint-1", request_id="stop"))

    [failed] = cluster.received(StopCheckpointFailed)
    assert failed.cause is not None
    assert failed.cause.message == "the input is at its end, and the job already ends with checkpoint 1"


def test_hooks_run_before_the_tasks_and_get_their_state_restored(system: SeededSystem, tmp_path: Path) -> None:
    counter = Counter()
    cluster = CoordinatorCluster(system, tmp_path, hooks=(counter,))
    cluster.deploy("a")
    request_savepoint(cluster, tmp_path / "savepoint-1")
    cluster.complete(1, "a")

    counter.count = 99
    path = str(tmp_path / "savepoint-1")
    cluster.send(RequestRestoreState(job_id=JOB, version=3, path=path))

    assert cluster.storage.read_metadata(path).master_states == (MasterState(identifier="counter", data=b"1"),)
    assert [restored.version for restored in cluster.received(RestoreState)] == [3]
    assert counter.count == 1


def test_a_raising_hook_aborts_a_checkpoint_and_prevents_a_restore(system: SeededSystem, tmp_path: Path) -> None:
    counter = Counter()
    counter.fails = True
    cluster = CoordinatorCluster(system, tmp_path, hooks=(counter,))
    cluster.deploy("a")

    request_savepoint(cluster, tmp_path / "savepoint-1")
    cluster.send(RequestRestoreState(job_id=JOB, version=3))

    [failed] = cluster.received(SavepointFailed)
    assert failed.reason is CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
    assert failed.cause is not None
    assert "the master hook 'counter' failed for checkpoint 1" in failed.cause.message
    [refused] = cluster.received(RestoreStateFailed)
    assert (refused.version, refused.cause.type_name) == (3, "MasterHookError")
    assert cluster.task_messages() == []


def test_hooks_are_closed_with_the_job(system: SeededSystem, tmp_path: Path) -> None:
    counter = Counter()
    cluster = CoordinatorCluster(system, tmp_path, hooks=(counter,))

    cluster.send(StopCheckpointing(job_id=JOB, job_status=JobStatus.CANCELED))

    assert counter.closed


def test_unwritable_metadata_aborts_the_checkpoint(system: SeededSystem, tmp_path: Path) -> None:
    storage = FullStorage(str(tmp_path), writes=False)
    cluster = CoordinatorCluster(system, tmp_path, storage=storage, tolerable_failures=1)
    cluster.deploy("a")

    request_savepoint(cluster, tmp_path / "savepoint-1")
    cluster.complete(1, "a")

    [aborted] = cluster.received(CheckpointAborted)
    [failed] = cluster.received(SavepointFailed)
    assert aborted.reason is failed.reason is CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE
    assert failed.cause is not None
    assert (failed.cause.type_name, failed.cause.message) == ("OSError", "disk full")


def test_a_failed_deletion_is_reported_and_blocks_no_other_work(
    system: SeededSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = FullStorage(str(tmp_path), writes=True)
    cluster = CoordinatorCluster(system, tmp_path, storage=storage, tolerable_failures=9)
    cluster.deploy("a")

    with caplog.at_level(logging.WARNING):
        for number in (1, 2, 3):
            request_savepoint(cluster, tmp_path / f"savepoint-{number}")
            decline(cluster, "a", number)
    request_savepoint(cluster, tmp_path / "savepoint-4")
    cluster.complete(4, "a")

    assert "files of job job may not have been deleted: read-only file system" in caplog.text
    assert [done.checkpoint_id for done in cluster.received(CheckpointCompleted)] == [4]
