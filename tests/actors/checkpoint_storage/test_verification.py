"""Staged files of a checkpoint are compared with the files that were written, unless the files have been published
since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.file_digests import sealed
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.checkpoint_storage.verification import damages
from flykka.actors.machines.state.operator_state import list_state
from flykka.client.checkpoints import verify_checkpoint
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, SnapshotType, TaskStateEntry
from flykka.messages.state.handles import (
    COMMITTABLES,
    ExclusiveStateHandle,
    OperatorListState,
    OperatorSubtaskState,
    PendingFile,
    StagedBatch,
    StagingFolder,
    TaskStateSnapshot,
    WriterState,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Value

SUBTASK = "sink-12345678-0-of-2"


class Staged:
    """A file sink with three staged files, and a transactional sink with two staged batches in a table."""

    def __init__(self, folder: Path) -> None:
        self.output, self.table = folder / "out", folder / "table"
        self.job, self.table_job = self.output / ".staging" / "job", self.table / "_staging" / "job"
        first, second = self.job / "1" / SUBTASK / "0-1", self.job / "1" / SUBTASK / "0-2"
        batch = self.table_job / "1" / SUBTASK / "0-1"
        self.files = [first / "a", first / "day=1" / "b", second / "c", batch / "d", batch / "day=1" / "e"]
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(f"rows of {file.name}".encode())
        self.pieces: list[Value] = [
            PendingFile(
                checkpoint_id=3,
                staged=f"file:{file}",
                target=f"file:{self.output}/{file.name}",
                digest=sealed(str(file), file.name, sync=False),
            )
            for file in self.files[:3]
        ]
        digests = tuple(sealed(str(file), str(file.relative_to(batch)), sync=False) for file in self.files[3:])
        batches = (StagedBatch(checkpoint_id=3, path=f"file:{batch}", schema="{}", files=digests),)
        self.pieces += [WriterState(writer="job/sink-0", batches=batches), StagingFolder(path=f"file:{first.parent}")]

    def damages(self) -> list[str]:
        return [str(damage) for damage in damages(checkpoint_with_list_state(list_state(COMMITTABLES, self.pieces)))]


def checkpoint_with_list_state(
    *states: OperatorListState, exclusive: tuple[ExclusiveStateHandle, ...] = (), path: str = "/chk-3"
) -> CompletedCheckpoint:
    operator = OperatorSubtaskState(operator_id=OperatorId("sink"), operator_state=states, exclusive=exclusive)
    entry = TaskStateEntry(
        vertex_id=JobVertexId("v"),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        state=TaskStateSnapshot(operators=(operator,)),
    )
    return CompletedCheckpoint(
        job_id=JobId("job"), checkpoint_id=3, timestamp_ms=0, duration_ms=1, task_states=(entry,), path=path
    )


@pytest.fixture
def staged_output(tmp_path: Path) -> Staged:
    return Staged(tmp_path)


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def test_a_flipped_bit_in_a_staged_file_is_found(staged_output: Staged) -> None:
    assert staged_output.damages() == []
    for file in staged_output.files:
        for place in range(file.stat().st_size):
            flip(file, place)
            assert staged_output.damages() == [
                f"{file} is damaged: its content differs from the content that was written (xxh3_128)"
            ]
            flip(file, place)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("moves", [False, True])
def test_truncated_and_missing_staged_files_are_named(staged_output: Staged, number: int, moves: bool) -> None:
    file = staged_output.files[number]
    if moves:
        # Two later owners of the job have moved the folders of their predecessors.
        for job in (staged_output.job, staged_output.table_job):
            (job / "7").mkdir()
            (job / "1").rename(job / "7" / "from-1")
        file = Path(str(file).replace("/job/1/", "/job/7/from-1/"))
    assert staged_output.damages() == []

    file.write_bytes(file.read_bytes()[:-1])
    [cut] = staged_output.damages()
    file.unlink()
    [missing] = staged_output.damages()

    assert cut == f"{file} is damaged: 9 bytes were written, but it has 8"
    assert missing == f"{file} was staged by a sink and is missing: its rows are lost"


def test_published_files_are_not_reported_as_damage(staged_output: Staged) -> None:
    first, *_ = staged_output.files
    first.rename(staged_output.output / first.name)
    (staged_output.table / "day=1").mkdir()
    staged_output.files[4].rename(staged_output.table / "day=1" / "e")

    assert staged_output.damages() == []


def test_files_removed_after_publication_are_not_reported_as_damage(staged_output: Staged) -> None:
    for file in (staged_output.files[2], staged_output.files[4], staged_output.files[3]):
        file.unlink()
        file.parent.rmdir()

    assert staged_output.damages() == []


def test_files_are_reported_missing_if_their_jobs_folder_is_missing(staged_output: Staged) -> None:
    staged_output.job.rename(staged_output.job.with_name("away"))

    assert [damage.split()[0] for damage in staged_output.damages()] == [str(file) for file in staged_output.files[:3]]


def test_an_inaccessible_staged_file_is_named(staged_output: Staged) -> None:
    staged_output.pieces = [
        PendingFile(checkpoint_id=3, staged="nowhere://out/a", target=f"file:{staged_output.output}/a")
    ]

    [damage] = staged_output.damages()

    assert damage.startswith("nowhere://out/a cannot be read: Protocol not known: nowhere")


@pytest.mark.parametrize("without", [False, True], ids=["with digests", "older version"])
def test_staged_files_are_counted_with_and_without_digests(staged_output: Staged, without: bool) -> None:
    pieces: list[Value] = list(map(without_digests, staged_output.pieces)) if without else staged_output.pieces

    verified = verify_checkpoint(checkpoint_with_list_state(list_state(COMMITTABLES, pieces)))

    assert (verified.files, verified.staged_files, verified.without_digests) == ((0, 3, 4) if without else (0, 5, 0))
    assert verified.damages == ()


def test_a_missing_staged_file_without_a_digest_is_named(staged_output: Staged) -> None:
    staged_output.pieces = list(map(without_digests, staged_output.pieces))
    staged_output.files[0].unlink()

    assert staged_output.damages() == [
        f"{staged_output.files[0]} was staged by a sink and is missing: its rows are lost"
    ]


def without_digests(piece: Value) -> Value:
    match piece:
        case PendingFile():
            return replace(piece, digest=None)
        case WriterState(batches=batches):
            return replace(piece, batches=tuple(replace(batch, files=()) for batch in batches))
        case _:
            return piece


def written_savepoint(staged: Staged, folder: Path, damage: Callable[[Path], object]) -> CompletedCheckpoint:
    """Write a savepoint with a copy of a staged file, which `damage` changes before it is copied."""
    copy = folder / "sink" / "0-a"
    copy.parent.mkdir(parents=True)
    damage(staged.files[0])
    copy.write_bytes(staged.files[0].read_bytes())
    piece = staged.pieces[0]
    assert isinstance(piece, PendingFile)
    pending = replace(piece, staged=f"file:{copy}", in_savepoint=True)
    handle = ExclusiveStateHandle(
        path=f"file:{copy.parent}", size_bytes=9, files=(sealed(str(copy), copy.name, sync=False),)
    )
    taken = checkpoint_with_list_state(list_state(COMMITTABLES, [pending]), exclusive=(handle,))
    CheckpointStorage(str(folder)).write_metadata(replace(taken, snapshot_type=SnapshotType.SAVEPOINT), str(folder))
    return CheckpointStorage(str(folder)).read_metadata(str(folder))


def test_damage_in_a_savepoint_is_reported_once(staged_output: Staged, tmp_path: Path) -> None:
    found = written_savepoint(staged_output, tmp_path / "savepoint-1", lambda file: None)
    copy = tmp_path / "savepoint-1" / "sink" / "0-a"
    assert list(damages(found)) == []

    flip(copy, 3)
    [flipped] = damages(found)
    copy.unlink()
    [missing] = damages(found)

    assert str(flipped).startswith(f"{copy} is damaged")
    assert str(missing) == f"{copy} is missing"


def test_a_file_damaged_before_its_copy_to_a_savepoint_is_found(staged_output: Staged, tmp_path: Path) -> None:
    found = written_savepoint(staged_output, tmp_path / "savepoint-1", lambda file: flip(file, 3))

    [damage] = damages(found)

    assert str(damage).startswith(f"{tmp_path}/savepoint-1/sink/0-a is damaged")
