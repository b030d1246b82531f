"""The coordinator and its durable stores: late replies, unreachable stores, and fenced coordinators."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.errors import StoreUnavailableError
from flykka.actors.machines.checkpoint.id_counter import DRAWN_AT_ONCE
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointingStopped,
    RequestRestoreState,
    RestoreState,
    RestoreStateFailed,
    SavepointFailed,
    SavepointRequest,
    StartCheckpointScheduler,
    StopCheckpointFailed,
    StopCheckpointing,
    StopCheckpointRequest,
)
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus
from flykka.messages.wire.message import Message
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.coordinator_cluster import JOB, CoordinatorCluster
from tests.actors.leading import new_checkpoints

INTERVAL_MS = 1_000


@pytest.fixture
def checkpoints() -> CheckpointPointers:
    return new_checkpoints(JOB)


def scheduled_coordinator(system: SeededSystem, folder: Path, checkpoints: CheckpointPointers) -> CoordinatorCluster:
    cluster = CoordinatorCluster(system, folder, checkpoints=checkpoints)
    cluster.deploy("a")
    cluster.send(StartCheckpointScheduler(job_id=JOB))
    return cluster


def take(cluster: CoordinatorCluster, system: SeededSystem) -> int:
    system.advance(INTERVAL_MS)
    [trigger] = [message for message in cluster.task_messages() if isinstance(message, TriggerCheckpoint)]
    cluster.complete(trigger.checkpoint_id, "a", shared=f"state {trigger.checkpoint_id}")
    return trigger.checkpoint_id


def end_notifications(cluster: CoordinatorCluster) -> list[Message]:
    return [
        said for said in cluster.task_messages() if isinstance(said, NotifyCheckpointComplete | NotifyCheckpointAborted)
    ]


class Unreliable:
    """The store of a job's checkpoints, which is unreachable while `away` is True."""

    def __init__(self, checkpoints: CheckpointPointers) -> None:
        self._checkpoints = checkpoints
        self.away: set[str] = set()
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        def call(*arguments: object, **others: object) -> object:
            self.calls.append(name)
            if name in self.away:
                raise StoreUnavailableError("the store cannot be reached")
            return getattr(self._checkpoints, name)(*arguments, **others)

        return call


@pytest.fixture
def unreliable(checkpoints: CheckpointPointers) -> Unreliable:
    return Unreliable(checkpoints)


def test_the_store_contains_completed_but_no_subsumed_checkpoints(
    system: SeededSystem, tmp_path: Path, checkpoints: CheckpointPointers
) -> None:
    cluster = scheduled_coordinator(system, tmp_path, checkpoints)

    taken = [take(cluster, system) for _ in range(3)]

    path = str(tmp_path / "job" / "chk-3")
    assert taken == [1, 2, 3]
    assert checkpoints.recover("next", 1).completed == (CheckpointPointer(checkpoint_id=3, path=path),)


def test_checkpoint_ids_are_drawn_in_batches(system: SeededSystem, tmp_path: Path, unreliable: Unreliable) -> None:
    # `Unreliable` behaves like the store that it replaces.
    cluster = scheduled_coordinator(system, tmp_path, unreliable)  # type: ignore[arg-type]

    taken = [take(cluster, system) for _ in range(3 * DRAWN_AT_ONCE)]

    assert taken == list(range(1, 3 * DRAWN_AT_ONCE + 1))
    assert unreliable.calls.count("draw_ids") == 3


def test_another_coordinator_resumes_with_the_completed_checkpoints(
    system: SeededSystem, tmp_path: Path, checkpoints: CheckpointPointers
) -> None:
    take(scheduled_coordinator(system, tmp_path, checkpoints), system)

    with SeededSystem(12) as other:
        cluster = scheduled_coordinator(other, tmp_path, checkpoints)
        cluster.send(RequestRestoreState(job_id=JOB, version=1, path="/never/looked/at"))
        cluster.deploy("a")
        [restore] = cluster.received(RestoreState)
        next_id = take(cluster, other)

    assert restore.checkpoint is not None
    assert (restore.version, restore.checkpoint.checkpoint_id, next_id) == (1, 1, DRAWN_AT_ONCE + 1)
    assert not (tmp_path / "job" / "shared" / "state 1").exists()


