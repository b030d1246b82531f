"""The coordinator logs failed checkpoints, each with its cause, and counts equal failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointMetrics, DeclineCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    CoordinatedTaskStateChanged,
    StartCheckpointScheduler,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.checkpoint_coordinator.test_master_hooks import Hook
from tests.actors.coordinator_cluster import JOB, CoordinatorCluster
from tests.actors.machines.checkpoint.coordinating import acknowledgement


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def decline(cluster: CoordinatorCluster, checkpoint_id: int) -> None:
    cause = SerializedThrowable(type_name="DiskFullError", message=f"snapshot {checkpoint_id}: No space left on device")
    cluster.send(
        DeclineCheckpoint(
            job_id=JOB,
            attempt=ExecutionAttemptId("b"),
            checkpoint_id=checkpoint_id,
            reason=CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION,
            cause=cause,
        )
    )


def test_three_invalid_acknowledgements_do_not_fail_the_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SeededSystem(11, serialize_messages=False) as system:
        cluster = CoordinatorCluster(system, tmp_path)
        cluster.deploy("a", "b")
        cluster.send(StartCheckpointScheduler(job_id=JOB))
        for checkpoint_id in (1, 2, 3):
            system.advance(1_000)
            wrong = CheckpointMetrics(size_bytes="many")  # type: ignore[arg-type]
            cluster.send(acknowledgement("a", checkpoint_id, metrics=wrong))
        system.advance(1_000)
        cluster.complete(4, "a", "b")

    assert [aborted.checkpoint_id for aborted in cluster.received(CheckpointAborted)] == [1, 2, 3]
    assert [completed.checkpoint_id for completed in cluster.received(CheckpointCompleted)] == [4]
    assert cluster.received(CheckpointFailuresExceeded) == []
    assert "job job: AcknowledgeCheckpoint could not be handled, so that checkpoint 1 fails" in lines(caplog)


def test_a_failing_hook_is_logged_with_its_exception(
    system: SeededSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = CoordinatorCluster(
        system, tmp_path, hooks=(Hook("hook", OSError("no route to host")),), tolerable_failures=9
    )
    cluster.deploy("a", "b")
    cluster.send(StartCheckpointScheduler(job_id=JOB))

    system.advance(2_000)

    first, second = cluster.received(CheckpointAborted)
    assert first.reason is CheckpointDeclineReason.IO_EXCEPTION
    assert second.failure is not None
    assert second.failure.times == 2
    text = "IO_EXCEPTION: MasterHookError: the master hook 'hook' failed for checkpoint 1: OSError: no route to host"
    assert f"job job: checkpoint 1 failed: {text}" in lines(caplog)


def test_equal_failures_are_logged_with_their_count(
    system: SeededSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = CoordinatorCluster(system, tmp_path, tolerable_failures=99)
    cluster.deploy("a", "b")
    cluster.send(StartCheckpointScheduler(job_id=JOB))

    for checkpoint_id in range(1, 13):
        system.advance(1_000)
        decline(cluster, checkpoint_id)

    failed = [line for line in lines(caplog) if " failed: " in line]
    assert failed[0] == (
        "job job: checkpoint 1 failed: CHECKPOINT_ASYNC_EXCEPTION at v (2/2) on task-manager: DiskFullError:"
        " snapshot 1: No space left on device"
    )
    assert [line.partition("(the same ")[2].partition(" times")[0] for line in failed] == ["", "2", "5", "10"]


def test_a_task_that_prevents_checkpoints_is_logged_once(
    system: SeededSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cluster = CoordinatorCluster(system, tmp_path)
    cluster.deploy("a", "b")
    deploying = ExecutionState.DEPLOYING
    cluster.send(CoordinatedTaskStateChanged(job_id=JOB, attempt=ExecutionAttemptId("b"), state=deploying))
    cluster.send(StartCheckpointScheduler(job_id=JOB))

    system.advance(4_500)

    blocked = [line for line in lines(caplog) if "no checkpoint begins" in line]
    assert blocked[0] == "job job: no checkpoint begins: v (2/2) on task-manager is DEPLOYING"
    assert blocked[1:] == [f"{blocked[0]} (the same 2 times)"]


def test_a_late_acknowledgement_is_logged_with_its_task(
    system: SeededSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cluster = CoordinatorCluster(system, tmp_path, tolerable_failures=9)
    cluster.deploy("a", "b")
    cluster.send(StartCheckpointScheduler(job_id=JOB))
    system.advance(1_000)
    decline(cluster, 1)

    cluster.complete(1, "a")

    assert "job job: checkpoint 1 had ended when v (1/2) on task-manager acknowledged it" in lines(caplog)
