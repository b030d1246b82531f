"""Leases: an owner renews its lease, a new process relies only on its own clock, and a replaced owner stops writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer

from flykka.actors.errors import OwnedByAnotherError, OwnershipLostError
from flykka.actors.ownership import owner_lock
from flykka.actors.ownership.folders import FsspecFiles, own, sink_folder
from flykka.actors.ownership.owner_lease import OwnerLease
from tests.actors.ownership.waiters import VirtualClock, counts_in

DIRECTORY = "memory://checkpoints"
LEASE = 15.0


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Treat all owners in a test as different processes, with an initially empty store."""
    monkeypatch.setattr(owner_lock, "_TOKENS", _NoTokens())
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


class _NoTokens(set[str]):
    def add(self, token: str) -> None: ...


def lease(clock: VirtualClock, *, patient: bool = False, directory: object = DIRECTORY) -> OwnerLease:
    owned = own(counts_in(directory), clock.waiting(patient=patient))
    assert isinstance(owned, OwnerLease)
    return owned


def test_a_new_process_is_refused_if_the_lease_is_renewed_meanwhile() -> None:
    owner = lease(VirtualClock())
    newcomer = VirtualClock(1_000_000.0, each_pause=owner.confirm)

    with pytest.raises(OwnedByAnotherError, match=r"process .* of user .* on host .* since"):
        lease(newcomer)

    assert len(newcomer.said) == 1
    assert newcomer.said[0].startswith("waiting for up to 15 s: process")
    owner.check()


def test_a_new_process_takes_over_after_a_lease_without_renewal() -> None:
    lease(VirtualClock(5.0))
    newcomer = VirtualClock(1_000_000.0)

    successor = lease(newcomer)

    assert successor.number == 2
    assert newcomer.seconds == pytest.approx(1_000_000.0 + LEASE)


def test_a_released_lease_is_acquired_at_once() -> None:
    lease(VirtualClock()).release()
    newcomer = VirtualClock()

    successor = lease(newcomer)

    assert (successor.number, newcomer.seconds, newcomer.said) == (2, 0.0, [])


def test_a_release_ends_the_wait_of_a_new_process() -> None:
    owner = lease(VirtualClock())
    newcomer = VirtualClock(each_pause=owner.release)

    assert lease(newcomer).number == 2
    assert newcomer.seconds < LEASE


def test_a_paused_and_replaced_owner_does_not_touch_its_successors_record() -> None:
    clock = VirtualClock()
    owner = lease(clock)
    heard: list[OwnershipLostError] = []
    owner._on_lost = heard.append
    owner.check()
    successor = lease(VirtualClock())
    clock.seconds += LEASE  # The process was suspended.

    with pytest.raises(OwnershipLostError, match=r"to process .* \(owner 2\); this process was its owner 1"):
        owner.check()

    assert len(heard) == 1
    owner.release()
    successor.confirm()
    assert [name for name in owner_files() if "counts" in name] == [f"{name_of(2)}"]


def test_an_owner_whose_clock_was_paused_detects_its_successor() -> None:
    owner = lease(VirtualClock())
    lease(VirtualClock())

    owner.check()  # The lease is valid by the owner's clock.
    with pytest.raises(OwnershipLostError):
        owner.confirm()
    with pytest.raises(OwnershipLostError):
        owner.check()


def test_an_owner_renews_an_expired_lease_without_a_successor() -> None:
    clock = VirtualClock()
    owner = lease(clock)
    clock.seconds += 10 * LEASE

    owner.check()

    watching = VirtualClock(each_pause=owner.confirm)
    with pytest.raises(OwnedByAnotherError):
        lease(watching)


def test_only_one_of_two_concurrent_new_processes_becomes_owner() -> None:
    lease(VirtualClock())
    owners: list[int] = []
    second = VirtualClock()

    def both_wait() -> None:
        if second.seconds == 0.0:
            owners.append(lease(second).number)

    with pytest.raises(OwnedByAnotherError):
        lease(VirtualClock(each_pause=both_wait))

    assert owners == [2]


