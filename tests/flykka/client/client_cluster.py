"""A client of a JobManager with scripted answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.actors.execution_graph_info_store.actor import INFO_STORE, ExecutionGraphInfoStoreActor
from flykka.client.client_actor import Attached
from flykka.client.job_client import JobClient
from flykka.messages.control.job import (
    CancelJob,
    CancellationSuccess,
    CheckpointCompleted,
    JobFound,
    JobNotFound,
    JobResultSuccess,
    JobSubmitSuccess,
    ListeningBehaviour,
    RegisterJobClient,
    RequestJob,
    StopJob,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.monitoring.job_details import JobInfoRequest, TrackJob
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import ClusterBuilder

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
    """A JobManager's replies to requests about the job; None means no reply."""

    submission: tuple[Message, ...] = ()
    cancellation: Message | None = field(default_factory=lambda: CancellationSuccess(job_id=JOB))
    canceled: Message | None = None
    """The job result that is sent after `cancellation`."""
    stopping: Message | None = None
    forgets: bool = False
    """If True, a client that registers is notified that the job does not exist, and no client receives a result."""
    savepoint_path: str | None = None
    """The path of every savepoint. If there is a `refusal`, no savepoint is taken."""
    refusal: SerializedThrowable | None = None


class ScriptedJobManager(Actor):
    """Records clients' requests and sends the scripted replies; without a `tracker` no job details are available."""

    def __init__(self, requests: list[Message], answers: Answers, tracker: Ref | None = None) -> None:
        self._requests = requests
        self._tracker = tracker
        self._answers = answers
        self._result: Message | None = None

    def handle_message(self, message: Message) -> None:
        answers = self._answers
        match message:
            case _ if isinstance(message, JobInfoRequest):
                if self._tracker is None:
                    message.reply_to.tell(JobNotFound(job_id=message.job_id))
                else:
                    self._tracker.tell(message)
                return
            case RequestJob(job_id=job_id, client=client):
                submitted = self._requests[0]
                assert isinstance(submitted, SubmitJob)
                client.tell(JobFound(job_id=job_id, job_graph=submitted.job_graph))
            case SubmitJob(client=client):
                for answer in answers.submission:
                    client.tell(answer)
        self._requests.append(message)
        match message:
            case RegisterJobClient(job_id=job_id, client=client) if answers.forgets:
                client.tell(JobNotFound(job_id=job_id))
            case RegisterJobClient(client=client) if self._result is not None:
                client.tell(self._result)
            case CancelJob(client=client) if answers.cancellation is not None:
                client.tell(answers.cancellation)
                self._tell_result(answers.canceled)
            case StopJob(job_id=job_id, client=client) if answers.stopping is not None:
                client.tell(answers.stopping)
                if isinstance(answers.stopping, StoppingSuccess):
                    path = answers.stopping.checkpoint_path
                    self._tell_result(JobResultSuccess(job_id=job_id, checkpoint_path=path))
            case TriggerSavepoint(job_id=job_id, client=client) if answers.refusal is not None:
                client.tell(TriggerSavepointFailure(job_id=job_id, client=client, cause=answers.refusal))
            case TriggerSavepoint(job_id=job_id, client=client) if answers.savepoint_path is not None:
                path = answers.savepoint_path
                client.tell(TriggerSavepointSuccess(job_id=job_id, client=client, savepoint_path=path))

    def _tell_result(self, result: Message | None) -> None:
        submitted = self._requests[0]
        if result is None or self._answers.forgets or not isinstance(submitted, SubmitJob):
            return
        self._result = result
        if self._tracker is not None:
            self._tracker.tell(result)
        registrations = [each for each in self._requests if isinstance(each, SubmitJob | RegisterJobClient)]
        if registrations[-1].listening_behaviour is not ListeningBehaviour.DETACHED:
            submitted.client.tell(result)


class ClientCluster(ClusterBuilder):
    """A client and its JobManager, on one thread and a virtual clock."""

    def __init__(self, answers: Answers | None = None, job_graph: JobGraph = GRAPH) -> None:
        super().__init__(SeededSystem())
        self.requests: list[Message] = []
        self.answers = answers or Answers()
        self.job_graph = job_graph
        self.tracker = self.start(Props(ExecutionGraphInfoStoreActor), INFO_STORE)
        self.tracker.tell(TrackJob(job_graph=job_graph))
        self._start_scripted()

    def _start_scripted(self) -> None:
        props = Props(ScriptedJobManager, self.requests, self.answers, self.tracker)
        self.job_manager = self.start(props, "job-manager")

    def submit(self, *, attached: Attached = True) -> JobClient:
        client = JobClient(self.system, self.job_manager, self.job_graph, attached=attached)
        self.system.run_until_idle()
        return client

    def replace_job_manager(self) -> None:
        self.kill("job-manager")
        self._start_scripted()
        self.system.advance(1_000)

    def send(self, *messages: Message) -> None:
        """Send messages to the client as if from the JobManager."""
        for message in messages:
            self.tracker.tell(message)
            self.tell(self.client_ref(), message)

    def client_ref(self) -> ActorRef:
        submitted = self.requests[0]
        assert isinstance(submitted, SubmitJob)
        return self.find(submitted.client.path.removeprefix("/user/"))


def accepted() -> JobSubmitSuccess:
    return JobSubmitSuccess(job_id=JOB)


def checkpoint_completed(checkpoint_id: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint_id,
        duration_ms=1,
        size_bytes=1,
        incremental_bytes=1,
        path=f"/kept/chk-{checkpoint_id}",
        timestamp_ms=0,
    )
