"""Locks on the record in the folder: one owner at a time, for any process, user and path."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import Pipe, get_context
from pathlib import Path

import pytest

from flykka.actors.errors import JobOwnershipError, OwnedByAnotherError, OwnershipLostError
from flykka.actors.ownership.folders import checkpoint_folder, own, sink_folder
from flykka.actors.ownership.owner_lock import OwnerLock
from flykka.actors.ownership.ownership import LEASE_MS, Ownership
from tests.actors.ownership.waiters import VirtualClock, counts_in
from tests.layout.sources import ROOT
from tests.syncs import watched_syncs

NOBODY = 65_534


def owner_of(directory: Path) -> Ownership:
    return own(counts_in(directory), VirtualClock().waiting())


def owner_record(directory: Path) -> dict[str, object]:
    (file,) = (directory / "runs").glob("*.owner")
    content: dict[str, object] = json.loads(file.read_text())
    return content


@pytest.fixture
def shared() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="owned-", dir="/var/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_record_names_its_owner_and_owner_numbers_increase(tmp_path: Path) -> None:
    first = owner_of(tmp_path)
    number, pid = owner_record(tmp_path)["number"], owner_record(tmp_path)["pid"]
    first.release()

    assert (number, pid) == (1, os.getpid())
    assert owner_of(tmp_path).number == 2


def test_a_second_environment_in_one_process_is_refused(tmp_path: Path) -> None:
    first = owner_of(tmp_path)

    with pytest.raises(OwnedByAnotherError, match=rf"this process \({os.getpid()}\) has owned .*{tmp_path}"):
        owner_of(tmp_path)

    first.check()


def test_jobs_with_different_names_can_own_the_same_folder(tmp_path: Path) -> None:
    first = owner_of(tmp_path)
    second = own(checkpoint_folder(str(tmp_path), "sums", LEASE_MS), VirtualClock().waiting())

    assert (first.number, second.number) == (1, 1)


def test_a_waiting_process_takes_over_when_the_owner_has_ended(tmp_path: Path) -> None:
    said, says = Pipe(duplex=False)

    def hold() -> None:
        owner = owner_of(tmp_path)
        says.send(owner.number)
        signal.pause()
        owner.release()

    owner = get_context("fork").Process(target=hold)
    owner.start()
    assert said.recv() == 1
    pid = owner.pid

    def kill_owner() -> None:
        owner.kill()
        owner.join()

    clock = VirtualClock(each_pause=kill_owner)

    successor = own(counts_in(tmp_path), clock.waiting(patient=True))

    assert successor.number == 2
    assert len(clock.said) == 1
    assert clock.said[0].startswith(f"waiting: process {pid} of user ")
    assert str(tmp_path) in clock.said[0]


@pytest.mark.parametrize(
    ("stores", "taken"), [(("a", "a"), True), (("a", "b"), False), (("", "a"), False), (("a", ""), False)]
)
def test_a_leader_replaces_only_a_paused_owner_of_its_own_store(
    stores: tuple[str, str], taken: bool, tmp_path: Path
) -> None:
    paused, leader = (replace(counts_in(tmp_path), store=store) for store in stores)
    owner = own(paused, VirtualClock().waiting())
    waiting = replace(VirtualClock().waiting(), leads=lambda: True)

    if taken:
        assert own(leader, waiting).number == 2
        with pytest.raises(OwnershipLostError, match=r"\(owner 2\); this process was its owner 1"):
            owner.check()
        owner.release()
        assert owner_record(tmp_path)["number"] == 2
    else:
        with pytest.raises(OwnedByAnotherError):
            own(leader, waiting)
        owner.check()


def file(directory: Path) -> Path:
    (found,) = (directory / "runs").glob("*.owner")
    return found


def claimed(directory: Path, environment: dict[str, str] | None = None, command: tuple[str, ...] = ()) -> str:
    claimant = [*command, sys.executable, "-m", "tests.actors.ownership.claimant", str(directory)]
    return subprocess.run(claimant, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout


def claimed_by_nobody(directory: Path) -> str:
    """Return the output of a process of the user `nobody` that tries to own the folder."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    said, says = Pipe(duplex=False)

    def claim() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            says.send(f"owner {owner_of(directory).number}")
        except JobOwnershipError as refused:
            says.send(str(refused))

    fork = get_context("fork").Process(target=claim)
    fork.start()
    fork.join()
    assert said.poll()
    return str(said.recv())


def assert_refused(said: str, owner: Ownership, directory: Path) -> None:
    assert f"process {os.getpid()} of user" in said
    assert "flykka stop" in said
    owner.check()
    owner.release()
    assert owner_of(directory).number == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "variable",
    ["TMPDIR", *(pytest.param(name, marks=pytest.mark.long) for name in ("XDG_RUNTIME_DIR", "FLYKKA_PID_DIR"))],
)
def test_another_process_is_refused_whatever_its_environment(variable: str, shared: Path) -> None:
    first = owner_of(shared)

    assert_refused(claimed(shared, {**os.environ, variable: str(shared / variable)}), first, shared)


