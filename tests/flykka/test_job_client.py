"""What a client learns of its job, whatever becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from flykka.client_actor import JobExecutionResult
from flykka.errors import (
    JobCancellationError,
    JobCancelledError,
    JobExecutionError,
    JobStoppingError,
    JobSubmissionError,
)
from flykka.job_client import JobClient
from flykka.job_history import HISTORY
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobId
from flykka.messages.job import (
    CancelJob,
    CancellationFailure,
    CancellationSuccess,
    CheckpointCompleted,
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
)
from flykka.messages.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem

JOB = JobId("job")
GRAPH = JobGraph(
    job_id=JOB,
    name="counts",
    vertices=(),
    checkpointing=CheckpointingSettings(directory="/checkpoints"),
    heartbeat_interval_ms=1_000,
    heartbeat_timeout_ms=10_000,
)
BOOM = SerializedThrowable(type_name="ValueError", message="boom", stack_trace="line 1")


class JobManagerDesk(Actor):
    """Notes what clients ask of the JobManager, and answers a cancellation and a stop as told."""

    def __init__(self, asked: list[Message], cancellation: Message, stopping: Message | None) -> None:
        self._asked = asked
        self._cancellation = cancellation
        self._stopping = stopping

    def handle_message(self, message: Message) -> None:
        self._asked.append(message)
        if isinstance(message, CancelJob):
            message.client.tell(self._cancellation)
        if isinstance(message, StopJob) and self._stopping is not None:
            message.client.tell(self._stopping)
            self._tell_result(self._stopping)

    def _tell_result(self, stopping: Message) -> None:
        submitted = self._asked[0]
        if isinstance(stopping, StoppingSuccess) and isinstance(submitted, SubmitJob):
            submitted.client.tell(JobResultSuccess(job_id=JOB, checkpoint_path=stopping.checkpoint_path))


class FinishingDesk(Actor):
    """Takes every job, and says at once that it has FINISHED."""

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, SubmitJob)
        message.client.tell(JobSubmitSuccess(job_id=JOB))
        message.client.tell(JobResultSuccess(job_id=JOB))


@dataclass
class Cluster:
    """A client with the desk it talks to, on one thread and a virtual clock."""

    system: SeededSystem = field(default_factory=SeededSystem)
    asked: list[Message] = field(default_factory=list)
    cancellation: Message = field(default_factory=lambda: CancellationSuccess(job_id=JOB))
    stopping: Message | None = None

    def __post_init__(self) -> None:
        desk = Props(JobManagerDesk, self.asked, self.cancellation, self.stopping)
        self.desk = self.system.spawn(desk, "job-manager")

    def submit(self) -> JobClient:
        client = JobClient(self.system, self.desk, GRAPH)
        self.system.run_until_idle()
        return client

    def say(self, *messages: Message) -> None:
        """What the JobManager tells the client."""
        for message in messages:
            self.client_ref().tell(message)
            self.system.run_until_idle()

    def client_ref(self) -> ActorRef:
        submitted = self.asked[0]
        assert isinstance(submitted, SubmitJob)
        found = self.system.find(submitted.client.path)
        assert found is not None
        return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.system.terminate()
    made.system.run_until_idle()


def accepted() -> JobSubmitSuccess:
    return JobSubmitSuccess(job_id=JOB)


def completed(checkpoint_id: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint_id,
        duration_ms=1,
        size_bytes=1,
        incremental_bytes=1,
        path=f"/kept/chk-{checkpoint_id}",
        timestamp_ms=0,
    )


def test_a_client_submits_its_graph_and_waits_for_the_answer(cluster: Cluster) -> None:
    client = cluster.submit()

    cluster.say(accepted())

    assert cluster.asked == [SubmitJob(job_graph=GRAPH, client=cluster.client_ref())]
    assert client.wait_submitted(timeout=0) == JOB


def test_a_finished_job_gives_its_result_with_the_time_it_took(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.system.advance(1_500)

    cluster.say(accepted(), JobResultSuccess(job_id=JOB))

    assert client.wait(timeout=0) == JobExecutionResult(job_id=JOB, job_name="counts", net_runtime_ms=1_500)
    assert (client.status, client.exception, client.done()) == (JobStatus.FINISHED, None, True)


def test_the_status_is_the_last_one_that_was_heard_of(cluster: Cluster) -> None:
    client = cluster.submit()

    cluster.say(JobStatusChanged(job_id=JOB, status=JobStatus.RESTARTING, timestamp_ms=0, cause=BOOM))

    assert client.status is JobStatus.RESTARTING
    assert not client.done()


def test_a_failed_job_raises_its_cause_for_everyone_who_waits(cluster: Cluster) -> None:
    client = cluster.submit()

    cluster.say(accepted(), JobResultFailure(job_id=JOB, cause=BOOM))

    with pytest.raises(JobExecutionError, match=r"job 'counts' \(job\) failed: ValueError: boom") as first:
        client.wait(timeout=0)
    with pytest.raises(JobExecutionError) as second:
        client.wait(timeout=0)
    assert first.value is not second.value
    assert (first.value.cause, client.status) == (BOOM, JobStatus.FAILED)
    assert isinstance(client.exception, JobExecutionError)


def test_a_cancelled_job_raises_that_it_was_cancelled(cluster: Cluster) -> None:
    client = cluster.submit()

    cluster.say(accepted(), JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.CANCELED))

    with pytest.raises(JobCancelledError, match="was cancelled"):
        client.wait(timeout=0)


def test_a_job_that_fails_before_it_is_accepted_was_refused(cluster: Cluster) -> None:
    client = cluster.submit()

    cluster.say(JobResultFailure(job_id=JOB, cause=BOOM))

    for wait in (client.wait_submitted, client.wait):
        with pytest.raises(JobSubmissionError, match="job 'counts' was refused: ValueError: boom"):
            wait(timeout=0)


def test_a_job_whose_job_manager_dies_is_lost(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted())

    cluster.system.kill(cluster.desk)
    cluster.system.run_until_idle()

    with pytest.raises(JobExecutionError, match="was lost with its cluster: ClusterLostError: the JobManager is gone"):
        client.wait(timeout=0)


def test_a_job_whose_cluster_is_shut_down_is_lost(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted())

    cluster.system.terminate()
    cluster.system.run_until_idle()

    with pytest.raises(JobExecutionError, match="was lost"):
        client.wait(timeout=0)


def test_a_job_that_is_lost_leaves_its_newest_checkpoint(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted(), completed(3), completed(4))

    cluster.system.terminate()
    cluster.system.run_until_idle()

    with pytest.raises(JobExecutionError, match=r"continue with from_checkpoint\('/kept/chk-4'\)"):
        client.wait(timeout=0)


def test_waiting_ends_with_the_deadline_and_says_what_the_job_does(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted(), JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0))

    with pytest.raises(TimeoutError, match="is still RUNNING after 2 seconds"):
        client.wait(timeout=2)


def test_cancelling_is_asked_of_the_job_manager(cluster: Cluster) -> None:
    client = cluster.submit()

    client.cancel()

    assert isinstance(cluster.asked[-1], CancelJob)


def test_a_job_that_is_not_there_cannot_be_cancelled() -> None:
    cluster = Cluster(cancellation=CancellationFailure(job_id=JOB, cause=BOOM))
    client = cluster.submit()

    with pytest.raises(JobCancellationError, match="boom"):
        client.cancel()


def test_a_stopped_job_gives_the_path_of_the_checkpoint_that_is_kept() -> None:
    cluster = Cluster(stopping=StoppingSuccess(job_id=JOB, checkpoint_path="/checkpoints/job/chk-4"))
    client = cluster.submit()

    path = client.stop()

    assert path == "/checkpoints/job/chk-4"
    assert client.wait(timeout=0).checkpoint_path == path


def test_a_job_that_goes_on_was_not_stopped() -> None:
    cluster = Cluster(stopping=StoppingFailure(job_id=JOB, cause=BOOM))
    client = cluster.submit()

    with pytest.raises(JobStoppingError, match=r"job 'counts' \(job\) was not stopped: boom"):
        client.stop()


def test_a_job_that_has_ended_cannot_be_stopped(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted(), JobResultSuccess(job_id=JOB))

    with pytest.raises(JobStoppingError, match="was not stopped: it is FINISHED already"):
        client.stop()


def test_a_stop_that_takes_too_long_is_not_waited_for(cluster: Cluster) -> None:
    client = cluster.submit()

    with pytest.raises(TimeoutError, match=r"job 'counts' \(job\) has not stopped after 2 s"):
        client.stop(timeout=2)


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED])
def test_an_error_names_the_checkpoint_that_is_kept(status: JobStatus, cluster: Cluster) -> None:
    client = cluster.submit()

    cluster.say(accepted(), JobResultFailure(job_id=JOB, cause=BOOM, status=status, checkpoint_path="/kept/chk-4"))

    with pytest.raises(JobExecutionError, match=r"continue with from_checkpoint\('/kept/chk-4'\)") as failed:
        client.wait(timeout=0)
    assert failed.value.checkpoint_path == "/kept/chk-4"


def test_the_plan_is_there_before_anything_runs(cluster: Cluster) -> None:
    assert cluster.submit().job_graph == GRAPH


def test_a_listener_hears_everything_in_order_also_when_it_comes_late(cluster: Cluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()
    running = JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0)
    cluster.say(accepted(), running)

    client.add_listener(heard.append)
    cluster.say(JobResultSuccess(job_id=JOB))

    assert heard == [accepted(), running, JobResultSuccess(job_id=JOB)]


def test_a_listener_that_comes_very_late_hears_the_last_thousand(cluster: Cluster) -> None:
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


def test_a_listener_that_raises_harms_neither_the_job_nor_the_others(cluster: Cluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()

    def fail(_: Message) -> None:
        raise RuntimeError("a bug in the listener")

    client.add_listener(fail)
    client.add_listener(heard.append)
    cluster.say(accepted(), JobResultSuccess(job_id=JOB))

    assert client.wait(timeout=0).job_id == JOB
    assert heard == [accepted(), JobResultSuccess(job_id=JOB)]


def test_a_listener_hears_the_end_of_a_job_that_is_lost(cluster: Cluster) -> None:
    heard: list[Message] = []
    client = cluster.submit()
    cluster.say(accepted())
    client.add_listener(heard.append)

    cluster.system.kill(cluster.desk)
    cluster.system.run_until_idle()

    cause = SerializedThrowable(type_name="ClusterLostError", message="the JobManager is gone")
    assert heard == [accepted(), JobResultFailure(job_id=JOB, cause=cause)]


async def test_a_client_can_be_awaited(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted(), JobResultSuccess(job_id=JOB))

    result = await asyncio.wait_for(_awaited(client), timeout=1)

    assert result.job_name == "counts"


async def test_an_awaited_client_raises_what_wait_raises(cluster: Cluster) -> None:
    client = cluster.submit()
    cluster.say(accepted(), JobResultFailure(job_id=JOB, cause=BOOM))

    with pytest.raises(JobExecutionError, match="failed: ValueError: boom"):
        await client


async def test_awaiting_waits_for_the_listeners_and_leaves_the_loop_to_others() -> None:
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
        desk = system.spawn(Props(FinishingDesk), "job-manager")
        client = JobClient(system, desk, GRAPH)
        client.add_listener(hear)
        result, _ = await asyncio.gather(_awaited(client), release())

        assert result.job_name == "counts"
        assert heard == [accepted(), JobResultSuccess(job_id=JOB)]


async def _awaited(client: JobClient) -> JobExecutionResult:
    return await client
