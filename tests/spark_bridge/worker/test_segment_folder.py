"""Tests the segment folder, with executors on several machines or on one machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest
from pyspark import SparkFiles

from flykka.spark_bridge.worker.segments import SegmentFolder
from tests.spark_bridge.worker.tables import SCHEMA, state_rows

On = Callable[[str], Path]
ROWS = state_rows({(1, ""): 10}, 1)


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> On:
    def go(executor: str) -> Path:
        monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / executor))
        return tmp_path / executor

    return go


@pytest.fixture
def segment_folder(tmp_path: Path) -> SegmentFolder:
    return SegmentFolder(name="state", shared=str(tmp_path / "shared"))


def keys_in(folder: SegmentFolder, segment: str) -> list[int]:
    ((run,),) = folder.read([segment])
    keys: list[int] = run.table.column("__key_0").to_pylist()
    return keys


def test_another_executor_finds_and_keeps_a_written_segment(on: On, segment_folder: SegmentFolder) -> None:
    on("first")
    segment_folder.write("a", SCHEMA, [ROWS])

    second = on("second")
    assert segment_folder.has("a")
    assert keys_in(segment_folder, "a") == [1]
    assert (second / "state" / "a").exists()


def test_an_unread_segment_leaves_an_executor_but_stays_shared(on: On, segment_folder: SegmentFolder) -> None:
    first = on("first")
    for segment in ("a", "b"):
        segment_folder.write(segment, SCHEMA, [ROWS])

    segment_folder.forget_all_but(["b"])

    assert sorted(path.name for path in (first / "state").iterdir()) == ["b"]
    assert keys_in(segment_folder, "a") == [1]


def test_a_segment_gets_its_final_name_once_it_is_shared(
    on: On, segment_folder: SegmentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = on("first")
    put: list[list[str]] = []
    monkeypatch.setattr(Path, "replace", forgetting(segment_folder, put, Path.replace))

    segment_folder.write("a", SCHEMA, [ROWS])

    assert put == [["a"]]
    assert (first / "state" / "a").exists()


def forgetting(
    folder: SegmentFolder, put: list[list[str]], replace: Callable[[Path, Path], Path]
) -> Callable[[Path, Path], Path]:
    """Return a rename function that first makes the folder forget all segments and records the shared files."""

    def renamed(path: Path, target: Path) -> Path:
        folder.forget_all_but([])
        assert folder.shared is not None
        put.append(sorted(each.name for each in Path(folder.shared).iterdir()))
        return replace(path, target)

    return renamed


def test_a_deleted_segment_is_removed_from_every_reachable_folder(on: On, segment_folder: SegmentFolder) -> None:
    on("first")
    segment_folder.write("a", SCHEMA, [ROWS])

    segment_folder.delete("a")

    assert not segment_folder.has("a")
    with pytest.raises(FileNotFoundError):
        segment_folder.read(["a"])


def test_a_segment_is_deleted_even_if_its_shared_folder_is_gone(
    on: On, segment_folder: SegmentFolder, tmp_path: Path
) -> None:
    first = on("first")
    segment_folder.write("a", SCHEMA, [ROWS])
    rmtree(tmp_path / "shared")

    segment_folder.delete("a")

    assert not (first / "state" / "a").exists()
