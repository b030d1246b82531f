"""Files of checkpoints survive a power failure, and other users cannot read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage, initialize_savepoint
from flykka.messages.control.job_control import JobRun
from tests.actors.test_checkpoint_storage import JOB, checkpoint_of_two_subtasks, job_graph
from tests.syncs import watched_syncs


def test_metadata_is_synced_before_its_rename_and_new_folders_first(tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        CheckpointStorage(str(tmp_path / "new" / "checkpoints")).write_metadata(checkpoint_of_two_subtasks(1))

    folder = tmp_path / "new" / "checkpoints" / JOB
    above = [tmp_path, tmp_path / "new", tmp_path / "new" / "checkpoints", folder]
    named = folder / "chk-1"
    assert syncs.paths == [str(path) for path in (*above, named / "_metadata.inprogress", named)]


def test_files_are_not_synced_if_syncing_is_disabled(tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        CheckpointStorage(str(tmp_path / "checkpoints"), fsync=False).write_metadata(checkpoint_of_two_subtasks(1))

    assert syncs.paths == []


def test_the_folder_of_a_savepoint_is_durable(tmp_path: Path) -> None:
    with watched_syncs() as syncs:
        initialize_savepoint(str(tmp_path / "savepoints"), "savepoint-1")

    assert syncs.paths == [str(tmp_path), str(tmp_path / "savepoints")]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(("permissions", "of_files"), [(0o700, 0o600), (0o750, 0o640)])
def test_files_and_folders_have_the_configured_permissions_at_any_umask(
    tmp_path: Path, umask: int, permissions: int, of_files: int
) -> None:
    directory, above = tmp_path / "output" / "checkpoints", tmp_path / "output"
    storage = CheckpointStorage(str(directory), permissions)

    before = os.umask(umask)
    try:
        storage.write_job_graph(job_graph(str(directory)))
        storage.write_metadata(checkpoint_of_two_subtasks())
        storage.record_run(JobRun(job_id=JOB, job_name="sales"))
        savepoint = initialize_savepoint(str(directory / "savepoints"), "savepoint-1", permissions)
        storage.write_metadata(checkpoint_of_two_subtasks(2), savepoint)
    finally:
        os.umask(before)

    made = [directory, *directory.rglob("*")]
    assert {each.stat().st_mode & 0o777 for each in made if each.is_dir()} == {permissions}
    assert {each.stat().st_mode & 0o777 for each in made if each.is_file()} == {of_files}
    assert above.stat().st_mode & 0o777 == 0o777 & ~umask


def test_an_existing_folder_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    CheckpointStorage(str(tmp_path)).write_job_graph(job_graph(str(tmp_path)))

    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / JOB).stat().st_mode & 0o777 == 0o700
