"""Tests a watched folder: whether a file has arrived, and whether it is complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.file.source import FileSource
from tests.spark_bridge.connectors.file.test_source import discovery, file_names

pytestmark = pytest.mark.spark


def test_a_monitored_folder_reports_a_new_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    os.utime(tmp_path / "in", (1, 1))
    source = FileSource.json(tmp_path / "in", schema="n int").monitor_continuously("1h")
    look = discovery(spark, source)
    assert look.discover(b"").splits == ()
    assert look.changed is not None
    before = look.changed()

    (tmp_path / "in" / "a.json").write_text('{"n": 1}')

    assert (before, look.changed()) == (False, True)


def test_a_source_that_does_not_watch_discovers_only_at_its_interval(spark: SparkSession, tmp_path: Path) -> None:
    source = FileSource.json(tmp_path, schema="n int").monitor_continuously("1h", watch=False)

    assert discovery(spark, source).changed is None


def test_a_file_still_being_written_is_left_for_a_later_discovery(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n{"n"')
    written_ns = (tmp_path / "in" / "a.json").stat().st_mtime_ns
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: written_ns)
    look = discovery(spark, FileSource.json(tmp_path / "in", schema="n int").monitor_continuously("1h"))

    discovered = look.discover(b"")
    assert (discovered.splits, discovered.finished) == ((), False)

    (tmp_path / "in" / "_SUCCESS").touch()
    last = look.discover(discovered.position)
    assert (file_names(last), last.finished) == ([["a.json"]], True)


def test_files_are_discovered_in_arrival_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    # Both files were renamed into the folder. Only for the second file does a clock tick show that it was complete
    # before.
    (folder / "a.json").write_text('{"n": 1}')
    (folder / "b.json").write_text('{"n": 2}')
    os.utime(folder / "b.json", (1, 1))
    now_ns = (folder / "a.json").stat().st_mtime_ns
    monkeypatch.setattr("flykka.spark_bridge.connectors.file.split_discovery.time.time_ns", lambda: now_ns)
    look = discovery(spark, FileSource.json(folder, schema="n int").monitor_continuously("1h").files_per_batch(2))

    discovered = look.discover(b"")
    assert discovered.splits == ()

    now_ns += 51_000_000
    assert file_names(look.discover(discovered.position)) == [["a.json", "b.json"]]
