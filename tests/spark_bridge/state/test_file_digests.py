"""Tests digests of the files that Spark has written, and the syncs that make the files durable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError
from flykka.spark_bridge.rows.files import write_files
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.state import file_digests as module
from flykka.spark_bridge.state.file_digests import seal, verify
from tests.syncs import Syncs, watched_syncs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def write_range_files(spark: SparkSession, folder: Path) -> tuple[str, list[str]]:
    filesystem = FileSystem(spark)
    path = filesystem.qualified(str(folder))
    files = write_files(filesystem, spark.range(0, 100, numPartitions=3), path)
    return path, [file.path for file in files]


def test_executors_compute_the_same_digests_as_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, files = write_range_files(spark, tmp_path / "rows")

    here = seal(spark, files, folder)
    monkeypatch.setattr(module, "has_one_machine", lambda session: False)
    there = seal(spark, files, folder)

    assert here == there
    assert [file.name for file in here] == [path.removeprefix(f"{folder}/") for path in files]
    verify(spark, list(zip(files, there, strict=True)))


@pytest.mark.parametrize("has_one_machine", [True, False])
def test_verify_names_the_changed_or_removed_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_one_machine: bool
) -> None:
    folder, files = write_range_files(spark, tmp_path / "rows")
    sealed = list(zip(files, seal(spark, files, folder), strict=True))
    monkeypatch.setattr(module, "has_one_machine", lambda session: has_one_machine)
    second = Path(files[1].removeprefix("file:"))

    second.write_bytes(second.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointFormatError, match=f"{second.name} is damaged: its content differs"):
        verify(spark, sealed)
    second.write_bytes(second.read_bytes()[:10])
    with pytest.raises(CheckpointFormatError, match=f"{second.name} is damaged: .* but it has 10"):
        verify(spark, sealed)
    second.unlink()
    with pytest.raises((CheckpointStateMissingError, CheckpointFormatError), match=f"{second.name} is missing"):
        verify(spark, sealed)


def test_files_are_synced_before_the_folders_that_name_them(spark: SparkSession, tmp_path: Path) -> None:
    folder, files = write_range_files(spark, tmp_path / "job" / "rows")

    with watched_syncs() as syncs:
        seal(spark, files, folder, within=f"file:{tmp_path}/job")

    local = [path.removeprefix("file:") for path in files]
    assert sorted(syncs.paths[:3]) == sorted(local)
    assert syncs.paths[3:] == [f"{tmp_path}/job/rows", f"{tmp_path}/job"]
    assert sorted(path.name for path in (tmp_path / "job" / "rows").iterdir()) == sorted(
        path.rsplit("/", 1)[1] for path in local
    )


def test_no_file_is_synced_if_syncing_is_disabled(spark: SparkSession, tmp_path: Path) -> None:
    folder, files = write_range_files(spark, tmp_path / "rows")

    with watched_syncs() as syncs:
        sealed = seal(spark, files, folder, sync=False)

    assert syncs == Syncs()
    assert len(sealed) == 3
