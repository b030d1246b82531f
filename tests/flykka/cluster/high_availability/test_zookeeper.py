"""A real ZooKeeper: expiring sessions, drivers that are paused during the expiry, and servers that restart."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from kazoo.client import KazooClient

from flykka.actors.errors import LeadershipLostError, StoreUnavailableError
from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.cluster.high_availability import zookeeper_client
from flykka.cluster.high_availability.settings import ZooKeeperSettings
from flykka.cluster.high_availability.zookeeper import LARGEST_IN_NODE, ZooKeeperBackend, ZooKeeperHaServices
from flykka.cluster.high_availability.zookeeper_client import Node, ZooKeeperClient
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded
from tests.flykka.cluster.high_availability.contenders import PATIENCE, Contender, lead
from tests.flykka.cluster.high_availability.driver import JOB
from tests.flykka.cluster.high_availability.processes import Driver
from tests.flykka.cluster.high_availability.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.slow

SHORT_SESSION_MS = 4_000


@pytest.fixture
def raw(zookeeper_settings: ZooKeeperSettings) -> Iterator[KazooClient]:
    """An administrator's client, which may read and delete all nodes."""
    client = KazooClient(hosts=zookeeper_settings.hosts, timeout=60.0)
    client.start(PATIENCE)
    yield client
    client.stop()
    client.close()


def completed_checkpoint_ids(store: LeaderStore) -> list[int]:
    return [pointer.checkpoint_id for pointer in store.checkpoints(JOB).recover("next", 1).completed]


def zookeeper_driver(settings: ZooKeeperSettings, session_timeout_ms: int) -> Driver:
    return Driver("zookeeper", settings.hosts, settings.storage_dir, settings.path, str(session_timeout_ms))


def test_a_standby_takes_over_when_the_session_of_a_killed_driver_expires(
    zookeeper_settings: ZooKeeperSettings,
) -> None:
    services, waiting = ZooKeeperHaServices(zookeeper_settings), Contender()
    with zookeeper_driver(zookeeper_settings, SHORT_SESSION_MS) as first:
        first.wait_granted()
        before = [first.ask("recover"), first.ask("add 1")]
        services.contend(waiting)

        first.send(signal.SIGKILL)
        store = services.store(waiting.wait_granted())

        assert before == ["recovered []", "added 1"]
        assert completed_checkpoint_ids(store) == [1]
        services.close()


def test_a_driver_paused_during_its_session_expiry_completes_nothing(
    zookeeper_settings: ZooKeeperSettings,
) -> None:
    services, waiting = ZooKeeperHaServices(zookeeper_settings), Contender()
    with zookeeper_driver(zookeeper_settings, zookeeper_settings.session_timeout_ms) as first:
        first.wait_granted()
        before = [first.ask("recover"), first.ask("add 1")]
        services.contend(waiting)
        number, password = first.ask("session").split()

        first.send(signal.SIGSTOP)
        _end_session((int(number), bytes.fromhex(password)), zookeeper_settings)
        store = services.store(waiting.wait_granted())
        taken_over = completed_checkpoint_ids(store)
        first.send_command("add 2")
        first.send(signal.SIGCONT)
        said = {first.wait_line().split()[0], first.wait_line().split()[0]}
        after = completed_checkpoint_ids(store)
        services.close()

    assert before == ["recovered []", "added 1"]
    assert taken_over == after == [1]
    assert said == {"revoked", "refused"}


def test_a_leader_whose_session_expires_leads_again_with_a_new_session(
    zookeeper_settings: ZooKeeperSettings,
) -> None:
    backend = ZooKeeperBackend(zookeeper_settings)
    services, contender = HighAvailabilityServices(backend), Contender()
    services.contend(contender)
    first = contender.wait_granted()

    _end_session(_session(backend), zookeeper_settings)

    assert contender.wait_revoked() == first
    second = contender.wait_granted()
    with pytest.raises(LeadershipLostError):
        services.store(first).run()
    services.store(second).run()
    services.close()


