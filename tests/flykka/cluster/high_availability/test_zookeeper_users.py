"""A real ZooKeeper with user accounts: no user can read or write another user's data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from flykka.actors.errors import StoreUnavailableError
from flykka.cluster.high_availability.settings import ZooKeeperAcl, ZooKeeperSettings
from flykka.cluster.high_availability.stores import store_settings
from flykka.cluster.high_availability.zookeeper import LARGEST_IN_NODE, ZooKeeperHaServices
from flykka.errors import ProgramError
from flykka.messages.control.high_availability import ApplicationRun
from tests.flykka.cluster.high_availability.contenders import PATIENCE, Contender
from tests.flykka.cluster.high_availability.zookeeper_server import ZooKeeperServer

USERS = {"prices": "a secret", "orders": "another"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), USERS)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def settings(server: ZooKeeperServer, tmp_path: Path) -> ZooKeeperSettings:
    for name, password in USERS.items():
        (tmp_path / name).write_text(f"{password}\n")
    return ZooKeeperSettings(
        hosts=server.hosts,
        storage_dir=str(tmp_path / "storage"),
        path=f"/{tmp_path.name}",
        session_timeout_ms=60_000,
        acl="creator",
        username="prices",
        password_file=str(tmp_path / "prices"),
    )


def run_of(settings: ZooKeeperSettings) -> str:
    services, contender = ZooKeeperHaServices(settings), Contender()
    try:
        services.contend(contender)
        return services.store(contender.wait_granted()).run()
    finally:
        services.close()


@pytest.mark.slow
def test_the_next_driver_of_the_same_user_continues_the_run(settings: ZooKeeperSettings) -> None:
    assert run_of(settings) == run_of(settings)


@pytest.mark.slow
@pytest.mark.parametrize("stranger", [None, "orders"])
def test_other_users_can_neither_read_nor_write(
    stranger: str | None, settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    run = run_of(settings)
    password_file = None if stranger is None else str(tmp_path / stranger)
    theirs = replace(settings, acl="open", username=stranger, password_file=password_file)

    with (
        pytest.raises(StoreUnavailableError, match=f"{settings.path} belongs to another user: log in as its owner"),
        closing(ZooKeeperHaServices(theirs)) as services,
    ):
        services.last_run()
    assert run_of(settings) == run


@pytest.mark.slow
def test_all_created_nodes_belong_to_the_user(settings: ZooKeeperSettings) -> None:
    services, contender = ZooKeeperHaServices(settings), Contender()
    services.contend(contender)
    store = services.store(contender.wait_granted())
    store.write("jobs/a/graph", ApplicationRun(run_id="x" * LARGEST_IN_NODE))
    raw = KazooClient(hosts=settings.hosts)
    raw.start(PATIENCE)

    for path in ("", "/latch", "/session", "/jobs", "/jobs/a", "/jobs/a/graph"):
        with pytest.raises(NoAuthError):
            raw.get(f"{settings.path}{path}")

    raw.stop()
    raw.close()
    services.close()


@pytest.mark.slow
def test_a_path_below_another_users_path_is_refused(settings: ZooKeeperSettings, tmp_path: Path) -> None:
    run_of(settings)
    below = replace(settings, username="orders", password_file=str(tmp_path / "orders"), path=f"{settings.path}/below")

    services, contender = ZooKeeperHaServices(below), Contender()
    services.contend(contender)

    assert "/below belongs to another user" in str(contender.wait_failed())
    services.close()


@pytest.mark.slow
def test_a_wrong_password_is_reported_at_once(settings: ZooKeeperSettings, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text("wrong")

    with pytest.raises(StoreUnavailableError, match="refuses the login of 'prices': check the user"):
        ZooKeeperHaServices(settings)


def test_a_missing_password_file_is_named() -> None:
    settings = ZooKeeperSettings(hosts="127.0.0.1:1", storage_dir="/tmp", username="prices", password_file="/not/there")

    with pytest.raises(StoreUnavailableError, match="the password file /not/there cannot be read"):
        ZooKeeperHaServices(settings)


def test_missing_packages_of_the_extra_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.cluster.high_availability.zookeeper_client.find_spec", lambda module: None)
    settings = ZooKeeperSettings(hosts="127.0.0.1:1", storage_dir="/tmp", username="prices", password_file="/there")

    with pytest.raises(StoreUnavailableError, match=r"needs pure-sasl for a user, .*flykka\[zookeeper\]"):
        ZooKeeperHaServices(settings)


def test_a_printed_command_line_names_the_user_but_not_the_password() -> None:
    settings = store_settings("zookeeper://zk:2181/prices?storage_dir=/s&acl=creator&username=me&password_file=/secret")

    assert settings == ZooKeeperSettings(
        hosts="zk:2181",
        storage_dir="/s",
        path="/prices",
        acl=ZooKeeperAcl.CREATOR,
        username="me",
        password_file="/secret",
    )


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ("&acl=mine", "the acl is one of open, creator, not 'mine'"),
        ("&acl=creator", "with acl 'creator' the nodes belong to a user: give username and password_file"),
        ("&username=me", "give both username and password_file, or none of them"),
        ("&password=x", "contains no address of ZooKeeper"),
    ],
)
def test_invalid_users_are_refused(more: str, error: str) -> None:
    with pytest.raises(ProgramError, match=error):
        store_settings(f"zookeeper://zk:2181/prices?storage_dir=/s{more}")
