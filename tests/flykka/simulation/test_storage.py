"""The simulated storage: the product's own code reads and writes it like any other file system."""

from __future__ import annotations

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage, initialize_savepoint
from flykka.actors.checkpoint_storage.verification import check_state
from flykka.actors.errors import CheckpointDirectoryError, CheckpointFileNotFoundError, CheckpointStateMissingError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, TaskStateEntry
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.simulation.rows import Row
from flykka.simulation.storage import Operation, mounted

JOB = JobId("job-1")
ROWS = (Row(1, 10, ((7, 70),)),)


def checkpoint_of(path: str) -> CompletedCheckpoint:
    state = OperatorSubtaskState(
        operator_id=OperatorId("window"), exclusive=(ExclusiveStateHandle(path=path, size_bytes=16),)
    )
    entry = TaskStateEntry(
        vertex_id=JobVertexId("window"),
        subtask=0,
        parallelism=1,
        max_parallelism=8,
        state=TaskStateSnapshot(operators=(state,)),
    )
    return CompletedCheckpoint(job_id=JOB, checkpoint_id=3, timestamp_ms=0, duration_ms=1, task_states=(entry,))


def test_a_checkpoint_is_read_as_written_and_deleted_once_discarded() -> None:
    with mounted("here") as storage:
        checkpoints = CheckpointStorage("simulated://here/checkpoints")
        storage.write("here/checkpoints/job-1/state", ROWS)

        path = checkpoints.write_metadata(checkpoint_of("simulated://here/checkpoints/job-1/state"))

        assert (
            checkpoints.read_metadata(path).task_states
            == checkpoint_of("simulated://here/checkpoints/job-1/state").task_states
        )
        check_state(checkpoints.read_metadata(path))
        assert checkpoints.latest(JOB) == path == "simulated://here/checkpoints/job-1/chk-3"
        checkpoints.dispose([path], ["simulated://here/checkpoints/job-1/state"])
        assert storage.files == {}


def test_missing_state_is_detected() -> None:
    with mounted("here"):
        checkpoints = CheckpointStorage("simulated://here/checkpoints")
        path = checkpoints.write_metadata(checkpoint_of("simulated://here/checkpoints/job-1/state"))

        with pytest.raises(CheckpointStateMissingError, match="refers to state in"):
            check_state(checkpoints.read_metadata(path))


def test_a_savepoint_is_found_in_its_directory() -> None:
    with mounted("here"):
        folder = initialize_savepoint("simulated://here/savepoints", "savepoint-1-2")

        path = CheckpointStorage("simulated://here/checkpoints").write_metadata(checkpoint_of("x"), folder)

        assert CheckpointStorage("simulated://here/savepoints").savepoints() == [path]


def test_a_file_whose_rename_fails_does_not_exist() -> None:
    with mounted("here") as storage:
        storage.fails = lambda operation, _path: operation is Operation.FINALISE
        checkpoints = CheckpointStorage("simulated://here/checkpoints")

        with pytest.raises(OSError, match=r"finalising here/checkpoints/job-1/chk-3/_metadata\.inprogress failed"):
            checkpoints.write_metadata(checkpoint_of("x"))

        with pytest.raises(CheckpointFileNotFoundError):
            checkpoints.read_metadata("simulated://here/checkpoints/job-1/chk-3")
        assert storage.files == {}


def test_a_storage_name_is_mounted_once_and_unusable_after_the_run() -> None:
    with mounted("here"), pytest.raises(RuntimeError, match="already runs"), mounted("here"):
        pass

    with pytest.raises(CheckpointFileNotFoundError):
        CheckpointStorage("simulated://here/checkpoints").read_metadata("simulated://here/checkpoints/x")


def test_a_savepoint_to_read_only_storage_fails_with_a_clear_message() -> None:
    with mounted("here") as storage:
        storage.write("here/savepoints", b"a file")

        with pytest.raises(CheckpointDirectoryError, match="it is a file"):
            initialize_savepoint("simulated://here/savepoints", "savepoint-1-2")
