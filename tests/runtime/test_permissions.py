"""Files of a checkpoint get the read permissions of the folder into which they are written."""

from __future__ import annotations

import os
from pathlib import Path

from flykka.runtime.permissions import inherit_permissions, make_folder, make_inheriting_folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_and_files_below_a_private_folder_are_private(tmp_path: Path) -> None:
    job = tmp_path / "above" / "job"
    state = job / "shared" / "state"
    before = os.umask(0o022)
    try:
        make_folder(job, 0o700)
        make_inheriting_folder(state)
        (state / "part").mkdir()
        (state / "part" / "rows.parquet").touch()
        inherit_permissions(state)
    finally:
        os.umask(before)

    assert [mode(each) for each in (job, job / "shared", state, state / "part")] == [0o700] * 4
    assert mode(state / "part" / "rows.parquet") == 0o600
    assert mode(tmp_path / "above") == 0o755


def test_files_in_a_group_readable_folder_are_group_readable(tmp_path: Path) -> None:
    job = tmp_path / "job"
    before = os.umask(0o077)
    try:
        make_folder(job, 0o750)
        make_inheriting_folder(job / "shared")
        (job / "shared" / "rows").touch()
        inherit_permissions(job / "shared" / "rows")
    finally:
        os.umask(before)

    assert (mode(job / "shared"), mode(job / "shared" / "rows")) == (0o750, 0o640)