def test_a_replaced_coordinator_completes_reports_and_deletes_nothing(
    system: SeededSystem, tmp_path: Path, checkpoints: CheckpointPointers
) -> None:
    cluster = scheduled_coordinator(system, tmp_path, checkpoints)
    take(cluster, system)
    cluster.task_messages()
    checkpoints.recover("another coordinator", 1)
    before = cluster.files()

    take(cluster, system)
    cluster.send(StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED))

    assert end_notifications(cluster) == []
    assert len(cluster.received(CheckpointCompleted)) == 1
    assert cluster.received(CheckpointAborted) == []
    assert len(cluster.received(CheckpointingStopped)) == 1
    assert set(before) <= set(cluster.files())
    assert [each.checkpoint_id for each in checkpoints.recover("next", 1).completed] == [1]


def test_a_checkpoint_refused_by_the_store_is_aborted_and_its_metadata_deleted(
    system: SeededSystem, tmp_path: Path, unreliable: Unreliable
) -> None:
    cluster = scheduled_coordinator(system, tmp_path, unreliable)  # type: ignore[arg-type]
    unreliable.away = {"add"}

    take(cluster, system)
    given_up = cluster.received(CheckpointAborted)
    left = [file for file in cluster.files() if "_metadata" in file]
    unreliable.away = set()
    taken = take(cluster, system)

    assert [aborted.checkpoint_id for aborted in given_up] == [1]
    assert left == []
    assert [completed.checkpoint_id for completed in cluster.received(CheckpointCompleted)] == [taken] == [2]


def test_checkpoint_ids_are_drawn_again_when_the_store_is_available(
    system: SeededSystem, tmp_path: Path, unreliable: Unreliable
) -> None:
    cluster = scheduled_coordinator(system, tmp_path, unreliable)  # type: ignore[arg-type]
    unreliable.away = {"draw_ids"}
    taken = [take(cluster, system) for _ in range(DRAWN_AT_ONCE)]

    system.advance(5 * INTERVAL_MS)
    meanwhile = [message for message in cluster.task_messages() if isinstance(message, TriggerCheckpoint)]
    unreliable.away = set()
    taken.append(take(cluster, system))

    assert meanwhile == []
    assert taken == list(range(1, DRAWN_AT_ONCE + 2))


def test_a_savepoint_request_fails_at_once_if_no_id_can_be_drawn(
    system: SeededSystem, tmp_path: Path, unreliable: Unreliable
) -> None:
    cluster = CoordinatorCluster(system, tmp_path, checkpoints=unreliable)  # type: ignore[arg-type]
    cluster.deploy("a")
    unreliable.away = {"draw_ids"}
    for number in range(DRAWN_AT_ONCE):
        cluster.send(SavepointRequest(job_id=JOB, request_id=f"{number}", target_location=str(tmp_path / f"{number}")))
        cluster.complete(number + 1, "a")

    cluster.send(SavepointRequest(job_id=JOB, request_id="one more", target_location=str(tmp_path / "one")))
    cluster.send(StopCheckpointRequest(job_id=JOB, request_id="stop"))

    [failed] = cluster.received(SavepointFailed)
    [refused] = cluster.received(StopCheckpointFailed)
    assert failed.cause is not None
    assert refused.cause is not None
    assert (failed.request_id, failed.reason) == ("one more", CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE)
    assert failed.cause.message == "its id could not be drawn: the store cannot be reached"
    assert refused.cause.message == "its id could not be drawn, 2 times in a row: the store cannot be reached"


def test_a_job_starts_when_the_store_is_reachable_again(
    system: SeededSystem, tmp_path: Path, unreliable: Unreliable
) -> None:
    unreliable.away = {"recover"}
    cluster = CoordinatorCluster(system, tmp_path, checkpoints=unreliable)  # type: ignore[arg-type]
    cluster.send(RequestRestoreState(job_id=JOB, version=0))
    system.advance(5 * INTERVAL_MS)
    meanwhile = [*cluster.heard]

    unreliable.away = set()
    system.advance(INTERVAL_MS)

    assert meanwhile == []
    assert cluster.received(RestoreState) == [RestoreState(job_id=JOB, version=0, checkpoint=None)]


def test_a_job_whose_checkpoint_is_missing_does_not_start(
    system: SeededSystem, tmp_path: Path, checkpoints: CheckpointPointers
) -> None:
    take(scheduled_coordinator(system, tmp_path, checkpoints), system)
    (tmp_path / "job" / "chk-1" / "_metadata").unlink()

    with SeededSystem(12) as other:
        cluster = CoordinatorCluster(other, tmp_path, checkpoints=checkpoints)
        cluster.send(RequestRestoreState(job_id=JOB, version=0))
        [failed] = cluster.received(RestoreStateFailed)
        cluster.send(StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED))

    assert failed.cause.type_name == "CheckpointFileNotFoundError"
    assert failed.cause.message.endswith("job/chk-1/_metadata: there is no such file")
    assert "job/shared/state 1" in cluster.files()
