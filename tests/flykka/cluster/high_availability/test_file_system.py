"""A store in a local folder: its lock belongs to a process, and is released when the process ends."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import warnings
from pathlib import Path

import pytest

from flykka.actors.errors import (
    CheckpointFormatError,
    CheckpointVersionError,
    LeadershipLostError,
    StoreUnavailableError,
)
from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.actors.ownership.mounts import OF_THE_NETWORK, file_system_of
from flykka.cluster.high_availability.file_system import FileSystemBackend, FileSystemHaServices
from flykka.cluster.high_availability.stores import services_of, store_settings
from flykka.errors import ClusterError
from tests.flykka.cluster.high_availability.contenders import Contender, lead
from tests.flykka.cluster.high_availability.driver import JOB
from tests.flykka.cluster.high_availability.processes import Driver
from tests.syncs import watched_syncs

MOUNTS = """\
22 1 0:20 / / rw,relatime - overlay overlay rw
35 22 8:1 / /data rw shared:1 - ext4 /dev/sda1 rw
40 35 0:40 / /data/home rw,noatime shared:2 master:1 - nfs4 server:/export rw,vers=4
41 22 0:41 / /my\\040disk rw - cifs //server/share rw
"""


def refuse_to_sync_folders(descriptor: int) -> None:
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class Holder:
    def acquired(self) -> None: ...

    def lost(self) -> None: ...

    def failed(self, error: BaseException) -> None: ...


def backend(folder: Path) -> FileSystemBackend:
    services = FileSystemBackend(str(folder))
    services.acquire(Holder())
    return services


def test_a_value_is_synced_before_its_name_and_new_folders_first(tmp_path: Path) -> None:
    leader = backend(tmp_path)

    with watched_syncs() as syncs:
        leader.write("jobs/a/owner", b"value", {})
    leader.close()

    folder = tmp_path / "jobs" / "a"
    synced = (tmp_path, tmp_path / "jobs", folder / ".owner", folder)
    assert syncs.paths == [str(path) for path in synced]


def test_every_flipped_bit_is_detected_and_old_values_are_read(tmp_path: Path) -> None:
    leader = backend(tmp_path)
    leader.write("owner", b"value", {})
    file = tmp_path / "owner"
    whole = file.read_bytes()

    for place in range(len(b"FLYKKA\r\n"), len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((CheckpointFormatError, CheckpointVersionError), match=str(file)):
            leader.read("owner")
    file.write_bytes(b"value")
    assert leader.read("owner") == b"value"
    leader.close()


def _completed(store: LeaderStore) -> list[int]:
    return [pointer.checkpoint_id for pointer in store.checkpoints(JOB).recover("next", 1).completed]


@pytest.mark.slow
def test_a_killed_driver_frees_the_lock_and_a_paused_one_keeps_it(tmp_path: Path) -> None:
    with Driver("file_system", str(tmp_path)) as driver:
        driver.wait_granted()
        assert driver.ask("recover") == "recovered []"
        services, waiting = FileSystemHaServices(str(tmp_path)), Contender()
        services.contend(waiting)

        driver.send(signal.SIGSTOP)
        driver.send_command("add 1")
        driver.send(signal.SIGCONT)
        added = driver.wait_line()
        heard_nothing = waiting.has_no_more_notifications
        driver.send(signal.SIGKILL)

        store = services.store(waiting.wait_granted())
        completed = _completed(store)
        services.close()

    assert (added, heard_nothing) == ("added 1", True)
    assert completed == [1]


@pytest.mark.slow
def test_a_driver_that_wakes_up_after_losing_its_folder_completes_nothing(tmp_path: Path) -> None:
    with Driver("file_system", str(tmp_path)) as driver:
        driver.wait_granted()
        driver.ask("recover")
        driver.ask("add 1")

        driver.send(signal.SIGSTOP)
        (tmp_path / "lock").unlink()
        services = FileSystemHaServices(str(tmp_path))
        store = lead(services)
        completed = _completed(store)
        driver.send_command("add 2")
        driver.send(signal.SIGCONT)
        said = {driver.wait_line().split()[0], driver.wait_line()}
        after = _completed(store)
        services.close()

    assert said == {"revoked", "refused LeadershipLostError"}
    assert completed == after == [1]


@pytest.mark.slow
def test_a_child_of_a_driver_does_not_keep_its_lock(tmp_path: Path) -> None:
    services = FileSystemHaServices(str(tmp_path))
    lead(services)
    waiting, other = Contender(), FileSystemHaServices(str(tmp_path))
    other.contend(waiting)
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The warning does not apply to a child process that makes no other calls.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)

    services.close()
    waiting.wait_granted()

    os.close(write)
    os.waitpid(child, 0)
    other.close()


def test_a_value_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    services = FileSystemHaServices(str(tmp_path))
    store = lead(services)
    run = store.run()
    (tmp_path / ".run").write_bytes(b"not finished")

    names = FileSystemBackend(str(tmp_path)).names("")
    services.close()

    assert "run" in names
    assert not [name for name in names if name.startswith(".")]
    assert lead(FileSystemHaServices(str(tmp_path))).run() == run


def test_removed_values_leave_no_folders(tmp_path: Path) -> None:
    store = lead(FileSystemHaServices(str(tmp_path)))
    checkpoints = store.checkpoints(JOB)
    checkpoints.recover("coordinator", 1)

    store.remove_job(JOB)

    assert not (tmp_path / "jobs").exists()


@pytest.mark.parametrize("address", ["s3://bucket/flykka", "hdfs://name/flykka"])
def test_a_folder_of_another_machine_is_refused(address: str) -> None:
    with pytest.raises(StoreUnavailableError, match=f"'{address}' is not a local folder; its lock works"):
        FileSystemHaServices(address)

    with pytest.raises(ClusterError, match="is not a local folder"):
        services_of(store_settings(address))


def test_the_file_system_type_is_that_of_the_nearest_mount() -> None:
    kinds = {
        path: file_system_of(Path(path), MOUNTS)
        for path in ("/tmp/x", "/data/x", "/data/home/me", "/data/homeless", "/my disk/x")
    }

    assert kinds == {
        "/tmp/x": "overlay",
        "/data/x": "ext4",
        "/data/home/me": "nfs4",
        "/data/homeless": "ext4",
        "/my disk/x": "cifs",
    }
    assert {"nfs4", "cifs"} <= OF_THE_NETWORK


def test_a_network_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 0:20 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr("flykka.actors.ownership.mounts._MOUNTS", mounts)

    with pytest.raises(StoreUnavailableError, match=r"is on a network file system \(nfs4\); .* or ZooKeeper"):
        FileSystemHaServices(str(tmp_path / "store"))


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(
        StoreUnavailableError, match=r"the high-availability folder '.*file/store' cannot be created: Not a dir"
    ):
        FileSystemHaServices(str(file / "store"))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    services = FileSystemHaServices(str(tmp_path))
    lead(services).run()
    (tmp_path / "run").write_bytes(b"\xc1")

    with pytest.raises(StoreUnavailableError, match=r"the high-availability folder .*: run cannot be read"):
        services.last_run()


def test_a_leader_steps_down_when_its_folder_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    services, contender = FileSystemHaServices(str(folder)), Contender()
    services.contend(contender)
    session = contender.wait_granted()

    shutil.rmtree(folder)
    with pytest.raises(LeadershipLostError):
        services.store(session).run()

    assert contender.wait_revoked() == session
    services.store(contender.wait_granted()).run()
    services.close()


@pytest.mark.parametrize("value", [b"new", None])
def test_a_leader_steps_down_after_an_uncertain_write_and_rereads_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: bytes | None
) -> None:
    services, contender = HighAvailabilityServices(FileSystemBackend(str(tmp_path))), Contender()
    services.contend(contender)
    session = contender.wait_granted()
    services._backend.write("jobs/a/owner", b"old", {})

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse_to_sync_folders)
        with pytest.raises(LeadershipLostError, match="it is unknown whether jobs/a/owner was written: Input/output"):
            services._backend.write("jobs/a/owner", value, {})

    assert contender.wait_revoked() == session
    contender.wait_granted()
    assert services._backend.read("jobs/a/owner") == value
    services.close()


def test_a_folder_that_cannot_be_synced_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refuse_to_sync_folders)

    with pytest.raises(StoreUnavailableError, match=r"the high-availability folder .* cannot be created: Input/output"):
        FileSystemBackend(str(tmp_path))
