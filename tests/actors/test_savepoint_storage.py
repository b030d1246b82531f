"""A savepoint is in one folder, may be moved, and missing files are reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage, discard_savepoint, initialize_savepoint
from flykka.actors.checkpoint_storage.verification import check_state
from flykka.actors.errors import CheckpointDirectoryError, CheckpointStateMissingError
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, SnapshotType, TaskStateEntry
from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    OperatorListState,
    OperatorSubtaskState,
    PendingFile,
    SharedStateHandle,
    StagedBatch,
    TaskStateSnapshot,
    WriterState,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value

NAME = "savepoint-job-1a2b3c4d-1"


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    yield
    fsspec.filesystem("memory").store.clear()


def savepoint_of(*operators: OperatorSubtaskState) -> CompletedCheckpoint:
    entry = TaskStateEntry(
        vertex_id=JobVertexId("v"),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        state=TaskStateSnapshot(operators=operators),
    )
    return CompletedCheckpoint(
        job_id=JobId("job"),
        checkpoint_id=3,
        timestamp_ms=0,
        duration_ms=1,
        task_states=(entry,),
        snapshot_type=SnapshotType.SAVEPOINT,
    )


def windows_state(path: str, size_bytes: int = 4) -> OperatorSubtaskState:
    handle = ExclusiveStateHandle(path=path, size_bytes=size_bytes)
    return OperatorSubtaskState(operator_id=OperatorId("windows"), exclusive=(handle,))


def sink_state(*prepared: Value) -> OperatorSubtaskState:
    return OperatorSubtaskState(operator_id=OperatorId("sink"), operator_state=(list_state("committables", prepared),))


def rewritten_savepoint(folder: str, *operators: OperatorSubtaskState) -> CompletedCheckpoint:
    """Return a savepoint in this folder that a storage with another directory wrote and read again."""
    CheckpointStorage("memory://checkpoints").write_metadata(savepoint_of(*operators), folder)
    return CheckpointStorage(folder).read_metadata(folder)


def moved_savepoint(tmp_path: Path, folder: str) -> CompletedCheckpoint:
    target = tmp_path / "elsewhere" / "renamed"
    target.parent.mkdir()
    Path(folder).rename(target)
    return CheckpointStorage(str(target)).read_metadata(str(target))


def with_state(folder: str, name: str = "state", data: bytes = b"rows") -> str:
    state = Path(folder, name)
    state.mkdir()
    (state / "part-0").write_bytes(data)
    return f"file:{state}"


def test_a_moved_savepoint_refers_to_its_state_in_the_new_folder(tmp_path: Path) -> None:
    folder = initialize_savepoint(str(tmp_path / "savepoints"), NAME)
    rewritten_savepoint(folder, windows_state(with_state(folder)))

    found = moved_savepoint(tmp_path, folder)

    [entry] = found.task_states
    state = entry.state
    assert state is not None
    assert state.operators == (windows_state(f"file:{tmp_path}/elsewhere/renamed/state"),)
    check_state(found)


def test_staged_files_move_with_a_savepoint_but_sink_targets_do_not(tmp_path: Path) -> None:
    folder = initialize_savepoint(str(tmp_path / "savepoints"), NAME)
    target = f"file:{tmp_path}/output/part-0"
    copied = PendingFile(checkpoint_id=3, staged=f"file:{folder}/sink/0-part", target=target, in_savepoint=True)
    batch = StagedBatch(checkpoint_id=3, path=f"file:{folder}/sink/1", schema="{}", in_savepoint=True)
    writer = WriterState(writer="job/sink-0", batches=(replace(batch, path=f"file:{folder}/sink/2-0"),))
    rewritten_savepoint(folder, sink_state(copied, batch, writer))

    found = moved_savepoint(tmp_path, folder)

    [entry] = found.task_states
    assert entry.state is not None
    there = f"file:{tmp_path}/elsewhere/renamed/sink"
    assert elements_of(entry.state.operators, "committables", Value) == [
        replace(copied, staged=f"{there}/0-part"),
        replace(batch, path=f"{there}/1"),
        replace(writer, batches=(replace(batch, path=f"{there}/2-0"),)),
    ]


def test_a_savepoint_can_be_read_without_the_connectors_of_its_sinks(tmp_path: Path) -> None:
    folder = initialize_savepoint(str(tmp_path), NAME)
    foreign = OperatorListState(name="committables", elements=(b"of another connector",))
    state = OperatorSubtaskState(operator_id=OperatorId("sink"), operator_state=(foreign,))

    found = rewritten_savepoint(folder, state)

    assert found.task_states[0].state == TaskStateSnapshot(operators=(state,))


def test_a_checkpoint_names_its_files_by_their_addresses(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    shared = SharedStateHandle(state_id="s", path=f"file:{tmp_path}/job/shared/s", rows=1, size_bytes=1)
    state = OperatorSubtaskState(operator_id=OperatorId("windows"), shared=(shared,))
    taken = replace(savepoint_of(state), snapshot_type=SnapshotType.CHECKPOINT)

    path = storage.write_metadata(taken)

    assert storage.read_metadata(path) == replace(taken, path=path)


def test_a_savepoint_may_be_on_another_file_system_than_the_checkpoints(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path / "checkpoints"))
    folder = initialize_savepoint("memory://savepoints", NAME)

    path = storage.write_metadata(savepoint_of(), folder)
    read = CheckpointStorage(path).read_metadata(path)
    storage.drop_checkpoint(path)

    assert path.endswith(f"savepoints/{NAME}")
    assert read.checkpoint_id == 3
    assert not fsspec.filesystem("memory").exists(f"/savepoints/{NAME}")
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("data", "said"), [(None, "which is missing"), (b"ro", "of 4 bytes, but only 2 of them exist")]
)
def test_missing_or_truncated_state_is_named_with_the_metadata_file(
    data: bytes | None, said: str, tmp_path: Path
) -> None:
    folder = initialize_savepoint(str(tmp_path), NAME)
    state = f"file:{folder}/state" if data is None else with_state(folder, data=data)
    found = rewritten_savepoint(folder, windows_state(state))

    with pytest.raises(CheckpointStateMissingError, match=f"^{folder}/_metadata refers to state in {state}, {said}$"):
        check_state(found)


def test_a_savepoint_never_replaces_another(tmp_path: Path) -> None:
    folder = initialize_savepoint(str(tmp_path), NAME)

    with pytest.raises(CheckpointDirectoryError, match=f"'{folder}' exists already"):
        initialize_savepoint(str(tmp_path), NAME)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CheckpointDirectoryError, match=r"the savepoint directory '.*file' cannot be written: it is a"):
        initialize_savepoint(str(tmp_path / "file"), NAME)


def test_a_directory_that_is_not_writable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.mkdir", denied)

    with pytest.raises(CheckpointDirectoryError, match="cannot be written: Permission denied"):
        initialize_savepoint(str(tmp_path / "savepoints"), NAME)


def test_an_address_of_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(CheckpointDirectoryError, match="the savepoint directory 'nowhere://x' cannot be used: "):
        initialize_savepoint("nowhere://x", NAME)


def test_late_state_of_an_aborted_savepoint_is_deleted_with_its_folder(tmp_path: Path) -> None:
    folder = initialize_savepoint(str(tmp_path), NAME)
    discard_savepoint(folder)
    Path(folder).mkdir()
    states = [with_state(folder, name) for name in ("a", "b")]
    storage = CheckpointStorage("memory://checkpoints")

    storage.discard(states[:1])
    between = sorted(path.name for path in Path(folder).iterdir())
    storage.discard(states[1:])

    assert between == ["b"]
    assert list(tmp_path.iterdir()) == []
