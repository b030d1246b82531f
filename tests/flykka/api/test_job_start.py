"""Recovery of an earlier run from a checkpoint directory, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.api.job_start import _TraceSearch
from flykka.client.continuation import RunTraces
from flykka.client.running_jobs import RunningJob
from flykka.client.start_settings import StartMode
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded, JobRun
from flykka.messages.graph.job_graph import CheckpointingSettings, JobType
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.job_sinks import SinkFolders
from tests.actors.machines.graph.graphs import graph_of, vertex

JOB, EARLIER = JobId("job"), JobId("earlier")


@pytest.fixture
def storage(tmp_path: Path) -> CheckpointStorage:
    return CheckpointStorage(str(tmp_path))


def write_checkpoint(storage: CheckpointStorage, job_id: JobId, checkpoint_id: int, job_name: str = "counts") -> str:
    return storage.write_metadata(
        CompletedCheckpoint(
            job_id=job_id,
            job_name=job_name,
            checkpoint_id=checkpoint_id,
            timestamp_ms=checkpoint_id,
            duration_ms=1,
            task_states=(),
        )
    )


def search(folder: Path, job_type: JobType = JobType.STREAMING) -> _TraceSearch:
    settings = CheckpointingSettings(directory=str(folder))
    graph = replace(graph_of(vertex("source")), name="counts", checkpointing=settings, job_type=job_type)
    folders = SinkFolders(published=(), shows_only=False)
    return _TraceSearch(graph, folders, follows_itself=False)


def find_start(folder: Path, job_type: JobType = JobType.STREAMING) -> RunTraces:
    return search(folder, job_type).collect(StartMode.AUTO, None)


def test_a_killed_run_is_continued_from_its_newest_checkpoint(storage: CheckpointStorage, tmp_path: Path) -> None:
    storage.write_job_graph(replace(graph_of(vertex("source")), job_id=JOB))
    storage.record_run(JobRun(job_id=JOB, job_name="counts", restore_path=write_checkpoint(storage, EARLIER, 3)))
    write_checkpoint(storage, JOB, 4)
    newest = write_checkpoint(storage, JOB, 5)

    assert find_start(tmp_path).checkpoint == newest


@pytest.mark.parametrize("end", [None, JobEnded(job_id=JOB, status=JobStatus.FAILED)])
def test_a_run_without_its_own_checkpoint_continues_from_its_start_location(
    storage: CheckpointStorage, tmp_path: Path, end: JobEnded | None
) -> None:
    began = write_checkpoint(storage, EARLIER, 3)
    storage.record_run(JobRun(job_id=JOB, job_name="counts", restore_path=began))
    if end is not None:
        storage.record_end_of_run("counts", end)

    assert find_start(tmp_path).checkpoint == began


def test_a_run_that_published_rows_without_a_checkpoint_is_not_continued(
    storage: CheckpointStorage, tmp_path: Path
) -> None:
    began = write_checkpoint(storage, EARLIER, 3)
    storage.record_run(JobRun(job_id=JOB, job_name="counts", restore_path=began))
    storage.delete_job(JOB, began)
    storage.record_end_of_run("counts", JobEnded(job_id=JOB, status=JobStatus.CANCELED))

    assert find_start(tmp_path).checkpoint is None


def test_without_a_run_record_the_jobs_newest_checkpoint_is_used(storage: CheckpointStorage, tmp_path: Path) -> None:
    own = write_checkpoint(storage, JOB, 3)
    write_checkpoint(storage, EARLIER, 9, job_name="of another app")

    assert find_start(tmp_path).checkpoint == own


def test_a_batch_job_is_never_continued(storage: CheckpointStorage, tmp_path: Path) -> None:
    write_checkpoint(storage, JOB, 3)

    assert find_start(tmp_path, JobType.BATCH) == RunTraces(job_name="counts")


def test_a_missing_checkpoint_is_reported_and_not_skipped(storage: CheckpointStorage, tmp_path: Path) -> None:
    gone = str(tmp_path / "job" / "chk-3")
    storage.record_run(JobRun(job_id=JOB, job_name="counts"))
    storage.record_end_of_run("counts", JobEnded(job_id=JOB, status=JobStatus.FINISHED, checkpoint_path=gone))

    mismatch = find_start(tmp_path).mismatch

    assert mismatch is not None
    assert gone in mismatch


def test_a_killed_run_without_a_checkpoint_leaves_orphaned_output(storage: CheckpointStorage, tmp_path: Path) -> None:
    storage.record_run(JobRun(job_id=EARLIER, job_name="counts"))
    before = search(tmp_path).orphan()
    write_checkpoint(storage, EARLIER, 1)

    assert before == EARLIER
    assert search(tmp_path).orphan() is None


def test_an_ended_or_running_run_leaves_no_orphaned_output(
    storage: CheckpointStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.record_run(JobRun(job_id=EARLIER, job_name="counts"))
    running = RunningJob(job_id=EARLIER, name="counts", process=1)
    monkeypatch.setattr("flykka.api.job_start.running_jobs", lambda: (running,))
    while_it_runs = search(tmp_path).orphan()
    monkeypatch.setattr("flykka.api.job_start.running_jobs", lambda: ())
    storage.record_end_of_run("counts", JobEnded(job_id=EARLIER, status=JobStatus.FINISHED))

    assert while_it_runs is None
    assert search(tmp_path).orphan() is None