def test_a_standby_takes_over_from_a_leader_whose_session_expires(zookeeper_settings: ZooKeeperSettings) -> None:
    backend = ZooKeeperBackend(zookeeper_settings)
    services, contender = HighAvailabilityServices(backend), Contender()
    services.contend(contender)
    contender.wait_granted()
    other, waiting = ZooKeeperHaServices(zookeeper_settings), Contender()
    other.contend(waiting)
    # Wait until the standby's latch follows the leader's latch, before the leader contends again.
    _wait_for_latches(backend, 2)

    _end_session(_session(backend), zookeeper_settings)

    contender.wait_revoked()
    waiting.wait_granted()
    assert contender.has_no_more_notifications
    other.close()
    contender.wait_granted()
    services.close()


def test_a_leader_whose_latch_is_deleted_is_notified_at_its_next_write(
    zookeeper_settings: ZooKeeperSettings, raw: KazooClient
) -> None:
    services, contender = ZooKeeperHaServices(zookeeper_settings), Contender()
    services.contend(contender)
    session = contender.wait_granted()

    [latch] = raw.get_children(f"{zookeeper_settings.path}/latch")
    raw.delete(f"{zookeeper_settings.path}/latch/{latch}")
    with pytest.raises(LeadershipLostError, match="this driver is not the leader"):
        services.store(session).run()

    assert contender.wait_revoked() == session
    services.store(contender.wait_granted()).run()
    services.close()


def test_a_restarted_server_finds_the_waiting_leader(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "server")
    server.start()
    settings = ZooKeeperSettings(hosts=server.hosts, storage_dir=str(tmp_path / "storage"), session_timeout_ms=100_000)
    services, contender = ZooKeeperHaServices(settings), Contender()
    services.contend(contender)
    store = services.store(contender.wait_granted())
    checkpoints = store.checkpoints(JOB)
    checkpoints.recover("coordinator", 10)

    server.kill()
    late = Thread(target=checkpoints.add, args=("coordinator", CheckpointPointer(checkpoint_id=1, path="/chk-1")))
    late.start()
    server.start()
    late.join(PATIENCE)

    assert not late.is_alive()
    assert completed_checkpoint_ids(store) == [1]
    assert contender.has_no_more_notifications
    services.close()
    server.kill()


def test_a_driver_skips_a_server_that_accepts_connections_but_is_silent(
    zookeeper_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_client, "HANDSHAKE_TIMEOUT", 0.5)
    contender = Contender()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # kazoo shuffles the servers. In this list a silent server nearly always comes first.
        silent_host = f"127.0.0.1:{silent.getsockname()[1]}"
        hosts = ",".join([zookeeper_settings.hosts, *[silent_host] * 9])
        services = ZooKeeperHaServices(replace(zookeeper_settings, hosts=hosts))
        services.contend(contender)

        services.store(contender.wait_granted()).run()

        services.close()


@pytest.mark.long
def test_a_leader_without_a_server_for_a_session_timeout_steps_down(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "server")
    server.start()
    settings = ZooKeeperSettings(
        hosts=server.hosts, storage_dir=str(tmp_path / "storage"), session_timeout_ms=SHORT_SESSION_MS
    )
    services, contender = ZooKeeperHaServices(settings), Contender()
    services.contend(contender)
    session = contender.wait_granted()

    server.kill()

    assert contender.wait_revoked() == session
    with pytest.raises(LeadershipLostError):
        services.confirm(session, "/user/job-manager")
    server.start()
    services.confirm(contender.wait_granted(), "/user/job-manager")
    services.close()
    server.kill()


@pytest.mark.parametrize("has_happened", [True, False])
def test_a_write_with_an_unknown_outcome_is_applied_once(
    zookeeper_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch, has_happened: bool
) -> None:
    services = ZooKeeperHaServices(zookeeper_settings)
    checkpoints = lead(services).checkpoints(JOB)
    checkpoints.recover("coordinator", 10)
    commit, answers = ZooKeeperClient.commit, [None]

    def lose_the_answer(
        client: ZooKeeperClient,
        latch: str,
        path: str,
        data: bytes | None,
        target: Node | None,
        checks: list[tuple[str, Node]],
    ) -> bool | None:
        if not answers:
            return commit(client, latch, path, data, target, checks)
        if has_happened:
            commit(client, latch, path, data, target, checks)
        return answers.pop()

    monkeypatch.setattr(ZooKeeperClient, "commit", lose_the_answer)
    drawn = checkpoints.draw_ids("coordinator", 5)
    answers.append(None)
    checkpoints.add("coordinator", CheckpointPointer(checkpoint_id=drawn, path="/chk"))
    answers.append(None)
    checkpoints.remove("coordinator", [drawn])

    assert (drawn, checkpoints.draw_ids("coordinator", 1)) == (11, 16)
    assert checkpoints.recover("coordinator", 1).completed == ()
    services.close()


