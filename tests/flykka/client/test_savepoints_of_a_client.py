"""Savepoint requests of a client, and how the client handles the replies."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.execution_graph_info_store.actor import INFO_STORE, ExecutionGraphInfoStoreActor
from flykka.client.job_client import JobClient
from flykka.errors import JobStoppingError, SavepointError
from flykka.messages.control.job import (
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepoint,
)
from flykka.messages.monitoring.job_details import TrackJob
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from tests.flykka.client.client_cluster import GRAPH, JOB, Answers, ClientCluster, ScriptedJobManager

PATH = "/savepoints/savepoint-job-1"
DISK_FULL = SerializedThrowable(type_name="SavepointError", message="the disk is full")


TAKEN = Answers(savepoint_path=PATH, stopping=StoppingSuccess(job_id=JOB, checkpoint_path=PATH))
REFUSED = Answers(refusal=DISK_FULL, stopping=StoppingFailure(job_id=JOB, cause=DISK_FULL))


def cluster_with_savepoints(directory: str | None = None, answers: Answers = TAKEN) -> ClientCluster:
    checkpointing = replace(GRAPH.checkpointing, savepoint_directory=directory)
    return ClientCluster(answers=answers, job_graph=replace(GRAPH, checkpointing=checkpointing))


@pytest.mark.parametrize("directory", ["/here", Path("/here")])
def test_a_savepoint_is_written_to_the_named_directory(directory: str | Path) -> None:
    cluster = cluster_with_savepoints("/default")

    path = cluster.submit().trigger_savepoint(directory)

    request = cluster.requests[-1]
    assert path == PATH
    assert isinstance(request, TriggerSavepoint)
    assert request.savepoint_directory == "/here"


def test_the_default_savepoint_directory_is_used_unless_another_is_specified() -> None:
    cluster = cluster_with_savepoints("s3://bucket/savepoints")

    cluster.submit().trigger_savepoint()

    request = cluster.requests[-1]
    assert isinstance(request, TriggerSavepoint)
    assert request.savepoint_directory == "s3://bucket/savepoints"


def test_a_relative_directory_is_resolved_against_the_working_directory() -> None:
    cluster = cluster_with_savepoints()

    cluster.submit().trigger_savepoint("savepoints")

    request = cluster.requests[-1]
    assert isinstance(request, TriggerSavepoint)
    assert request.savepoint_directory == os.path.join(os.getcwd(), "savepoints")


def test_a_savepoint_request_without_a_directory_is_refused_locally() -> None:
    cluster = cluster_with_savepoints()
    client = cluster.submit()

    with pytest.raises(SavepointError, match=r"^No savepoint directory configured\. You can either specify"):
        client.trigger_savepoint()
    with pytest.raises(
        SavepointError, match=r"set_default_savepoint_directory\(\.\.\.\), in `flykka run` --savepoint-dir"
    ):
        client.stop_with_savepoint()

    assert [type(message) for message in cluster.requests] == [SubmitJob]


def test_a_failed_savepoint_is_an_error_with_its_cause() -> None:
    client = cluster_with_savepoints(answers=REFUSED).submit()

    with pytest.raises(SavepointError, match=r"no savepoint of job 'counts' \(job\): the disk is full"):
        client.trigger_savepoint("/here")


def test_a_savepoint_of_an_ended_job_is_refused() -> None:
    cluster = cluster_with_savepoints()
    client = cluster.submit()
    client.stop()

    with pytest.raises(SavepointError, match="it is FINISHED already"):
        client.trigger_savepoint("/here")


def test_a_savepoint_request_times_out() -> None:
    client = cluster_with_savepoints(answers=Answers()).submit()

    with pytest.raises(TimeoutError, match=r"no savepoint of job 'counts' \(job\) is complete after 2 s"):
        client.trigger_savepoint("/here", timeout=2)


@pytest.mark.parametrize("drain", [False, True])
def test_stop_with_savepoint_and_the_result_return_the_same_path(drain: bool) -> None:
    cluster = cluster_with_savepoints()
    client = cluster.submit()

    path = client.stop_with_savepoint("/here", drain)

    request = cluster.requests[-1]
    assert isinstance(request, StopJob)
    assert (request.savepoint_directory, request.drain) == ("/here", drain)
    assert path == client.wait(timeout=0).checkpoint_path == PATH


def test_stop_takes_a_checkpoint_even_with_a_default_savepoint_directory() -> None:
    cluster = cluster_with_savepoints("/default")

    cluster.submit().stop()

    request = cluster.requests[-1]
    assert isinstance(request, StopJob)
    assert request.savepoint_directory is None


def test_the_error_explains_why_a_job_was_not_stopped() -> None:
    client = cluster_with_savepoints(answers=REFUSED).submit()

    with pytest.raises(JobStoppingError, match="was not stopped: the disk is full"):
        client.stop_with_savepoint("/here")


def test_a_coroutine_can_request_a_savepoint_in_another_thread() -> None:
    asked: list[Message] = []
    system = ActorSystem("savepoints")
    try:
        tracker = system.spawn(Props(ExecutionGraphInfoStoreActor), INFO_STORE)
        tracker.tell(TrackJob(job_graph=GRAPH))
        job_manager = system.spawn(Props(ScriptedJobManager, asked, TAKEN, tracker), "job-manager")
        client = JobClient(system, job_manager, GRAPH)

        assert asyncio.run(asyncio.to_thread(client.trigger_savepoint, "/here")) == PATH
    finally:
        system.terminate().wait(5)