def test_another_user_is_refused(shared: Path) -> None:
    first = owner_of(shared)

    assert_refused(claimed_by_nobody(shared), first, shared)


@pytest.mark.slow
def test_a_process_that_uses_another_path_to_the_folder_is_refused(shared: Path, tmp_path: Path) -> None:
    first = owner_of(shared)
    (tmp_path / "link").symlink_to(shared)

    assert_refused(claimed(tmp_path / "link"), first, shared)


@pytest.mark.slow
def test_a_process_in_a_container_that_mounts_the_folder_is_refused(shared: Path, tmp_path: Path) -> None:
    inside = f'mount --bind {shared} {tmp_path} && exec "$@"'
    container = ("unshare", "--mount", "--uts", "--pid", "--fork", "sh", "-c", inside, "sh")
    if os.getuid() != 0 or subprocess.run([*container, "true"], check=False).returncode != 0:
        pytest.skip("no mount namespace can be made here")
    first = owner_of(shared)

    assert_refused(claimed(tmp_path, command=container), first, shared)


@pytest.mark.parametrize(("mode", "says"), [(0o644, "cannot be written"), (0o600, "cannot be read")])
def test_the_error_names_the_record_of_another_users_ended_process(mode: int, says: str, shared: Path) -> None:
    owner_of(shared).release()
    file(shared).chmod(mode)

    assert f"{file(shared)} belongs to user root and {says}" in claimed_by_nobody(shared)


def test_the_error_names_another_users_inaccessible_folder(shared: Path) -> None:
    owner_of(shared).release()
    (shared / "runs").chmod(0o700)

    assert f"{shared / 'runs'} belongs to user root and cannot be entered" in claimed_by_nobody(shared)


def test_a_forked_process_neither_keeps_nor_frees_the_lock(tmp_path: Path) -> None:
    first = owner_of(tmp_path)
    assert isinstance(first, OwnerLock)
    fork = get_context("fork").Process(target=first.release)
    fork.start()
    fork.join()

    with pytest.raises(OwnedByAnotherError):
        owner_of(tmp_path)


def test_an_owner_whose_folder_was_recreated_has_lost_it(tmp_path: Path) -> None:
    first = owner_of(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    first.check()
    owner_of(tmp_path)

    with pytest.raises(OwnershipLostError, match=rf"has lost {tmp_path} to process {os.getpid()}"):
        first.check()


def test_a_record_is_read_if_its_writer_was_killed_before_truncation(tmp_path: Path) -> None:
    owner_of(tmp_path).release()
    with file(tmp_path).open("ab") as former:
        former.write(b'", "released": false}\n')

    assert owner_of(tmp_path).number == 2
    assert owner_record(tmp_path)["number"] == 2


def test_the_record_and_new_folders_are_durable_before_ownership(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "checkpoints"

    with watched_syncs() as syncs:
        owner_of(directory)

    assert {str(tmp_path), str(tmp_path / "new"), str(directory)} <= set(syncs.paths)
    assert syncs.paths[-2:] == [str(file(directory)), str(directory / "runs")]


def test_a_file_that_is_not_a_record_is_not_overwritten(tmp_path: Path) -> None:
    owner_of(tmp_path).release()
    file(tmp_path).write_text("nothing of ours")

    with pytest.raises(JobOwnershipError, match="is not the record of an owner"):
        owner_of(tmp_path)

    assert file(tmp_path).read_text() == "nothing of ours"


def test_runs_with_different_checkpoint_folders_cannot_share_an_output_folder(tmp_path: Path) -> None:
    output, staging = tmp_path / "output", tmp_path / "output" / ".flykka-staging"
    folders = [sink_folder(str(output), str(staging), counts_in(tmp_path / name)) for name in ("first", "second")]
    first = own(folders[0], VirtualClock().waiting())

    with pytest.raises(OwnedByAnotherError, match=f"writes already from another checkpoint directory.*{output}"):
        own(folders[1], VirtualClock().waiting())

    first.release()
    assert output.exists()
    assert not staging.exists()
    own(folders[1], VirtualClock().waiting()).release()


def test_an_unused_folder_is_not_changed(tmp_path: Path) -> None:
    output, checkpoints = tmp_path / "output", counts_in(tmp_path / "checkpoints")
    sink = sink_folder(str(output), str(output / ".flykka-staging"), checkpoints)

    for folder in (checkpoints, sink):
        own(folder, VirtualClock().waiting()).release(unused=True)

    assert list(tmp_path.iterdir()) == []


def test_an_existing_sink_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    folder = sink_folder(str(tmp_path / "output"), str(tmp_path / "output" / ".staging"), counts_in(tmp_path))

    own(folder, VirtualClock().waiting()).release()

    assert list((tmp_path / "output").iterdir()) == []
