"""A whole cluster with savepoints and failing TaskManagers: no row is lost or duplicated, and no savepoint is
incomplete.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import CheckpointFailuresExceeded, MetadataWritten
from flykka.messages.control.job import (
    JobRestored,
    JobResultSuccess,
    JobStatus,
    StoppingFailure,
    StoppingSuccess,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.whole_cluster import ALL_FILES, FILES, WholeCluster, is_a, seeds


def whole(savepoints: Path) -> list[str]:
    """Return the savepoints below a directory; assert that all are complete."""
    folders = sorted(str(folder) for folder in savepoints.iterdir()) if savepoints.exists() else []
    return [CheckpointStorage(folder).read_metadata(folder).path for folder in folders]


@pytest.mark.parametrize("after_ms", [300, 990, 1_010, 1_200])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_stopped_with_a_savepoint_resumes_from_its_new_folder(after_ms: int, seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints")
        stage.submit("first")
        system.advance(after_ms)
        stage.stop("first", tmp_path / "savepoints")
        system.advance(50)

        stopped = Path(stage.client.expect(StoppingSuccess).checkpoint_path)
        published = stage.data_plane.sink.published
        stopped.rename(tmp_path / "moved")
        stage.submit("second", restore_path=str(tmp_path / "moved"))
        stage.run(seconds=5)

        assert len(published) < FILES
        assert [success.job_id for success in stage.client.received(JobResultSuccess)] == ["first", "second"]
        assert stage.data_plane.sink.published == ALL_FILES
        assert [path.name for path in (tmp_path / "moved").iterdir()] == ["_metadata"]


@pytest.mark.parametrize("moment", [TriggerCheckpoint, AcknowledgeCheckpoint, NotifyCheckpointComplete])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_task_manager_lost_during_a_stop_leaves_no_partial_savepoint(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints")
        stage.submit()
        system.advance(300)
        kill = kill_when(system, "/user/task-manager-1", is_a(moment))
        stage.stop(savepoints=tmp_path / "savepoints")

        stage.run(seconds=10)

        kept = whole(tmp_path / "savepoints")
        why = stage.client.expect(StoppingFailure).cause.message
        assert kill.done
        assert why.startswith("it became FAILING meanwhile")
        assert len(kept) == (1 if moment is NotifyCheckpointComplete else 0)
        assert all(f"A savepoint has been created at {path}: it is consistent" in why for path in kept)
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("moment", [TriggerCheckpoint, AcknowledgeCheckpoint])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_job_whose_final_savepoint_is_declined_continues_without_a_restart(
    moment: type[Message], seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints")
        stage.submit()
        system.advance(300)
        disk_full = SerializedThrowable(type_name="StorageError", message="no space is left")

        def decline(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
            if isinstance(message, TriggerCheckpoint | AcknowledgeCheckpoint) and isinstance(message, moment):
                remove()
                job_master = system.find("/user/job-manager/job-job")
                assert job_master is not None
                attempt, checkpoint_id = message.attempt, message.checkpoint_id
                declined = DeclineCheckpoint(
                    job_id=JobId("job"), attempt=attempt, checkpoint_id=checkpoint_id, cause=disk_full
                )
                job_master.tell(declined)

        remove = system.add_delivery_hook(decline)
        stage.stop(savepoints=tmp_path / "savepoints")
        stage.run(seconds=10)

        assert stage.client.expect(StoppingFailure).cause.message == (
            "its last savepoint 1 failed with CHECKPOINT_DECLINED: StorageError: no space is left; the job continues"
        )
        assert whole(tmp_path / "savepoints") == []
        assert stage.statuses() == [JobStatus.RUNNING, JobStatus.FINISHED]
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("seed", seeds(3))
def test_a_savepoint_completed_while_its_job_fails_is_restored_by_the_restart(seed: int, tmp_path: Path) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints")
        stage.submit()
        system.advance(300)
        failure = CheckpointFailuresExceeded(
            job_id=JobId("job"), cause=SerializedThrowable(type_name="TestError", message="another task has failed")
        )

        def fail_job(_recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
            if isinstance(message, MetadataWritten):
                remove()
                job_master = system.find("/user/job-manager/job-job")
                assert job_master is not None
                job_master.tell(failure)

        remove = system.add_delivery_hook(fail_job)
        stage.stop(savepoints=tmp_path / "savepoints")
        stage.run(seconds=10)

        [kept] = whole(tmp_path / "savepoints")
        assert f"A savepoint has been created at {kept}" in stage.client.expect(StoppingFailure).cause.message
        assert [restored.checkpoint_id for restored in stage.client.received(JobRestored)] == [1]
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES


@pytest.mark.parametrize("moment", [None, TriggerCheckpoint, AcknowledgeCheckpoint])
@pytest.mark.parametrize("seed", seeds(3))
def test_savepoints_of_a_running_job_are_complete_or_absent(
    moment: type[Message] | None, seed: int, tmp_path: Path
) -> None:
    with SeededSystem(seed) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints")
        stage.submit()
        system.advance(300)
        if moment is not None:
            kill_when(system, "/user/task-manager-1", is_a(moment))
        for _ in range(4):
            stage.trigger_savepoint(tmp_path / "savepoints")
            system.advance(270)

        stage.run(seconds=10)

        taken = [success.savepoint_path for success in stage.client.received(TriggerSavepointSuccess)]
        refused = stage.client.received(TriggerSavepointFailure)
        assert len(taken) + len(refused) == 4
        assert bool(refused) == (moment is not None)
        assert whole(tmp_path / "savepoints") == sorted(taken)
        assert stage.statuses()[-1] is JobStatus.FINISHED
        assert stage.data_plane.sink.published == ALL_FILES
