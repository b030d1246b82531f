"""Tests the copies of users' files: named by content, counted, and packed for executors."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from flykka.spark_bridge.user_files.staged_files import StagedFiles


@pytest.fixture
def staged_files() -> StagedFiles:
    return StagedFiles()


def add_text(staged: StagedFiles, text: str) -> str:
    return staged.add("a.txt", lambda path: path.write_text(text))


def add_folder(staged: StagedFiles, **texts: str) -> str:
    def write(folder: Path) -> None:
        (folder / "below").mkdir(parents=True)
        for name, text in texts.items():
            (folder / "below" / name).write_text(text)

    return staged.add("folder", write)


def test_a_unit_is_named_by_its_content_and_label(staged_files: StagedFiles) -> None:
    unit = add_text(staged_files, "one")

    assert unit.startswith("flykka-file-")
    assert unit.endswith("-a.txt")
    assert staged_files.path(unit).read_text() == "one"
    assert add_text(staged_files, "one") == unit
    assert add_text(staged_files, "two") != unit


def test_a_changed_or_renamed_file_makes_a_folder_a_different_unit(staged_files: StagedFiles) -> None:
    unit = add_folder(staged_files, a="1", b="2")

    assert add_folder(staged_files, a="1", b="2") == unit
    assert len({unit, add_folder(staged_files, a="1", b="3"), add_folder(staged_files, a="1", c="2")}) == 3


def test_a_unit_exists_until_its_last_use_is_released(staged_files: StagedFiles) -> None:
    unit = add_folder(staged_files, a="1")
    add_folder(staged_files, a="1")
    archive = staged_files.archive(unit)
    assert archive is not None

    staged_files.release(unit)
    assert staged_files.path(unit).is_dir()

    staged_files.release(unit)
    assert not staged_files.path(unit).exists()
    assert not archive.exists()


def test_folders_are_packed_recursively_and_files_are_not_packed(staged_files: StagedFiles) -> None:
    archive = staged_files.archive(add_folder(staged_files, a="1"))

    assert archive is not None
    with tarfile.open(archive) as packed:
        assert packed.getnames() == ["below", "below/a"]
    assert staged_files.archive(add_text(staged_files, "one")) is None


def test_a_failed_write_leaves_no_file(staged_files: StagedFiles) -> None:
    unit = add_text(staged_files, "one")

    with pytest.raises(OSError, match="full"):
        staged_files.add("b", lambda path: _fails_behind(path))

    assert {each.name for each in staged_files.path(unit).parent.iterdir()} == {unit, ".lock"}


def _fails_behind(path: Path) -> None:
    path.write_text("half")
    raise OSError("the disk is full")
