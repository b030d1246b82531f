"""Job listeners receive every event in order, and cannot affect the job or each other."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flykka.client.client_actor import HISTORY
from flykka.client.job_client import JobClient
from flykka.client.job_execution_result import JobExecutionResult
from flykka.errors import ClusterError
from flykka.messages.control.job import (
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
)
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from tests.flykka.client.client_cluster import GRAPH, JOB, Answers, ClientCluster, ScriptedJobManager, accepted


def test_a_late_listener_receives_all_events_in_order(cluster: ClientCluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()
    running = JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0)
    cluster.send(accepted(), running)

    client.add_listener(heard.append)
    cluster.send(JobResultSuccess(job_id=JOB))

    assert heard == [accepted(), running, JobResultSuccess(job_id=JOB)]


def test_repeated_failures_are_logged_if_there_is_no_listener(
    cluster: ClientCluster, caplog: pytest.LogCaptureFixture
) -> None:
    boom = SerializedThrowable(type_name="ValueError", message="operator 'taxed' (app.py:7): boom")
    failed = ExceptionHistoryEntry(cause=boom, timestamp_ms=0)
    entry = RootExceptionHistoryEntry(number=1, root=failed, outcome=FailureOutcome.RESTARTING)
    restarting = ExceptionHistoryChanged(job_id=JOB, entry=entry)
    client = cluster.submit()

    with caplog.at_level("WARNING", logger="flykka"):
        cluster.send(accepted(), *[restarting] * 11)
        client.add_listener(lambda _: None)
        cluster.send(*[restarting] * 100)

    assert [record.getMessage() for record in caplog.records] == [
        f"job 'counts' has failed and restarts (restart {number}, without limit unless set_restart_strategy(...)"
        " sets one): ValueError: operator 'taxed' (app.py:7): boom"
        for number in (1, 10)
    ]


def test_two_clients_of_a_job_may_have_listeners(cluster: ClientCluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()
    other = JobClient(cluster.system, cluster.job_manager, GRAPH, submits=False)

    client.add_listener(heard.append)
    other.add_listener(heard.append)
    cluster.send(accepted())

    assert heard == [accepted()]


def test_a_very_late_listener_receives_the_last_thousand_messages(cluster: ClientCluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()
    for restore in range(HISTORY + 5):
        cluster.client_ref().tell(JobRestored(job_id=JOB, checkpoint_id=restore, timestamp_ms=0))
    cluster.system.run_until_idle()

    client.add_listener(heard.append)
    cluster.system.run_until_idle()

    assert [restored.checkpoint_id for restored in heard if isinstance(restored, JobRestored)] == [
        *range(5, HISTORY + 5)
    ]


def test_a_listener_that_raises_affects_neither_the_job_nor_the_others(cluster: ClientCluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()

    def fail(_: Message) -> None:
        raise RuntimeError("a bug in the listener")

    client.add_listener(fail)
    client.add_listener(heard.append)
    cluster.send(accepted(), JobResultSuccess(job_id=JOB))

    assert client.wait(timeout=0).job_id == JOB
    assert heard == [accepted(), JobResultSuccess(job_id=JOB)]


def test_a_listener_receives_the_end_of_a_lost_job(cluster: ClientCluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()
    cluster.send(accepted())
    client.add_listener(heard.append)

    cluster.system.kill(cluster.job_manager)
    cluster.system.advance(61_000)

    cause = SerializedThrowable(type_name="ClusterLostError", message="the JobManager has ended")
    assert heard == [accepted(), JobResultFailure(job_id=JOB, cause=cause)]


def test_a_listener_registered_after_cluster_shutdown_is_refused_at_once(cluster: ClientCluster) -> None:
    client = cluster.submit()
    cluster.send(accepted(), JobResultSuccess(job_id=JOB))
    cluster.system.terminate()
    cluster.system.run_until_idle()

    with pytest.raises(
        ClusterError, match=r"no more information about job 'counts' \(job\): its cluster was shut down"
    ):
        client.add_listener(print)

    assert client.wait(timeout=0).job_id == JOB


async def test_awaiting_a_client_waits_for_its_listeners_without_blocking() -> None:
    heard: list[Message] = []
    busy, released = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hear(message: Message) -> None:
        loop.call_soon_threadsafe(busy.set)
        released.wait(timeout=10)
        heard.append(message)

    async def release() -> None:
        await busy.wait()
        released.set()

    with ActorSystem("threads") as system:
        finishes = Answers(submission=(accepted(), JobResultSuccess(job_id=JOB)))
        job_manager = system.spawn(Props(ScriptedJobManager, [], finishes), "job-manager")
        client = JobClient(system, job_manager, GRAPH)
        client.add_listener(hear)
        result, _ = await asyncio.gather(_awaited(client), release())

        assert result.job_name == "counts"
        assert heard == [accepted(), JobResultSuccess(job_id=JOB)]


async def _awaited(client: JobClient) -> JobExecutionResult:
    return await client
