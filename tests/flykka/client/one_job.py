"""One job on real threads, whose JobManager says what the test wants, and does as it is told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flykka.actors.execution_graph_info_store.actor import INFO_STORE, ExecutionGraphInfoStoreActor
from flykka.client.job_client import JobClient
from flykka.messages.control.job import (
    CancelJob,
    CancellationSuccess,
    CheckpointCompleted,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    MetricsReported,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
)
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobGraph,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
)
from flykka.messages.monitoring.job_details import RequestJobDetails, TrackJob
from flykka.messages.tasks.task import TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId, attempt_id
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem

JOB = JobId("job_1")
SOURCE = JobVertexId("source")
WINDOWS = JobVertexId("windows")
BOOM = SerializedThrowable(type_name="ValueError", message="boom")
KEPT = "/checkpoints/job_1/chk-4"


def operator(name: str, kind: OperatorKind) -> Operator:
    return Operator(operator_id=OperatorId(name), ref=OperatorRef(uid=name, fingerprint=""), name=name, kind=kind)


def vertex(vertex_id: JobVertexId, *operators: Operator, parallelism: int = 1) -> JobVertex:
    return JobVertex(
        vertex_id=vertex_id,
        name=" -> ".join(each.name for each in operators),
        operators=operators,
        parallelism=parallelism,
        max_parallelism=128,
    )


GRAPH = JobGraph(
    job_id=JOB,
    name="delays",
    vertices=(
        vertex(SOURCE, operator("flights", OperatorKind.SOURCE)),
        vertex(
            WINDOWS,
            operator("means", OperatorKind.WINDOW_AGGREGATE),
            operator("output", OperatorKind.SINK),
            parallelism=2,
        ),
    ),
    checkpointing=CheckpointingSettings(directory="/checkpoints"),
    heartbeat_interval_ms=1_000,
    heartbeat_timeout_ms=10_000,
)


def status(status: JobStatus, at: int = 0, cause: SerializedThrowable | None = None) -> JobStatusChanged:
    return JobStatusChanged(job_id=JOB, status=status, timestamp_ms=at, cause=cause)


class JobManagerDesk(Actor):
    """Accepts the job and notes who wants to hear of it; stops it, unless it may not, and cancels it."""

    def __init__(self, told: list[Message], clients: list[Ref], tracker: Ref, *, stops: bool) -> None:
        self._told = told
        self._clients = clients
        self._tracker = tracker
        self._stops = stops

    def handle_message(self, message: Message) -> None:
        if isinstance(message, RequestJobDetails):
            self._tracker.tell(message)
            return
        self._told.append(message)
        match message:
            case SubmitJob(client=client):
                self._clients.append(client)
                client.tell(JobSubmitSuccess(job_id=JOB))
            case StopJob(client=client) if self._stops:
                client.tell(StoppingSuccess(job_id=JOB, checkpoint_path=KEPT))
                self._end(JobResultSuccess(job_id=JOB, checkpoint_path=KEPT))
            case StopJob(client=client):
                client.tell(StoppingFailure(job_id=JOB, cause=BOOM))
            case CancelJob(client=client):
                client.tell(CancellationSuccess(job_id=JOB))
                self._end(JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.CANCELED))

    def _end(self, result: Message) -> None:
        self._tracker.tell(result)
        self._clients[0].tell(result)


@dataclass(frozen=True, slots=True)
class OneJob:
    """The job's client, what its JobManager was told, and how to say what is told about it."""

    client: JobClient
    told: list[Message]
    _listening: Ref
    _tracker: Ref

    def say(self, *messages: Message) -> None:
        for message in messages:
            self._tracker.tell(message)
            self._listening.tell(message)


@contextmanager
def one_job(*, stops: bool = True, savepoint_directory: str | None = None) -> Iterator[OneJob]:
    checkpointing = replace(GRAPH.checkpointing, savepoint_directory=savepoint_directory)
    told: list[Message] = []
    clients: list[Ref] = []
    with ActorSystem("one-job") as system:
        tracker = system.spawn(Props(ExecutionGraphInfoStoreActor), INFO_STORE)
        tracker.tell(TrackJob(job_graph=GRAPH))
        desk: ActorRef = system.spawn(Props(JobManagerDesk, told, clients, tracker, stops=stops), "job-manager")
        client = JobClient(system, desk, replace(GRAPH, checkpointing=checkpointing))
        client.wait_submitted(timeout=10)
        yield OneJob(client, told, clients[0], tracker)


def metrics(
    rows_in: int = 0,
    *,
    rows_out: int = 0,
    rows_published: int = 0,
    rows_staged: int = 0,
    late_rows: int = 0,
    watermark_ms: int | None = None,
    busy: int = 0,
    back_pressured: int = 0,
    idle: int = 0,
    subtask: int = 0,
    number: int = 0,
) -> MetricsReported:
    """Of a subtask of the windows."""
    return MetricsReported(
        job_id=JOB,
        attempt=attempt_id(JOB, WINDOWS, subtask, number),
        task_name="windows",
        metrics=TaskIOMetrics(
            rows_in=rows_in,
            rows_out=rows_out,
            rows_published=rows_published,
            rows_staged=rows_staged,
            late_rows=late_rows,
            watermark_ms=watermark_ms,
            busy_ms=busy,
            back_pressured_ms=back_pressured,
            idle_ms=idle,
        ),
    )


def completed(checkpoint: int, at: int = 0) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint,
        duration_ms=300,
        size_bytes=2_048,
        incremental_bytes=512,
        path=f"/checkpoints/chk-{checkpoint}",
        timestamp_ms=at,
    )
