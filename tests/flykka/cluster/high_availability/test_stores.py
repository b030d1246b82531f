"""The configured store, its checkpoints, and the store of an application's next environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flykka.actors.high_availability.embedded import EmbeddedBackend
from flykka.api.launch import Launch, LaunchOptions
from flykka.cluster.high_availability.settings import ZooKeeperSettings
from flykka.cluster.high_availability.stores import (
    FolderSettings,
    StoreSettings,
    checkpoint_directory,
    numbered,
    services_of,
    store_settings,
)
from flykka.errors import ProgramError

ZOOKEEPER = ZooKeeperSettings(hosts="zk1:2181,zk2:2181", storage_dir="s3://bucket/store", path="/flykka/prices")
FOLDER = FolderSettings(directory="/data/store")


def test_a_store_is_a_folder_a_zookeeper_path_or_absent() -> None:
    words = "zookeeper://zk1:2181,zk2:2181/flykka/prices?storage_dir=s3://bucket/store"

    assert store_settings(None) is None
    assert store_settings("/data/store") == FOLDER
    assert store_settings(Path("/data/store")) == FOLDER
    assert store_settings("store") == FolderSettings(directory=f"{os.getcwd()}/store")
    assert store_settings(ZOOKEEPER) is ZOOKEEPER
    assert store_settings(words) == ZOOKEEPER
    assert store_settings("zookeeper://zk1:2181?storage_dir=/data") == ZooKeeperSettings(
        hosts="zk1:2181", storage_dir="/data"
    )


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("", "high_availability is a folder, zookeeper://HOST:PORT"),
        ("zookeeper://zk1:2181/flykka", "contains no address of ZooKeeper, or no folder"),
        ("zookeeper:///flykka?storage_dir=/data", "contains no address of ZooKeeper, or no folder"),
        ("zookeeper://zk1:2181/flykka/?storage_dir=/data", "begins with a slash and ends without one"),
    ],
)
def test_an_invalid_store_is_refused_with_valid_ones(said: str, text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        store_settings(said)


def test_checkpoints_are_below_the_store_directory() -> None:
    assert checkpoint_directory(FOLDER) == "/data/store/checkpoints"
    assert checkpoint_directory(ZOOKEEPER) == "s3://bucket/store/checkpoints"


def test_each_environment_of_an_application_has_its_own_store() -> None:
    assert [numbered(FOLDER, number) for number in (1, 2)] == [FOLDER, FolderSettings(directory="/data/store-2")]
    second = numbered(ZOOKEEPER, 2)
    assert isinstance(second, ZooKeeperSettings)
    assert (numbered(ZOOKEEPER, 1), second.path) == (ZOOKEEPER, "/flykka/prices-2")


def test_a_launcher_overrides_the_store_of_each_environment_of_the_app() -> None:
    launch = Launch(LaunchOptions(values={"high_availability": FOLDER}))

    assert [store_of_app(launch) for _ in range(2)] == [FOLDER, FolderSettings(directory="/data/store-2")]
    assert store_of_app(Launch()) is ZOOKEEPER


def store_of_app(launch: Launch) -> StoreSettings | None:
    """Return the store of another environment, whose app configures ZooKeeper."""
    options = launch.environment_options()
    options.set_options({"high_availability": ZOOKEEPER})
    return options.cluster_settings().high_availability


def test_by_default_everything_is_stored_in_memory() -> None:
    assert services_of(None).name == EmbeddedBackend.name
