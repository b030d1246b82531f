"""Temporary folders are private, have unpredictable names, and are removed at the next start at the latest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flykka.runtime.temporary_folders import TemporaryFolder, open_exclusively, user_folder
from flykka.runtime.trace.file.frame_format import write_whole

HOLDER = """
import sys
from flykka.runtime.temporary_folders import TemporaryFolder
folder = TemporaryFolder("held", left_to_others="left" in sys.argv)
(folder.path / "file").touch()
print(folder.path, flush=True)
sys.stdin.readline()
"""
"""The program of a process that holds a folder until its parent sends a line, or until it is killed."""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def holder(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def path_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_is_private_at_any_umask_and_can_be_removed(temporary: Path) -> None:
    before = os.umask(0)
    try:
        with TemporaryFolder("kind") as folder:
            modes = [mode(folder), mode(folder.parent), mode(folder / ".lock")]
    finally:
        os.umask(before)

    assert modes == [0o700, 0o700, 0o600]
    assert folder.parent == temporary / f"flykka-{os.getuid()}"
    assert not folder.exists()


def test_the_next_start_removes_only_abandoned_folders() -> None:
    killed, living = holder(), holder()
    with killed, living:
        abandoned, held = path_of(killed), path_of(living)
        record = abandoned.parent / "flykka-flight-record-1.trace"
        theirs = abandoned.parent / "of-something-else"
        record.touch()
        theirs.mkdir()
        killed.send_signal(signal.SIGKILL)
        killed.wait()

        with TemporaryFolder("kind"):
            assert not abandoned.exists()
            assert (held / "file").exists()
        living.communicate("end\n")

    assert not held.exists()
    assert record.exists()
    assert theirs.exists()


def test_a_folder_removed_by_other_processes_survives_until_the_next_start() -> None:
    with holder("left") as process:
        left = path_of(process)
        process.communicate("end\n")

    assert left.exists()
    with TemporaryFolder("kind"):
        assert not left.exists()


def test_a_child_process_does_not_remove_its_parents_folders() -> None:
    with TemporaryFolder("kind") as folder:
        child = os.fork()
        if child == 0:
            from flykka.runtime import temporary_folders

            temporary_folders._end()
            os._exit(0)
        os.waitpid(child, 0)

        assert folder.exists()


@pytest.mark.parametrize("kind", ["link", "open to others"])
def test_a_folder_accessible_to_other_users_is_refused(temporary: Path, kind: str) -> None:
    folder = temporary / f"flykka-{os.getuid()}"
    if kind == "link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(temporary / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o755)

    with pytest.raises(PermissionError, match=r"not accessible to you alone: .*set TMPDIR to another"):
        user_folder()


def test_writing_a_file_does_not_follow_a_symbolic_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run.trace.inprogress").symlink_to(victim)
    (tmp_path / "other").symlink_to(victim)

    write_whole(tmp_path / "run.trace", [b"frame"], mode=0o600)
    os.close(open_exclusively(tmp_path / "other"))

    assert victim.read_text() == "mine"
    assert (tmp_path / "run.trace").read_bytes() == b"frame"
    assert mode(tmp_path / "run.trace") == mode(tmp_path / "other") == 0o600
