"""Fixtures of the high-availability stores: each contract test runs on every store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from flykka.actors.high_availability.embedded import EmbeddedBackend, EmbeddedStore
from flykka.cluster.high_availability.file_system import FileSystemBackend
from flykka.cluster.high_availability.settings import ZooKeeperSettings
from flykka.cluster.high_availability.zookeeper import ZooKeeperBackend
from tests.flykka.cluster.high_availability.places import Place
from tests.flykka.cluster.high_availability.zookeeper_server import ZooKeeperServer

_paths = count(1)


@pytest.fixture
def memory() -> Iterator[Place]:
    store = EmbeddedStore()
    with Place(lambda: EmbeddedBackend(store)) as place:
        yield place


@pytest.fixture
def file_system(tmp_path: Path) -> Iterator[Place]:
    with Place(lambda: FileSystemBackend(str(tmp_path / "store"))) as place:
        yield place


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server for all tests that do not stop it."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def zookeeper_settings(zookeeper_server: ZooKeeperServer, tmp_path: Path) -> ZooKeeperSettings:
    """Settings of an empty store whose sessions outlast any pause of this machine."""
    return ZooKeeperSettings(
        hosts=zookeeper_server.hosts,
        storage_dir=str(tmp_path / "storage"),
        path=f"/flykka/{next(_paths)}",
        session_timeout_ms=60_000,
    )


@pytest.fixture
def zookeeper(zookeeper_settings: ZooKeeperSettings) -> Iterator[Place]:
    with Place(lambda: ZooKeeperBackend(zookeeper_settings)) as place:
        yield place


@pytest.fixture(params=["memory", "file_system", pytest.param("zookeeper", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> Place:
    """An empty store of each type in turn."""
    found: Place = request.getfixturevalue(request.param)
    return found
