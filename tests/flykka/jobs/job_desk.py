"""What stands in the place of the JobManager where a client is tried."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.jobs.job_client import JobClient
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobId
from flykka.messages.job import (
    CancelJob,
    CancellationSuccess,
    CheckpointCompleted,
    JobResultSuccess,
    JobSubmitSuccess,
    StopJob,
    StoppingSuccess,
    SubmitJob,
)
from flykka.messages.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
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

    def submit(self, *, attached: bool = True) -> JobClient:
        client = JobClient(self.system, self.desk, GRAPH, attached=attached)
        self.system.run_until_idle()
        return client

    def replace_desk(self) -> None:
        """The JobManager dies, and another one takes its place."""
        self.system.kill(self.desk)
        self.system.run_until_idle()
        self.__post_init__()
        self.system.advance(1_000)

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
