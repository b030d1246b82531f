"""Clients that receive no messages, or only the result of their job, without polling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.messages.control.job import (
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    ListeningBehaviour,
    RegisterJobClient,
    StoppingSuccess,
    SubmitJob,
)
from flykka.messages.graph.job_graph import ClientHeartbeatSettings
from tests.flykka.client.client_cluster import GRAPH, JOB, Answers, ClientCluster, accepted


def test_a_detached_client_is_notified_at_once_that_its_job_is_lost() -> None:
    cluster = ClientCluster(answers=Answers(forgets=True))
    client = cluster.submit(attached=False)
    cluster.send(accepted())

    assert "its JobManager no longer knows it" in str(client.exception())
    assert cluster.system.manual_clock.now_ms() == 0


def test_a_detached_client_polls_its_job(cluster: ClientCluster) -> None:
    client = cluster.submit(attached=False)
    cluster.send(accepted())

    client.add_listener(lambda _: None)
    cluster.system.run_until_idle()
    cluster.send(JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0))

    submitted, registered = cluster.requests
    assert isinstance(submitted, SubmitJob)
    assert submitted.listening_behaviour is ListeningBehaviour.DETACHED
    assert isinstance(registered, RegisterJobClient)
    assert client.status is JobStatus.RUNNING


def test_a_result_only_client_polls_for_changes(
    cluster: ClientCluster,
) -> None:
    client = cluster.submit(attached=ListeningBehaviour.EXECUTION_RESULT)
    cluster.send(accepted())

    with pytest.raises(TimeoutError, match=r"has not ended after 0 seconds"):
        client.wait(timeout=0)
    assert not client.done()
    (submitted,) = cluster.requests
    assert isinstance(submitted, SubmitJob)
    assert submitted.listening_behaviour is ListeningBehaviour.EXECUTION_RESULT

    client.add_listener(lambda _: None)
    cluster.system.run_until_idle()
    assert isinstance(cluster.requests[-1], RegisterJobClient)
    assert cluster.requests[-1].listening_behaviour is ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES


def test_a_result_only_client_receives_the_result_when_it_arrives(cluster: ClientCluster) -> None:
    client = cluster.submit(attached="EXECUTION_RESULT")
    cluster.send(accepted(), JobResultSuccess(job_id=JOB))

    assert client.done()
    assert client.wait(timeout=0).job_id == JOB
    assert client.status is JobStatus.FINISHED


def test_a_detached_client_sends_no_heartbeats_and_its_job_survives() -> None:
    heartbeat = ClientHeartbeatSettings(interval_ms=1_000, timeout_ms=3_000)
    cluster = ClientCluster(job_graph=replace(GRAPH, client_heartbeat=heartbeat))
    cluster.submit(attached=False)
    cluster.send(accepted())

    cluster.system.advance(5_000)

    (submitted,) = cluster.requests
    assert isinstance(submitted, SubmitJob)
    assert submitted.job_graph.client_heartbeat is None


def test_the_wait_of_a_detached_client_ends_at_its_deadline(cluster: ClientCluster) -> None:
    client = cluster.submit(attached=False)
    cluster.send(accepted())

    with pytest.raises(TimeoutError, match="is still CREATED after 2 seconds; its why"):
        client.wait(timeout=2)

    assert cluster.system.manual_clock.now_ms() == 2_000


@pytest.mark.parametrize("forgets", [False, True])
def test_a_detached_client_stops_its_job_and_returns_the_path(forgets: bool) -> None:
    stopped = StoppingSuccess(job_id=JOB, checkpoint_path="/checkpoints/job/chk-4")
    cluster = ClientCluster(answers=Answers(stopping=stopped, forgets=forgets))
    client = cluster.submit(attached=False)
    cluster.send(accepted())

    assert client.stop() == "/checkpoints/job/chk-4"
    assert client.status is (JobStatus.FAILED if forgets else JobStatus.FINISHED)