def test_a_value_too_large_for_zookeeper_is_stored_in_a_file(
    zookeeper_settings: ZooKeeperSettings, raw: KazooClient
) -> None:
    services, storage = ZooKeeperHaServices(zookeeper_settings), Path(zookeeper_settings.storage_dir)
    store = lead(services)
    long_ago = JobEnded(job_id=JOB, status=JobStatus.FINISHED, checkpoint_path="x" * LARGEST_IN_NODE)

    store.put_result(long_ago)
    store.put_result(replace(long_ago, status=JobStatus.CANCELED))
    found, files = store.result(JOB), list(storage.iterdir())
    node, _ = raw.get(f"{zookeeper_settings.path}/results/{JOB}")
    store.put_result(JobEnded(job_id=JOB, status=JobStatus.FINISHED))

    assert found == replace(long_ago, status=JobStatus.CANCELED)
    assert len(files) == 1
    assert len(node) < 200
    assert list(storage.iterdir()) == []
    services.close()


def test_a_deleted_file_is_reported_by_name(zookeeper_settings: ZooKeeperSettings) -> None:
    services, storage = ZooKeeperHaServices(zookeeper_settings), Path(zookeeper_settings.storage_dir)
    store = lead(services)
    store.put_result(JobEnded(job_id=JOB, status=JobStatus.FINISHED, checkpoint_path="x" * LARGEST_IN_NODE))

    for file in storage.iterdir():
        file.unlink()

    with pytest.raises(StoreUnavailableError, match=f"the file of results/{JOB} is missing from the storage directory"):
        store.result(JOB)
    services.close()


def test_a_deleted_job_leaves_no_nodes(zookeeper_settings: ZooKeeperSettings, raw: KazooClient) -> None:
    services = ZooKeeperHaServices(zookeeper_settings)
    store = lead(services)
    store.checkpoints(JOB).recover("coordinator", 1)
    before = raw.exists(f"{zookeeper_settings.path}/jobs")

    store.remove_job(JOB)

    assert before is not None
    assert raw.exists(f"{zookeeper_settings.path}/jobs") is None
    services.close()


def test_unreachable_servers_are_named(zookeeper_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_client, "CONNECTION_TIMEOUT", 0.2)

    with pytest.raises(StoreUnavailableError, match=r"ZooKeeper at 127\.0\.0\.1:1 cannot be reached within"):
        ZooKeeperHaServices(replace(zookeeper_settings, hosts="127.0.0.1:1"))


def test_without_kazoo_the_error_names_the_package_to_install(
    zookeeper_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "flykka.cluster.high_availability.zookeeper_client")
    monkeypatch.setitem(sys.modules, "kazoo.client", None)

    with pytest.raises(StoreUnavailableError, match=r"without kazoo, .*: pip install 'flykka\[zookeeper\]'"):
        ZooKeeperHaServices(zookeeper_settings)


@pytest.mark.parametrize("path", ["flykka", "/flykka/", "/a//b", "/"])
def test_an_invalid_zookeeper_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="a path in ZooKeeper begins with a slash and ends without one"):
        ZooKeeperSettings(hosts="zk:2181", storage_dir="/shared", path=path)


def _end_session(session: tuple[int, bytes], settings: ZooKeeperSettings) -> None:
    """End a session as a timeout would: close it from another client with its password."""
    double = KazooClient(hosts=settings.hosts, timeout=60.0, client_id=session)
    double.start(PATIENCE)
    double.stop()
    double.close()


def _session(backend: ZooKeeperBackend) -> tuple[int, bytes]:
    session: tuple[int, bytes] = backend._client._kazoo.client_id
    return session


def _wait_for_latches(backend: ZooKeeperBackend, number: int) -> None:
    client = backend._client._kazoo
    while len(client.get_children(f"{backend._client._root}/latch")) < number:
        client.sync(backend._client._root)
