"""A checkpoint exists completely or not at all, and no file of a deleted checkpoint remains."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flykka.actors.checkpoint_storage.format import FORMAT_VERSION
from flykka.actors.checkpoint_storage.storage import CheckpointStorage, OwnedCheckpointStorage, initialize_savepoint
from flykka.actors.errors import (
    CheckpointDirectoryError,
    CheckpointFileNotFoundError,
    CheckpointFormatError,
    CheckpointVersionError,
    OwnershipLostError,
)
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorCoordinatorState, TaskStateEntry
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded, JobRun
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.simulation.storage import Operation, mounted
from tests.actors.machines.checkpoint.coordinating import snapshot

JOB = JobId("job-1")


@pytest.fixture(params=["path", "url", "memory://checkpoints", "memory://a[1]*?/checkpoints"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "path":
            yield str(tmp_path / "checkpoints")
        case "url":
            yield f"file://{tmp_path}/checkpoints"
        case _:
            yield request.param
            fsspec.filesystem("memory").store.clear()


def checkpoint_of_two_subtasks(checkpoint_id: int = 1) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JOB,
        checkpoint_id=checkpoint_id,
        timestamp_ms=1_000,
        duration_ms=12,
        task_states=(
            TaskStateEntry(
                vertex_id=JobVertexId("v"), subtask=0, parallelism=2, max_parallelism=128, state=snapshot(shared=["x"])
            ),
            TaskStateEntry(vertex_id=JobVertexId("v"), subtask=1, parallelism=2, max_parallelism=128),
        ),
        coordinator_states=(OperatorCoordinatorState(operator_id=OperatorId("files"), data=b"\x00seen"),),
    )


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_written_metadata_is_read_with_its_path(directory: str) -> None:
    storage = CheckpointStorage(directory)

    path = storage.write_metadata(checkpoint_of_two_subtasks())

    assert path.endswith("checkpoints/job-1/chk-1")
    assert storage.read_metadata(path) == replace(checkpoint_of_two_subtasks(), path=path)
    assert storage.read_metadata(f"{path}/_metadata") == replace(checkpoint_of_two_subtasks(), path=path)


def test_a_checkpoint_can_be_read_by_a_storage_of_another_directory(tmp_path: Path) -> None:
    path = CheckpointStorage(str(tmp_path / "a")).write_metadata(checkpoint_of_two_subtasks())

    (tmp_path / "moved").mkdir()
    Path(path).rename(tmp_path / "moved" / "here")
    read = CheckpointStorage(str(tmp_path / "b")).read_metadata(str(tmp_path / "moved" / "here"))

    assert read == replace(checkpoint_of_two_subtasks(), path=str(tmp_path / "moved" / "here"))


def test_a_savepoint_is_written_to_the_requested_directory(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path / "checkpoints"))

    path = storage.write_metadata(checkpoint_of_two_subtasks(), target_location=str(tmp_path / "savepoint"))

    assert path == str(tmp_path / "savepoint")
    assert storage.read_metadata(path).checkpoint_id == 1


def test_the_latest_checkpoint_has_the_highest_id(directory: str) -> None:
    storage = CheckpointStorage(directory)

    before = storage.latest(JOB)
    paths = [storage.write_metadata(checkpoint_of_two_subtasks(number)) for number in (2, 10, 9)]

    assert before is None
    assert storage.latest(JOB) == paths[1]


def test_every_flipped_bit_in_metadata_is_detected(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    file = Path(storage.write_metadata(checkpoint_of_two_subtasks(1)), "_metadata")
    whole = file.read_bytes()

    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises((CheckpointFormatError, CheckpointVersionError), match=str(file)):
            storage.read_metadata(str(file.parent))


def test_the_older_format_of_a_resumed_jobs_record_is_readable(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    path = storage.write_metadata(checkpoint_of_two_subtasks(1))
    note = Path(path, "_continued")

    storage.delete_job(JobId("another"), continued=path)
    assert storage.continued_by(path) == "another"
    note.write_bytes(note.read_bytes()[:-1] + b"R")
    with pytest.raises(CheckpointFormatError, match=str(note)):
        storage.continued_by(path)
    note.write_text("another")
    assert storage.continued_by(path) == "another"


def test_a_checkpoint_whose_name_cannot_be_made_durable_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = CheckpointStorage(str(tmp_path))
    first = storage.write_metadata(checkpoint_of_two_subtasks())

    def refuse(folders: Iterable[str]) -> None:
        if any(folder.endswith("chk-2") for folder in folders):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("flykka.actors.checkpoint_storage.storage.sync_folders", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        storage.write_metadata(checkpoint_of_two_subtasks(2))

    assert storage.addresses() == [storage.latest(JOB)] == [first]


def test_a_failed_write_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = CheckpointStorage(str(tmp_path))
    storage.write_metadata(checkpoint_of_two_subtasks(1))

    def full(descriptor: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        storage.write_metadata(checkpoint_of_two_subtasks(2))

    assert files_below(tmp_path) == ["job-1", "job-1/chk-1", "job-1/chk-1/_metadata"]


def test_a_replaced_process_completes_and_deletes_no_checkpoint(tmp_path: Path) -> None:
    written = CheckpointStorage(str(tmp_path)).write_metadata(checkpoint_of_two_subtasks(1))

    def confirm_owner() -> None:
        raise OwnershipLostError("process 7 runs the job")

    storage = OwnedCheckpointStorage(CheckpointingSettings(directory=str(tmp_path)), confirm_owner)
    before = files_below(tmp_path)

    with pytest.raises(OwnershipLostError):
        storage.write_metadata(checkpoint_of_two_subtasks(2))
    with pytest.raises(OwnershipLostError):
        storage.dispose([written], [])
    with pytest.raises(OwnershipLostError):
        storage.delete_job(JOB)
    assert files_below(tmp_path) == before


def test_a_partially_written_checkpoint_does_not_exist(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    path = storage.write_metadata(checkpoint_of_two_subtasks(1))

    (tmp_path / "job-1" / "chk-2").mkdir()
    (tmp_path / "job-1" / "chk-2" / "_metadata.inprogress").write_bytes(b"FLYKKA")

    assert storage.latest(JOB) == path


def test_a_missing_checkpoint_is_named(directory: str) -> None:
    with pytest.raises(CheckpointFileNotFoundError, match="job-1/chk-7/_metadata: there is no such file"):
        CheckpointStorage(directory).read_metadata(f"{directory}/job-1/chk-7")


@pytest.mark.parametrize("cut", [3, 15, 40])
def test_a_truncated_file_is_distinguished_from_a_complete_one(tmp_path: Path, cut: int) -> None:
    path = CheckpointStorage(str(tmp_path)).write_metadata(checkpoint_of_two_subtasks())
    metadata = Path(path) / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:cut])

    with pytest.raises(CheckpointFormatError, match="_metadata"):
        CheckpointStorage(str(tmp_path)).read_metadata(path)


def test_a_single_flipped_bit_is_detected(tmp_path: Path) -> None:
    path = CheckpointStorage(str(tmp_path)).write_metadata(checkpoint_of_two_subtasks())
    metadata = Path(path) / "_metadata"
    data = bytearray(metadata.read_bytes())
    data[-5] ^= 1
    metadata.write_bytes(data)

    with pytest.raises(CheckpointFormatError, match="altered"):
        CheckpointStorage(str(tmp_path)).read_metadata(path)


def test_a_foreign_file_is_not_treated_as_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"PAR1 is what parquet begins with")

    with pytest.raises(CheckpointFormatError, match="not a file of flykka"):
        CheckpointStorage(str(tmp_path)).read_metadata(str(tmp_path))


def test_a_file_of_a_newer_version_is_refused_with_its_version(tmp_path: Path) -> None:
    path = CheckpointStorage(str(tmp_path)).write_metadata(checkpoint_of_two_subtasks())
    metadata = Path(path) / "_metadata"
    data = bytearray(metadata.read_bytes())
    data[8:10] = (FORMAT_VERSION + 1).to_bytes(2, "big")
    metadata.write_bytes(data)

    with pytest.raises(
        CheckpointVersionError,
        match=rf"it has format version {FORMAT_VERSION + 1}, and this flykka reads versions up to {FORMAT_VERSION}",
    ):
        CheckpointStorage(str(tmp_path)).read_metadata(path)


def test_a_job_graph_is_not_a_checkpoint(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    storage.write_job_graph(job_graph(str(tmp_path)))
    (tmp_path / "job-1" / "chk-1").mkdir()
    (tmp_path / "job-1" / "job-graph").rename(tmp_path / "job-1" / "chk-1" / "_metadata")

    with pytest.raises(CheckpointFormatError, match="contains a JobGraph, not a CompletedCheckpoint"):
        storage.read_metadata(str(tmp_path / "job-1" / "chk-1"))


def test_a_job_graph_is_read_as_it_was_submitted(directory: str) -> None:
    storage = CheckpointStorage(directory)

    storage.write_job_graph(job_graph(directory))

    assert storage.read_job_graph(JOB) == job_graph(directory)


def test_a_dropped_checkpoint_leaves_no_files(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    paths = [storage.write_metadata(checkpoint_of_two_subtasks(number)) for number in (1, 2)]
    (Path(paths[0]) / "exclusive state").write_text("rows")

    storage.drop_checkpoint(paths[0])

    assert files_below(tmp_path) == ["job-1", "job-1/chk-2", "job-1/chk-2/_metadata"]


def test_state_is_deleted_whether_it_is_a_file_or_folder(tmp_path: Path) -> None:
    shared = tmp_path / "job-1" / "shared"
    (shared / "batch-1").mkdir(parents=True)
    (shared / "batch-1" / "part-0.parquet").write_text("rows")
    (shared / "batch-2").write_text("rows")
    (shared / "batch-3").write_text("rows")

    CheckpointStorage(str(tmp_path)).discard([str(shared / "batch-1"), f"file://{shared / 'batch-2'}"])

    assert files_below(shared) == ["batch-3"]


def test_state_that_cannot_be_deleted_does_not_block_later_deletions() -> None:
    with mounted("harness") as storage:
        storage.write("harness/first", b"state")
        storage.write("harness/second", b"state")
        storage.fails = lambda operation, path: operation is Operation.DELETE and path == "harness/first"

        with pytest.raises(OSError, match="harness/first"):
            CheckpointStorage("simulated://harness").discard(
                ["simulated://harness/first", "simulated://harness/second"]
            )

        assert [*storage.files] == ["harness/first"]


def test_a_deleted_job_leaves_no_empty_folder(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    storage.write_job_graph(job_graph(str(tmp_path)))
    storage.write_metadata(checkpoint_of_two_subtasks())

    storage.delete_job(JOB)

    assert files_below(tmp_path) == []


def test_a_deleted_job_that_resumed_from_a_checkpoint_is_recorded_there(directory: str) -> None:
    storage = CheckpointStorage(directory)
    path = storage.write_metadata(checkpoint_of_two_subtasks())
    before = storage.continued_by(path)

    storage.delete_job(JobId("job-2"), path)

    assert (before, storage.continued_by(path)) == (None, "job-2")
    assert storage.addresses() == [path]


def test_deleting_a_missing_file_is_allowed(directory: str) -> None:
    storage = CheckpointStorage(directory)
    path = storage.write_metadata(checkpoint_of_two_subtasks())

    for _ in range(2):
        storage.dispose([path], [f"{directory}/job-1/shared/x"])
        storage.delete_job(JOB, path)

    assert storage.latest(JOB) is None
    assert storage.continued_by(path) is None


def job_graph(directory: str) -> JobGraph:
    return JobGraph(
        job_id=JOB,
        name="flights",
        vertices=(),
        checkpointing=CheckpointingSettings(directory=directory),
        heartbeat_interval_ms=1_000,
        heartbeat_timeout_ms=10_000,
    )


class WithoutDriver(MemoryFileSystem):
    """A file system whose library lacks a dependency, such as HDFS without a JVM."""

    protocol = "driverless"

    def __init__(self) -> None:
        raise OSError("Unable to load libjvm\nnot in /usr/lib\nnot in /opt")


def test_a_file_system_that_cannot_start_makes_the_directory_unusable() -> None:
    fsspec.register_implementation("driverless", WithoutDriver, clobber=True)

    with pytest.raises(CheckpointDirectoryError, match=r"'driverless://x' cannot be used: Unable to load libjvm$"):
        CheckpointStorage("driverless://x").latest(JOB)
    with pytest.raises(
        CheckpointDirectoryError, match=r"savepoint directory .* cannot be used: Unable to load libjvm$"
    ):
        initialize_savepoint("driverless://x", "savepoint-1")


def test_the_outcome_of_a_run_replaces_its_running_record(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    storage.record_run(JobRun(job_id=JobId("a"), job_name="errors / hour", restore_path="/c/chk-1"))

    storage.record_end_of_run("errors / hour", JobEnded(job_id=JobId("a"), status=JobStatus.FINISHED))

    assert storage.last_run("errors / hour") == JobRun(
        job_id=JobId("a"), job_name="errors / hour", restore_path="/c/chk-1", status=JobStatus.FINISHED
    )
    assert storage.addresses() == []


def test_the_end_of_another_or_unrecorded_run_is_ignored(tmp_path: Path) -> None:
    storage, run = CheckpointStorage(str(tmp_path)), JobRun(job_id=JobId("b"), job_name="errors")
    ended = JobEnded(job_id=JobId("a"), status=JobStatus.FINISHED)

    storage.record_end_of_run("errors", ended)
    assert storage.last_run("errors") is None

    storage.record_run(run)
    storage.record_end_of_run("errors", ended)
    assert storage.last_run("errors") == run


def test_only_the_specified_job_below_a_path_with_brackets_is_deleted(directory: str) -> None:
    other = CheckpointStorage(directory.replace("[1]*?", "1xx"))
    kept = other.write_metadata(checkpoint_of_two_subtasks())
    brackets = CheckpointStorage(directory if "[1]" in directory else f"{directory}/a[1]")
    brackets.write_metadata(checkpoint_of_two_subtasks())

    brackets.delete_job(JOB)

    assert brackets.addresses() == []
    assert other.read_metadata(kept).checkpoint_id == 1
