"""What stands in the place of the JobManager where a client is tried."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.actors.execution_graph_info_store.actor import INFO_STORE, ExecutionGraphInfoStoreActor
from flykka.client.job_client import JobClient
from flykka.messages.control.job import (
    CancelJob,
    CancellationSuccess,
    CheckpointCompleted,
    JobNotFound,
    JobResultSuccess,
    JobSubmitSuccess,
    StopJob,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.monitoring.job_details import RequestJobDetails, TrackJob
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
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


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the desk says to those who want something of the job. None: it keeps silent."""

    cancellation: Message | None = field(default_factory=lambda: CancellationSuccess(job_id=JOB))
    stopping: Message | None = None
    savepoint_path: str | None = None
    """Where every savepoint is; with a `refusal` there is none."""
    refusal: SerializedThrowable | None = None


class JobManagerDesk(Actor):
    """Notes what clients ask of the JobManager, and answers a cancellation, a stop and a savepoint as told."""

    def __init__(self, asked: list[Message], answers: Answers, tracker: Ref) -> None:
        self._asked = asked
        self._tracker = tracker
        self._answers = answers

    def handle_message(self, message: Message) -> None:
        if isinstance(message, RequestJobDetails):
            self._tracker.tell(message)
            return
        self._asked.append(message)
        match message:
            case CancelJob(client=client) if self._answers.cancellation is not None:
                client.tell(self._answers.cancellation)
            case StopJob(client=client) if self._answers.stopping is not None:
                client.tell(self._answers.stopping)
                self._tell_result(self._answers.stopping)
            case TriggerSavepoint(client=client):
                self._answer_savepoint(client)
            case _:
                pass

    def _answer_savepoint(self, client: Ref) -> None:
        if self._answers.refusal is not None:
            client.tell(TriggerSavepointFailure(job_id=JOB, client=client, cause=self._answers.refusal))
        elif self._answers.savepoint_path is not None:
            path = self._answers.savepoint_path
            client.tell(TriggerSavepointSuccess(job_id=JOB, client=client, savepoint_path=path))

    def _tell_result(self, stopping: Message) -> None:
        submitted = self._asked[0]
        if isinstance(stopping, StoppingSuccess) and isinstance(submitted, SubmitJob):
            submitted.client.tell(JobResultSuccess(job_id=JOB, checkpoint_path=stopping.checkpoint_path))


class FinishingDesk(Actor):
    """Takes every job, and says at once that it has FINISHED. It knows no details."""

    def handle_message(self, message: Message) -> None:
        if isinstance(message, RequestJobDetails):
            message.reply_to.tell(JobNotFound(job_id=JOB))
            return
        assert isinstance(message, SubmitJob)
        message.client.tell(JobSubmitSuccess(job_id=JOB))
        message.client.tell(JobResultSuccess(job_id=JOB))


@dataclass
class Cluster:
    """A client with the desk it talks to, on one thread and a virtual clock."""

    system: SeededSystem = field(default_factory=SeededSystem)
    asked: list[Message] = field(default_factory=list)
    answers: Answers = field(default_factory=Answers)
    job_graph: JobGraph = GRAPH

    def __post_init__(self) -> None:
        self.tracker = self.system.spawn(Props(ExecutionGraphInfoStoreActor), INFO_STORE)
        self.tracker.tell(TrackJob(job_graph=self.job_graph))
        self._open_desk()

    def _open_desk(self) -> None:
        desk = Props(JobManagerDesk, self.asked, self.answers, self.tracker)
        self.desk = self.system.spawn(desk, "job-manager")

    def submit(self, *, attached: bool = True) -> JobClient:
        client = JobClient(self.system, self.desk, self.job_graph, attached=attached)
        self.system.run_until_idle()
        return client

    def replace_desk(self) -> None:
        """The JobManager dies, and another one takes its place."""
        self.system.kill(self.desk)
        self.system.run_until_idle()
        self._open_desk()
        self.system.advance(1_000)

    def say(self, *messages: Message) -> None:
        """What the JobManager tells the client."""
        for message in messages:
            self.tracker.tell(message)
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
