"""The flight record of a failed job: the last turns of its actors, and an error that names the file."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fsspec.core import url_to_fs

from flykka.client.client_actor import FLIGHT_RECORD_TIMEOUT_MS
from flykka.client.flight_record import flight_record_path, flight_record_writer, surviving_flight_record_path
from flykka.client.job_client import JobClient
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import ClusterError, JobCancelledError, JobExecutionError, JobSubmissionError
from flykka.messages.control.job import JobResultFailure, JobStatus, JobSubmitSuccess, SubmitJob
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph, NoRestartStrategyConfiguration
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.props import Props
from flykka.runtime.recording import Recorder
from flykka.runtime.temporary_folders import user_folder
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.actors.job_cluster import ScriptedDataPlane
from tests.actors.machines.graph.graphs import JOB, graph_of, vertex
from tests.flykka.client.client_cluster import Answers, ScriptedJobManager

ACCEPTED = JobSubmitSuccess(job_id=JOB)
BOOM = SerializedThrowable(type_name="ValueError", message="boom")
FAILED = JobResultFailure(job_id=JOB, cause=BOOM)
CANCELLED = JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.CANCELED)

Start = Callable[[Recorder | None], LocalCluster]


@pytest.fixture
def start_recorded_cluster() -> Iterator[Start]:
    """Starts a cluster of one TaskManager on one thread and a virtual clock, with this recorder."""
    clusters: list[LocalCluster] = []

    def begin(recorder: Recorder | None) -> LocalCluster:
        settings = ClusterSettings(slots_per_task_manager=1)
        clusters.append(LocalCluster(ScriptedDataPlane(), settings, system=SeededSystem(3, recorder=recorder)))
        return clusters[-1]

    yield begin
    for cluster in clusters:
        cluster.shutdown()


def job_without_restart(folder: Path | str) -> JobGraph:
    graph = graph_of(vertex("source"), restart=NoRestartStrategyConfiguration())
    return replace(graph, checkpointing=CheckpointingSettings(directory=str(folder)))


def error_of_job(cluster: LocalCluster, graph: JobGraph, *, flight_record: str | None = None) -> JobExecutionError:
    """Return the error of a job whose task cannot start, and which may not restart."""
    client = cluster.submit(graph, flight_record=flight_record)
    with pytest.raises(JobExecutionError) as raised:
        client.wait(timeout=60)
    return raised.value


def test_the_error_of_a_failed_job_names_its_flight_record(start_recorded_cluster: Start, tmp_path: Path) -> None:
    error = error_of_job(start_recorded_cluster(FlightRecorder()), job_without_restart(tmp_path))

    path = f"{tmp_path}/{error.job_id}/flight-record.trace"
    assert error.flight_record == path
    last_line = str(error).splitlines()[-1]
    assert last_line == f"flight record: {path} (read it with `flykka trace show`)"


def test_the_record_covers_the_job_from_submission_to_failure(start_recorded_cluster: Start, tmp_path: Path) -> None:
    error = error_of_job(start_recorded_cluster(FlightRecorder()), job_without_restart(tmp_path))

    assert error.flight_record is not None
    messages = [turn.message for turn in TraceReader.open(error.flight_record).turns]
    assert any(isinstance(message, SubmitJob) for message in messages)
    assert any(isinstance(message, JobResultFailure) for message in messages)


@pytest.mark.parametrize(("turns", "kind"), [(50_000, FlightRecorder), (0, type(None))])
def test_a_cluster_has_a_flight_recorder_unless_it_is_disabled(turns: int, kind: type) -> None:
    settings = ClusterSettings(flight_recorder_turns=turns)

    with LocalCluster(ScriptedDataPlane(), settings) as cluster:
        assert type(cluster.system.recorder) is kind
    assert ClusterSettings().flight_recorder_turns == 50_000


def test_a_complete_recording_replaces_the_flight_recorder(tmp_path: Path) -> None:
    with LocalCluster(ScriptedDataPlane(), ClusterSettings(record=str(tmp_path / "run.trace"))) as cluster:
        assert type(cluster.system.recorder) is TraceRecorder


def test_a_complete_recording_is_the_record_of_every_job(start_recorded_cluster: Start, tmp_path: Path) -> None:
    error = error_of_job(
        start_recorded_cluster(TraceRecorder(tmp_path / "run.trace")), job_without_restart(tmp_path / "checkpoints")
    )

    assert error.flight_record == str(tmp_path / "run.trace")


def test_an_explicitly_configured_recorder_is_used_unchanged(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "run.trace", max_bytes=1_000_000)

    with LocalCluster(ScriptedDataPlane(), ClusterSettings(record=recorder)) as cluster:
        assert cluster.system.recorder is recorder
    with pytest.raises(ClusterError, match=r"run\.trace already records a system.*give this one another"):
        LocalCluster(ScriptedDataPlane(), ClusterSettings(record=recorder))


def test_a_ring_is_written_when_a_job_fails(start_recorded_cluster: Start, tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    cluster = start_recorded_cluster(TraceRecorder(path, ring=40))

    error = error_of_job(cluster, job_without_restart(tmp_path / "checkpoints"))

    assert error.flight_record == str(path)
    trace = TraceReader.open(path)
    assert any(isinstance(turn.message, JobResultFailure) for turn in trace)
    assert trace.header.ring is not None
    assert trace.header.ring.not_kept > 0


def test_without_a_recorder_no_record_is_written(start_recorded_cluster: Start, tmp_path: Path) -> None:
    error = error_of_job(start_recorded_cluster(None), job_without_restart(tmp_path))

    assert error.flight_record is None
    assert "flight record" not in str(error)


def test_an_unwritable_record_does_not_hide_the_failure(
    start_recorded_cluster: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")

    with caplog.at_level(logging.ERROR, logger="flykka"):
        error = error_of_job(
            start_recorded_cluster(FlightRecorder()),
            job_without_restart(tmp_path),
            flight_record=str(in_the_way / "flight.trace"),
        )

    assert error.flight_record is None
    assert "TaskLostError: the actor of the task died" in str(error)
    assert f"no flight record: {in_the_way}" in str(error)
    assert "could not be written" in caplog.text


def scripted_job_manager(*answers: Message) -> Props:
    return Props(ScriptedJobManager, [], Answers(submission=answers))


def client_with_answers(write: Callable[[], str], *answers: Message, system: SeededSystem | None = None) -> JobClient:
    system = system or SeededSystem(3)
    client = JobClient(
        system,
        system.spawn(scripted_job_manager(*answers), "job-manager"),
        job_without_restart("/nowhere"),
        None,
        write,
    )
    system.run_until_idle()
    return client


def test_the_failure_is_reported_once_the_record_is_written(tmp_path: Path) -> None:
    done_meanwhile: list[bool] = []
    heard: list[Message] = []

    def write() -> str:
        client.add_listener(heard.append)
        done_meanwhile.append(client.done())
        return "run.trace"

    system = SeededSystem(3)
    job_manager = system.spawn(scripted_job_manager(ACCEPTED, FAILED), "job-manager")
    client = JobClient(system, job_manager, job_without_restart("/nowhere"), None, write)
    system.run_until_idle()

    assert done_meanwhile == [False]
    failure = client.exception()
    assert isinstance(failure, JobExecutionError)
    assert failure.flight_record == "run.trace"
    assert heard == [ACCEPTED, FAILED]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [((FAILED,), JobSubmissionError), ((ACCEPTED, CANCELLED), JobCancelledError)],
    ids=["refused", "cancelled"],
)
def test_a_job_that_did_not_fail_has_no_record(answers: tuple[Message, ...], expected: type[Exception]) -> None:
    written: list[str] = []

    def write() -> str:
        written.append("run.trace")
        return "run.trace"

    client = client_with_answers(write, *answers)

    assert type(client.exception()) is expected
    assert written == []


def test_a_failure_is_reported_if_the_cluster_ends_before_the_record() -> None:
    system = SeededSystem(3)

    def write() -> str:
        system.terminate()
        system.run_until_idle()
        return "run.trace"

    client = client_with_answers(write, ACCEPTED, FAILED, system=system)

    failure = client.exception()
    assert isinstance(failure, JobExecutionError)
    assert failure.cause == BOOM
    assert "no flight record: its cluster was shut down" in str(failure)


def test_a_failure_is_reported_if_the_file_system_does_not_answer() -> None:
    system = SeededSystem(3)
    heard: list[Message] = []

    def write() -> str:
        client.add_listener(heard.append)
        system.advance(FLIGHT_RECORD_TIMEOUT_MS)
        return "run.trace"

    job_manager = system.spawn(scripted_job_manager(ACCEPTED, FAILED), "job-manager")
    client = JobClient(system, job_manager, job_without_restart("/nowhere"), None, write)
    system.run_until_idle()

    failure = client.exception()
    assert isinstance(failure, JobExecutionError)
    assert failure.flight_record is None
    assert "no flight record: the file system has not answered" in str(failure)
    assert heard == [ACCEPTED, FAILED]


def test_the_record_is_written_beside_remote_checkpoints_too() -> None:
    recorder = FlightRecorder()
    graph = job_without_restart(f"memory://{uuid.uuid4().hex}/a[1]")
    with SeededSystem(3, recorder=recorder):
        write = flight_record_writer(recorder, flight_record_path(graph))
        assert write is not None
        path = write()

    fs, location = url_to_fs(path)
    assert location == f"/{graph.checkpointing.directory.removeprefix('memory://')}/{JOB}/flight-record.trace"
    assert fs.ls(location.rpartition("/")[0], detail=False) == [location]
    assert b"flykka.trace" in fs.cat_file(location)


def test_a_record_is_not_written_beside_temporary_checkpoints() -> None:
    path = surviving_flight_record_path(job_without_restart("/tmp/flykka-checkpoints-1"))

    assert path == f"{user_folder()}/flykka-flight-record-job.trace"
