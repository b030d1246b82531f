"""Tests that changes in a folder are detected by its modification time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from flykka.spark_bridge.connectors.file.split_discovery import FolderTimes

LONG_AGO = 1_000_000_000


def times_of(*folders: Path) -> FolderTimes:
    times = FolderTimes()
    for folder in folders:
        times.record(str(folder))
    return times


def touch_later(file: str, *, written_before_it_came: bool) -> None:
    """Create a file whose time is later than those of all earlier files."""
    Path(file).touch()
    begun_ns = time.time_ns()
    while os.stat(file).st_ctime_ns <= begun_ns:
        Path(file).touch()
    if written_before_it_came:
        os.utime(file, ns=(LONG_AGO, LONG_AGO))


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def test_a_folder_is_unchanged_until_a_file_arrives(old_folder: Path) -> None:
    times = times_of(old_folder)
    before = times.changed()

    (old_folder / "a").touch()

    assert (before, times.changed()) == (False, True)


def test_a_file_in_any_of_the_folders_is_detected(old_folder: Path, tmp_path: Path) -> None:
    below = old_folder / "day=1"
    below.mkdir()
    os.utime(old_folder, (LONG_AGO, LONG_AGO))
    os.utime(below, (LONG_AGO, LONG_AGO))
    times = times_of(old_folder, below)

    (below / "a").touch()

    assert times.changed()


def test_a_missing_folder_is_detected_once_it_exists(tmp_path: Path) -> None:
    times = times_of(tmp_path / "later")
    before = times.changed()

    (tmp_path / "later").mkdir()

    assert (before, times.changed()) == (False, True)


def test_a_change_within_one_tick_of_the_clock_is_not_missed(old_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = LONG_AGO * 1_000_000_000
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: now_ns)
    times = times_of(old_folder)
    at_once = times.changed()

    now_ns += 21_000_000

    assert (at_once, times.changed()) == (False, True)


def test_a_forgotten_folder_reports_no_change(old_folder: Path) -> None:
    times = times_of(old_folder)
    (old_folder / "a").touch()

    times.clear()

    assert not times.changed()


def test_a_file_counts_as_growing_until_it_is_unmodified_for_a_moment(
    old_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, file = times_of(), old_folder / "a"
    file.touch()
    now_ns = file.stat().st_mtime_ns
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: now_ns)
    settled, at_once = times.settled([str(file)]), times.changed()

    now_ns += 51_000_000

    assert (settled, at_once) == (set(), False)
    assert (times.settled([str(file)]), times.changed()) == ({str(file)}, True)


def test_a_file_renamed_or_dated_after_writing_does_not_count_as_growing(
    old_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, file = times_of(), old_folder / "a"
    file.touch()
    os.utime(file, ns=(file.stat().st_mtime_ns - 10_000_000,) * 2)
    now_ns = file.stat().st_mtime_ns
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: now_ns)

    assert times.settled([str(file)]) == {str(file)}


def test_files_after_a_growing_file_wait_and_earlier_ones_do_not(
    old_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = times_of()
    before, grows, behind = (str(old_folder / name) for name in "cba")
    touch_later(before, written_before_it_came=True)
    touch_later(grows, written_before_it_came=False)
    touch_later(behind, written_before_it_came=True)
    now_ns = os.stat(grows).st_mtime_ns
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: now_ns)

    assert times.settled([behind, grows, before]) == {before}

    now_ns += 51_000_000
    assert times.settled([behind, grows]) == {behind, grows}


def test_files_that_arrive_during_a_listing_are_left_for_the_next(
    old_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, before, meanwhile = FolderTimes(), str(old_folder / "b"), str(old_folder / "a")
    touch_later(before, written_before_it_came=True)
    now_ns = os.stat(before).st_ctime_ns + 21_000_000
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: now_ns)
    times.clear()
    times.record(str(old_folder))

    touch_later(meanwhile, written_before_it_came=True)

    assert (times.settled([meanwhile, before]), times.changed()) == ({before}, True)
