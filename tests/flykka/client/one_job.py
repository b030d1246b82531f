"""One job on real threads, with a JobManager that sends its scripted replies at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flykka.actors.execution_graph_info_store.actor import INFO_STORE, ExecutionGraphInfoStoreActor
from flykka.client.job_client import JobClient
from flykka.messages.control.job import (
    CancellationSuccess,
    CheckpointCompleted,
    JobResultFailure,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    MetricsReported,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
)
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    ExternalizedCheckpointRetention,
    JobGraph,
    JobType,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
)
from flykka.messages.monitoring.job_details import TrackJob
from flykka.messages.tasks.task import TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId, attempt_id
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from tests.flykka.client.client_cluster import Answers, ScriptedJobManager

JOB = JobId("job_1")
SOURCE = JobVertexId("source")
WINDOWS = JobVertexId("windows")
BOOM = SerializedThrowable(type_name="ValueError", message="boom")
KEPT = "/checkpoints/job_1/chk-4"


def job_operator(name: str, kind: OperatorKind) -> Operator:
    return Operator(operator_id=OperatorId(name), ref=OperatorRef(uid=name, fingerprint=""), name=name, kind=kind)


def vertex_of_operators(vertex_id: JobVertexId, *operators: Operator, parallelism: int = 1) -> JobVertex:
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
        vertex_of_operators(SOURCE, job_operator("flights", OperatorKind.SOURCE)),
        vertex_of_operators(
            WINDOWS,
            job_operator("means", OperatorKind.WINDOW_AGGREGATE),
            job_operator("output", OperatorKind.SINK),
            parallelism=2,
        ),
    ),
    checkpointing=CheckpointingSettings(directory="/checkpoints"),
    heartbeat_interval_ms=1_000,
    heartbeat_timeout_ms=10_000,
)


def status(status: JobStatus, at: int = 0, cause: SerializedThrowable | None = None) -> JobStatusChanged:
    return JobStatusChanged(job_id=JOB, status=status, timestamp_ms=at, cause=cause)


@dataclass(frozen=True, slots=True)
class OneJob:
    """The job's client, the messages that its JobManager has received, and a method that publishes job events."""

    client: JobClient
    received: list[Message]
    _listening: Ref
    _tracker: Ref

    def publish(self, *messages: Message) -> None:
        for message in messages:
            self._tracker.tell(message)
            self._listening.tell(message)


@contextmanager
def one_job(
    *,
    stops: bool = True,
    savepoint_directory: str | None = None,
    retention: ExternalizedCheckpointRetention = GRAPH.checkpointing.retention,
    job_type: JobType = JobType.STREAMING,
) -> Iterator[OneJob]:
    checkpointing = replace(GRAPH.checkpointing, savepoint_directory=savepoint_directory, retention=retention)
    stopping = StoppingSuccess(job_id=JOB, checkpoint_path=KEPT) if stops else StoppingFailure(job_id=JOB, cause=BOOM)
    answers = Answers(
        submission=(JobSubmitSuccess(job_id=JOB),),
        cancellation=CancellationSuccess(job_id=JOB),
        canceled=JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.CANCELED),
        stopping=stopping,
    )
    received: list[Message] = []
    with ActorSystem("one-job") as system:
        tracker = system.spawn(Props(ExecutionGraphInfoStoreActor), INFO_STORE)
        tracker.tell(TrackJob(job_graph=GRAPH))
        job_manager = system.spawn(Props(ScriptedJobManager, received, answers, tracker), "job-manager")
        client = JobClient(system, job_manager, replace(GRAPH, checkpointing=checkpointing, job_type=job_type))
        client.wait_submitted(timeout=10)
        [listening] = [message.client for message in received if isinstance(message, SubmitJob)]
        yield OneJob(client, received, listening, tracker)


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


def checkpoint_completed(checkpoint: int, at: int = 0) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=checkpoint,
        duration_ms=300,
        size_bytes=2_048,
        incremental_bytes=512,
        path=f"/checkpoints/chk-{checkpoint}",
        timestamp_ms=at,
    )