def test_a_new_process_that_writes_later_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    create = FsspecFiles.create
    winners: list[OwnerLease] = []

    def be_slow(files: FsspecFiles, name: str, data: bytes) -> None:
        monkeypatch.setattr(FsspecFiles, "create", create)
        winners.append(lease(VirtualClock()))
        create(files, name, data)

    monkeypatch.setattr(FsspecFiles, "create", be_slow)

    with pytest.raises(OwnedByAnotherError):
        lease(VirtualClock())

    winners[0].confirm()


def test_the_last_writer_owns_a_store_without_exclusive_file_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.actors.ownership.folders._EXCLUSIVE", frozenset())
    record = name_of(1)

    def another_writes() -> None:
        folder = counts_in(DIRECTORY)
        FsspecFiles(MemoryFileSystem(), "/checkpoints/runs").write(record, folder.record(1).data())

    first = VirtualClock(each_pause=another_writes)
    with pytest.raises(OwnedByAnotherError):
        lease(first)

    assert first.seconds == pytest.approx(LEASE / 3)


def test_a_waiting_process_becomes_owner_when_the_owner_has_ended() -> None:
    owner = lease(VirtualClock())
    renewals = iter(range(5))
    standby = VirtualClock(each_pause=lambda: owner.confirm() if next(renewals, None) is not None else None)

    successor = lease(standby, patient=True)

    assert successor.number == 2
    assert len(standby.said) == 1
    assert standby.seconds > LEASE


def test_a_replaced_owner_of_a_sink_folder_loses_its_record(tmp_path: Path) -> None:
    files = FsspecFiles(MemoryFileSystem(), "/output/.flykka-staging")
    folder = sink_folder("memory://output", "/output/.flykka-staging", counts_in(tmp_path))
    clock = VirtualClock()
    owner = own(folder, clock.waiting(), files)
    own(folder, VirtualClock().waiting(), files).release()
    assert files.names() == []
    clock.seconds += LEASE

    with pytest.raises(OwnershipLostError):
        owner.check()

    assert files.names() == []


def test_renewal_continues_after_an_error_of_a_store_library(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = own(counts_in(DIRECTORY, lease_ms=30), VirtualClock().waiting())
    write, renewed = FsspecFiles.write, Event()
    errors = iter([RuntimeError("no route to the store")])

    def fail_once(files: FsspecFiles, name: str, data: bytes) -> None:
        if (error := next(errors, None)) is not None:
            raise error
        write(files, name, data)
        renewed.set()

    monkeypatch.setattr(FsspecFiles, "write", fail_once)
    owner.start(lambda error: None)

    assert renewed.wait(30)
    owner.release()


def test_a_network_file_system_uses_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 0:20 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr("flykka.actors.ownership.mounts._MOUNTS", mounts)
    owner = lease(VirtualClock(), directory=tmp_path)

    with pytest.raises(OwnedByAnotherError):
        lease(VirtualClock(each_pause=owner.confirm), directory=tmp_path)

    assert lease(VirtualClock(), directory=tmp_path).number == 2


@pytest.mark.slow
def test_an_object_store_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "any", "secret": "any", "endpoint_url": f"http://{host}:{port}"}
    monkeypatch.setitem(fsspec.config.conf, "s3", options)
    try:
        fsspec.filesystem("s3").mkdir("owned-bucket")
        directory = "s3://owned-bucket/checkpoints"
        owner = lease(VirtualClock(), directory=directory)
        with pytest.raises(OwnedByAnotherError):
            lease(VirtualClock(each_pause=owner.confirm), directory=directory)
        assert lease(VirtualClock(), directory=directory).number == 2
        with pytest.raises(OwnershipLostError):
            owner.confirm()
        files = FsspecFiles(fsspec.filesystem("s3"), "owned-bucket/checkpoints/runs")
        with pytest.raises(FileExistsError):
            files.create(name_of(2), b"")
    finally:
        server.stop()


def owner_files() -> list[str]:
    return FsspecFiles(MemoryFileSystem(), "/checkpoints/runs").names()


def name_of(number: int) -> str:
    return f"{counts_in(DIRECTORY).file.rsplit('/', 1)[-1]}.{number}"
