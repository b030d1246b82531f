"""The archive of an ended job: one file with all REST API responses about the job."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flykka.actors.checkpoint_storage.format import FORMAT_VERSION
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import CheckpointFormatError, CheckpointVersionError
from flykka.actors.execution_graph_info_store.actor import ExecutionGraphInfoStoreActor
from flykka.actors.high_availability.embedded import EmbeddedStore
from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.messages.checkpointing.statistics import CheckpointStatsSnapshot, CheckpointTriggered
from flykka.messages.control.job import JobFound, JobResultSuccess, JobStatus, JobStatusChanged
from flykka.messages.graph.job_graph import FixedDelayRestartStrategyConfiguration, JobGraph
from flykka.messages.monitoring.job_details import (
    ArchivedJob,
    ArchivesWritten,
    AwaitArchives,
    JobDetails,
    JobsOverview,
    RequestCheckpointStats,
    RequestJobDetails,
    RequestJobGraph,
    RequestJobsOverview,
    RequestJobVertexDetails,
    SubtasksOfVertex,
    TrackJob,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.drivers import Driver
from tests.actors.machines.graph.graphs import JOB, graph_of, vertex
from tests.actors.peer import Probe

FAILURE = SerializedThrowable(type_name="ValueError", message="no seven")
ONE_RESTART = FixedDelayRestartStrategyConfiguration(attempts=1, delay_ms=0)


def archived_in(directory: object, graph: JobGraph) -> JobGraph:
    return replace(graph, checkpointing=replace(graph.checkpointing, archive_directory=str(directory)))


def archive(directory: Path, job_id: str = JOB) -> ArchivedJob:
    return CheckpointStorage(str(directory)).read_archive(f"{directory}/{job_id}.archive")


def ended_job(job_id: str = JOB) -> ArchivedJob:
    graph = replace(graph_of(vertex("source", outputs=1), vertex("sink", 2, reads=("source",))), job_id=JobId(job_id))
    model = JobReadModel(graph)
    messages: list[Message] = [
        JobStatusChanged(job_id=graph.job_id, status=JobStatus.RUNNING, timestamp_ms=10),
        CheckpointTriggered(job_id=graph.job_id, checkpoint_id=1, timestamp_ms=20, num_subtasks=3),
        JobStatusChanged(job_id=graph.job_id, status=JobStatus.FINISHED, timestamp_ms=30),
        JobResultSuccess(job_id=graph.job_id),
    ]
    for message in messages:
        model.on_message(message, 30)
    return model.archived(30)


# Archiving at the end of a job


def test_a_job_that_failed_after_a_restart_is_archived_with_its_responses(driver: Driver, tmp_path: Path) -> None:
    graph = archived_in(tmp_path / "archives", driver.graph(restart=ONE_RESTART))
    driver.run(graph, slots=1)
    for attempt in range(2):
        driver.report(f"{JOB}_source_0_{attempt}", ExecutionState.FAILED, FAILURE)
        driver.report(f"{JOB}_sink_0_{attempt}", ExecutionState.CANCELED)
        driver.system.advance(1)
    driver.system.advance(60_000)

    asking = driver.client
    for request in (
        RequestJobsOverview(reply_to=asking),
        RequestJobDetails(job_id=JOB, reply_to=asking),
        RequestJobGraph(job_id=JOB, reply_to=asking),
        RequestJobVertexDetails(job_id=JOB, reply_to=asking, vertex_id=graph.vertices[0].vertex_id),
        RequestCheckpointStats(job_id=JOB, reply_to=asking),
    ):
        driver.job_manager.tell(request)
    left = archive(tmp_path / "archives")

    assert (left.details.status, left.details.number_of_restarts) == (JobStatus.FAILED, 1)
    assert (left.overview,) == driver.last(asking, JobsOverview).jobs
    assert left.overview.number_of_restarts == 1
    assert left.details == driver.last(asking, JobDetails)
    assert left.job_graph == driver.last(asking, JobFound).job_graph
    assert left.vertices[0] == driver.last(asking, SubtasksOfVertex)
    assert left.checkpoints == driver.last(asking, CheckpointStatsSnapshot)


def test_a_cancelled_job_is_archived(driver: Driver, tmp_path: Path) -> None:
    task_manager = driver.run(archived_in(tmp_path / "archives", driver.graph()), slots=1)

    driver.cancel()
    for descriptor in driver.deployed(task_manager):
        driver.report(descriptor.attempt, ExecutionState.CANCELED)

    assert archive(tmp_path / "archives").overview.status is JobStatus.CANCELED


def test_a_job_without_an_archive_directory_is_not_archived(driver: Driver, tmp_path: Path) -> None:
    driver.finish(driver.run(driver.graph(), slots=1))

    assert CheckpointStorage(str(tmp_path)).archives() == []


def test_a_job_ended_by_another_driver_is_archived_only_by_that_driver(
    driver: Driver, second: Driver, store: EmbeddedStore, tmp_path: Path
) -> None:
    driver.run(archived_in(tmp_path / "first", driver.graph()), slots=1)
    driver.fall_asleep(store)
    suspended = CheckpointStorage(str(tmp_path)).archives()
    second.submit(archived_in(tmp_path / "second", second.graph()))
    second.finish(second.bring_to_running("tm-1"))
    second.conclude()

    driver.wake_up(store)

    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    assert suspended == []
    assert CheckpointStorage(str(tmp_path)).archives() == [f"{tmp_path}/second/{JOB}.archive"]


def test_a_failed_archive_is_logged_and_does_not_affect_the_job(
    driver: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()

    with caplog.at_level(logging.WARNING):
        driver.finish(driver.run(archived_in(tmp_path / "file" / "archives", driver.graph()), slots=1))

    assert driver.received(driver.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    [warning] = [record.getMessage() for record in caplog.records if "archived" in record.getMessage()]
    assert warning.startswith(f"job {JOB} is not archived in '{tmp_path}/file/archives': NotADirectoryError: ")


@pytest.mark.parametrize("seed", range(8))
def test_waiters_for_archives_are_answered_when_all_are_written(seed: int, tmp_path: Path) -> None:
    graph = archived_in(tmp_path, graph_of(vertex("source")))
    there: list[bool] = []
    with SeededSystem(seed) as system:
        waiting = Probe(system, "waiting")
        info_store = system.spawn(Props(ExecutionGraphInfoStoreActor), "info-store")
        system.add_delivery_hook(
            lambda _, message, __: (
                there.append((tmp_path / f"{JOB}.archive").exists()) if isinstance(message, ArchivesWritten) else None
            )
        )

        for message in (
            AwaitArchives(reply_to=waiting.ref),
            TrackJob(job_graph=graph),
            JobResultSuccess(job_id=JOB),
            AwaitArchives(reply_to=waiting.ref),
        ):
            info_store.tell(message)
        system.run_until_idle()

    assert there[-1:] == [True]
    assert len(there) == 2


# Archive files


@pytest.fixture(params=["this machine", "archives", "a[1]/archives"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "this machine":
        yield str(tmp_path / "archives")
        return
    yield f"memory://{request.param}"
    MemoryFileSystem().store.clear()


def test_an_archive_can_be_read_again(directory: str) -> None:
    storage = CheckpointStorage(directory)

    storage.write_archive(ended_job())

    [path] = storage.archives()
    assert path.endswith(f"archives/{JOB}.archive")
    assert storage.read_archive(path) == ended_job()
    assert ended_job().checkpoint_details[0].checkpoint is not None


def test_archives_are_found_at_any_depth_but_not_among_checkpoint_files(directory: str) -> None:
    some_job = "0123456789abcdef0123456789abcdef"
    for below in ("", "/a/b", f"/{some_job}/shared", "/a/savepoint-0123-ab"):
        CheckpointStorage(directory + below).write_archive(ended_job())

    found = CheckpointStorage(directory).archives()

    assert [path.rpartition("archives")[2] for path in found] == [f"/a/b/{JOB}.archive", f"/{JOB}.archive"]


def test_an_invalid_archive_file_is_refused_by_name(tmp_path: Path) -> None:
    storage = CheckpointStorage(str(tmp_path))
    storage.write_archive(ended_job())
    [path] = storage.archives()
    written = Path(path).read_bytes()

    Path(path).write_bytes(written[:8] + (FORMAT_VERSION + 1).to_bytes(2, "big") + written[10:])
    with pytest.raises(CheckpointVersionError, match=f"{path}: a newer flykka wrote it"):
        storage.read_archive(path)
    Path(path).write_bytes(written[:-1])
    with pytest.raises(CheckpointFormatError, match=f"{path}: .* bytes were written"):
        storage.read_archive(path)
