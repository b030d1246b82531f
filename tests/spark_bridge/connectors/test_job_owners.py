"""Tests the folders of an environment's jobs: one job at a time owns a folder, and a replaced process does not change
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from flykka.actors.errors import OwnedByAnotherError, OwnershipLostError
from flykka.actors.ownership.folders import checkpoint_folder, own, sink_folder
from flykka.actors.ownership.owner_lock import OwnerLock
from flykka.actors.ownership.ownership import LEASE_MS
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.wire.ids import JobId, OperatorId
from flykka.messages.wire.message import Value
from flykka.spark_bridge.connectors.job_owners import HadoopFiles, JobOwner, JobOwners
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.sink import SinkOperator
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.state.savepoint import HandleFiles
from tests.actors.machines.graph.graphs import graph_of
from tests.actors.ownership.waiters import VirtualClock

NO_FILES = cast("FileSystem", SimpleNamespace())
"""The jobs in these tests have no sinks."""


def job_in_folder(directory: Path, job_id: str = "job") -> JobGraph:
    settings = CheckpointingSettings(directory=str(directory))
    return replace(graph_of(), job_id=JobId(job_id), name="counts", checkpointing=settings)


def owners() -> JobOwners:
    return JobOwners(CodeRegistry())


def acquire(owners: JobOwners, graph: JobGraph, *, shares: bool = False) -> int:
    owners.acquire(graph, NO_FILES, print, shares=shares)
    return JobOwner(graph.job_id, owners).number


def put_on_network_file_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the folder is on a network file system."""
    mounts = folder / "mountinfo"
    mounts.write_text(f"22 1 0:20 / {folder} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr("flykka.actors.ownership.mounts._MOUNTS", mounts)


def be_replaced(directory: Path) -> None:
    """Make another process the owner, with owner number 2."""
    folder = checkpoint_folder(str(directory), "counts", LEASE_MS)
    Path(f"{folder.file}.2").write_bytes(folder.record(2).data())


def test_each_job_gets_the_next_owner_number(tmp_path: Path) -> None:
    environment = owners()
    first = acquire(environment, job_in_folder(tmp_path))
    again = acquire(environment, job_in_folder(tmp_path))
    environment.release(JobId("job"))

    assert (first, again) == (1, 1)
    assert acquire(environment, job_in_folder(tmp_path, "next")) == 2


def test_a_second_running_job_of_the_same_name_is_refused(tmp_path: Path) -> None:
    environment = owners()
    acquire(environment, job_in_folder(tmp_path))

    with pytest.raises(OwnedByAnotherError, match=r"this process .*client\.stop\(\)"):
        acquire(environment, job_in_folder(tmp_path, "next"))
    with pytest.raises(OwnedByAnotherError, match="this process"):
        acquire(owners(), job_in_folder(tmp_path, "next"))


def test_jobs_in_a_temporary_folder_share_a_name_until_all_end(tmp_path: Path) -> None:
    environment = owners()
    acquire(environment, job_in_folder(tmp_path))
    acquire(environment, job_in_folder(tmp_path, "next"), shares=True)
    environment.release(JobId("job"))

    with pytest.raises(OwnedByAnotherError):
        acquire(owners(), job_in_folder(tmp_path, "other"))

    environment.release(JobId("next"))
    assert acquire(owners(), job_in_folder(tmp_path, "other")) == 2


def test_concurrent_releases_of_a_job_free_each_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, release, released = owners(), OwnerLock.release, list[OwnerLock]()
    folders = [(checkpoint_folder(str(tmp_path / name), "counts", LEASE_MS), None) for name in ("first", "second")]
    monkeypatch.setattr(JobOwners, "_folders", lambda self, *graph, is_lenient: iter(folders))
    acquire(environment, job_in_folder(tmp_path))

    def release_at_once(lock: OwnerLock, *, unused: bool) -> None:
        released.append(lock)
        environment.release(JobId("job"))
        release(lock, unused=unused)

    monkeypatch.setattr(OwnerLock, "release", release_at_once)
    environment.release(JobId("job"))

    assert len(released) == len(set(released)) == 2
    assert environment.ownerships_of(JobId("job")) == []


def test_a_closed_environment_owns_no_folder(tmp_path: Path) -> None:
    environment = owners()
    acquire(environment, job_in_folder(tmp_path))

    environment.close()

    assert acquire(owners(), job_in_folder(tmp_path)) == 2


def test_a_replaced_owner_fails_its_job_and_deletes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_on_network_file_system(tmp_path, monkeypatch)
    environment = owners()
    reports: list[tuple[JobId, str]] = []
    environment.on_lost = lambda job_id, error: reports.append((job_id, type(error).__name__))
    acquire(environment, job_in_folder(tmp_path))
    assert environment.still_owns(JobId("job"))
    be_replaced(tmp_path)

    with caplog.at_level(logging.WARNING):
        assert not environment.still_owns(JobId("job"))

    assert reports == [(JobId("job"), "OwnershipLostError")]
    assert "files of job job are not deleted" in caplog.text


class Writer(SinkWriter[str]):
    def __init__(self) -> None:
        self.published: list[object] = []

    def stage(self, rows: str) -> Staged:
        return Staged(rows=1)

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        self.published.append(checkpoint_id)
        return ()

    def restore(self, prepared: Sequence[Value]) -> None:
        self.published.append(prepared)


@pytest.mark.parametrize("publish", [lambda sink: sink.commit_checkpoint(1), lambda sink: sink.restore(())])
def test_a_replaced_owner_publishes_no_file(
    publish: Callable[[SinkOperator[str]], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_network_file_system(tmp_path, monkeypatch)
    seconds = [0.0]
    environment, writer = JobOwners(CodeRegistry(), clock=lambda: seconds[0]), Writer()
    acquire(environment, job_in_folder(tmp_path))
    sink = SinkOperator[str](
        OperatorId("sink"),
        writer,
        writer.stage,
        cast("HandleFiles", SimpleNamespace(verify=lambda handles: None)),
        "attempt",
        JobOwner(JobId("job"), environment).check,
    )
    publish(sink)
    be_replaced(tmp_path)
    seconds[0] += LEASE_MS / 1_000  # The process was suspended.

    with pytest.raises(OwnershipLostError):
        publish(sink)

    assert len(writer.published) == 1


@pytest.mark.spark
@pytest.mark.slow
def test_a_folder_reachable_only_by_spark_has_one_owner(spark: SparkSession, tmp_path: Path) -> None:
    root = f"file:{tmp_path}/output/.flykka-staging"
    folder = sink_folder(f"file:{tmp_path}/output", root, checkpoint_folder(str(tmp_path), "counts", LEASE_MS))
    files = HadoopFiles(FileSystem(spark), root)
    owner = own(folder, VirtualClock().waiting(), files)

    with pytest.raises(OwnedByAnotherError):
        own(folder, VirtualClock(each_pause=owner.confirm).waiting(), files)
    with pytest.raises(FileExistsError):
        files.create(files.names()[0], b"another")
    with pytest.raises(FileNotFoundError):
        files.read("nothing")

    owner.release()
    assert files.names() == []
    assert not (tmp_path / "output" / ".flykka-staging").exists()
