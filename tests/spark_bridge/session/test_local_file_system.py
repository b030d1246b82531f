"""Tests that the JVM's local file system sets permissions as Hadoop's does."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.session.local_file_system import NIO_LOCAL_FILE_SYSTEM, set_permissions_without_processes
from flykka.spark_bridge.session.session import engine_session

pytestmark = pytest.mark.spark


class Hadoop:
    def __init__(self, session: SparkSession) -> None:
        context = session.sparkContext
        assert context._jvm is not None
        self._jvm = context._jvm
        self.configuration = context._jsc.hadoopConfiguration()

    def path(self, path: Path) -> Any:
        return getattr(self._jvm, "org.apache.hadoop.fs.Path")(str(path))

    def permission(self, octal: str) -> Any:
        return getattr(self._jvm, "org.apache.hadoop.fs.permission.FsPermission")(octal)

    def local_file_system(self) -> Any:
        return self.path(Path("/")).getFileSystem(self.configuration)


@pytest.fixture
def hadoop(spark: SparkSession) -> Hadoop:
    return Hadoop(engine_session(spark))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("octal", ["000", "400", "644", "751", "777", "1777"])
def test_permissions_are_set_as_requested(hadoop: Hadoop, tmp_path: Path, octal: str) -> None:
    (tmp_path / "file").touch()

    hadoop.local_file_system().setPermission(hadoop.path(tmp_path / "file"), hadoop.permission(octal))

    assert mode(tmp_path / "file") == int(octal, 8)


def test_jobs_use_flykkas_file_system_with_hadoops_permissions(hadoop: Hadoop, tmp_path: Path) -> None:
    ours = hadoop.local_file_system()
    theirs = getattr(hadoop._jvm, "org.apache.hadoop.fs.LocalFileSystem")()
    theirs.initialize(ours.getUri(), hadoop.configuration)

    for name, file_system in {"ours": ours, "theirs": theirs}.items():
        file_system.create(hadoop.path(tmp_path / name / "below" / "file")).close()

    assert ours.getClass().getName() == NIO_LOCAL_FILE_SYSTEM
    for name in ("below", "below/file", "below/.file.crc"):
        assert mode(tmp_path / "ours" / name) == mode(tmp_path / "theirs" / name)


def test_a_missing_file_raises_hadoops_error(hadoop: Hadoop, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"java\.nio\.file\.NoSuchFileException"):
        hadoop.local_file_system().setPermission(hadoop.path(tmp_path / "none"), hadoop.permission("644"))


def test_a_configured_file_system_is_not_replaced(hadoop: Hadoop, spark: SparkSession) -> None:
    chosen = "org.apache.hadoop.fs.LocalFileSystem"
    hadoop.local_file_system().close()
    hadoop.configuration.set("fs.file.impl", chosen)
    try:
        set_permissions_without_processes(spark.sparkContext)
        assert hadoop.local_file_system().getClass().getName() == chosen
    finally:
        hadoop.configuration.unset("fs.file.impl")
    set_permissions_without_processes(spark.sparkContext)
    assert hadoop.local_file_system().getClass().getName() == NIO_LOCAL_FILE_SYSTEM
