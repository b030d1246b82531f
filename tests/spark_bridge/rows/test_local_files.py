"""Tests that local files are listed as Hadoop lists them, without Hadoop."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.rows.filesystem import FileSystem

pytestmark = pytest.mark.spark


class ByHadoop(FileSystem):
    def local(self, path: str) -> str | None:
        return None


@pytest.fixture(params=[FileSystem, ByHadoop], ids=["local", "hadoop"])
def filesystem(request: pytest.FixtureRequest, spark: SparkSession) -> FileSystem:
    created: FileSystem = request.param(spark)
    return created


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.parquet", "a.parquet", "day=1/c d.parquet", "_hidden/x", ".a.parquet.crc", "_day=2/e"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "tree" / "gone").symlink_to(tmp_path / "nowhere")
    return tmp_path / "tree"


def test_local_and_hadoop_listings_are_equal(filesystem: FileSystem, tree: Path) -> None:
    listed = [(status.name, status.path, status.size_bytes, status.is_folder) for status in filesystem.list(str(tree))]

    assert [each for each in listed if not each[-1]] == [
        ("a.parquet", f"file:{tree}/a.parquet", 9, False),
        ("b.parquet", f"file:{tree}/b.parquet", 9, False),
    ]
    assert [name for name, _, _, is_folder in listed if is_folder] == ["_day=2", "_hidden", "day=1"]
    assert filesystem.list(str(tree / "nothing")) == []


def test_local_and_hadoop_recursive_listings_are_equal(filesystem: FileSystem, tree: Path) -> None:
    expected = {f"file:{tree}/{name}" for name in ("a.parquet", "b.parquet", "day=1/c d.parquet", "_day=2/e")}

    assert {status.path for status in filesystem.files_below(f"file:{tree}")} == expected
    assert set(filesystem.paths_below(str(tree))) == expected
    assert filesystem.bytes_below(str(tree)) == sum(len(path) - len(f"file:{tree}/") for path in expected)


def test_local_and_hadoop_status_rename_and_delete_are_equal(filesystem: FileSystem, tree: Path) -> None:
    assert filesystem.exists(f"{tree}/a.parquet")
    assert filesystem.is_folder(f"file:{tree}/day=1")
    assert not filesystem.is_folder(str(tree / "a.parquet"))
    assert filesystem.size_bytes(str(tree / "b.parquet")) == 9

    assert filesystem.rename(f"file:{tree}/b.parquet", f"{tree}/day=1/b.parquet")
    filesystem.delete(str(tree / "a.parquet"))
    filesystem.delete(str(tree / "nothing"))
    emptied = filesystem.delete_if_empty(str(tree / "day=1"))
    filesystem.delete(f"file:{tree}/day=1")

    assert not emptied
    assert sorted(path.name for path in tree.iterdir()) == ["_day=2", "_hidden", "gone"]


def test_local_and_hadoop_create_folders_and_delete_empty_ones_equally(filesystem: FileSystem, tree: Path) -> None:
    filesystem.make_folder(str(tree / "x" / "y"))
    filesystem.make_folder(str(tree / "x" / "y"))
    (tree / "x" / "file").touch()

    assert filesystem.delete_if_empty(str(tree / "x" / "y"))
    assert not filesystem.delete_if_empty(str(tree / "x"))
    with pytest.raises(OSError, match=r"file|directory"):
        filesystem.make_folder(str(tree / "x" / "file" / "below"))


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/in/a b%20", "/in/a b%20"),
        ("file:/in", "/in"),
        ("file:///in", "/in"),
        ("file://host/in", None),
        ("in", None),
        ("hdfs://cluster/in", None),
    ],
)
def test_a_local_path_is_distinguished_from_others(spark: SparkSession, path: str, local: str | None) -> None:
    assert FileSystem(spark).local(path) == local
