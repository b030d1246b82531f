"""Sends requests of user threads to the current JobManager or its successor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsSnapshot,
    SubtaskCheckpointStatistics,
)
from flykka.messages.control import job, rescaling
from flykka.messages.control.high_availability import LeaderInformation
from flykka.messages.control.rescaling import JobResourceRequirements, RescalesSnapshot
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring import job_details
from flykka.messages.monitoring.job_details import JobDetails, JobOverview, JobVertexDetails, SubtaskDetails
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import ActorDeadError, AskTimeoutError
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem

LOOK_TIMEOUT = 10.0
"""Seconds to wait for a reply of the JobManager itself."""

SNAPSHOT_TIMEOUT = 3_600.0
"""Seconds to wait for a savepoint or checkpoint. The job has its own checkpoint timeout."""

_PAUSE = 0.05
"""Seconds between two attempts to find a JobManager."""

A = TypeVar("A", bound=Message)

Refusal = (
    job.CancellationFailure
    | job.StoppingFailure
    | job.TriggerSavepointFailure
    | job.RequestCheckpointFailure
    | rescaling.JobResourceRequirementsRefused
)


class NotKnownError(Exception):
    """The job no longer exists, or has no such vertex or checkpoint."""


class RequestRefusedError(Exception):
    """The JobManager has refused a request. The error contains its reason."""


class JobManagerGateway:
    """Sends requests to the JobManager from any thread except those of actors.

    `services` know leaders in other processes. The gateway implements the queries of `JobQueries` that the JobManager
    can answer, and forwards commands for a job. Each call waits at most `timeout` seconds.

    Raises:
        AskTimeoutError: no reply arrives in this time.
        ActorDeadError: the cluster has terminated.
        NotKnownError: there is no such job, vertex or checkpoint.
        RequestRefusedError: the request was refused.
    """

    def __init__(
        self, system: ActorSystem, job_manager: ActorRef, services: HighAvailabilityServices | None = None
    ) -> None:
        self._system = system
        self._first = job_manager
        self.services = services

    def other_leader(self) -> LeaderInformation | None:
        """Return the leader in another process, or None if this process leads or no leader is known.

        Raises:
            StoreUnavailableError: the high-availability store does not reply.
        """
        return None if self.services is None else self.services.other_leader()

    def leads(self) -> bool:
        """Return whether this process leads. Raises the errors of `other_leader`."""
        return self.services is None or self.services.leads()

    @property
    def ref(self) -> ActorRef:
        """The current JobManager, or the first one if none is running."""
        return self._system.find(self._first.path) or self._first

    def ask(self, make: Callable[[Ref], Message], timeout: float = LOOK_TIMEOUT) -> Message:
        """Send the message that `make` creates for a reply ref. If the JobManager dies, send it again.

        Repetition is safe, because everything that a JobManager has started for a request ends with the JobManager.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer: Message = self.ref.ask(make, timeout=max(_PAUSE, deadline - time.monotonic()))
                return answer
            except ActorDeadError:
                if self._system.terminated.done():
                    raise
                if time.monotonic() >= deadline:
                    raise AskTimeoutError(f"no JobManager in {timeout} s") from None
                time.sleep(_PAUSE)

    def running_graph(self, job_id: JobId, timeout: float = LOOK_TIMEOUT) -> JobGraph | None:
        answer = self.ask(lambda me: job.RequestJob(job_id=job_id, client=me), timeout)
        return answer.job_graph if isinstance(answer, job.JobFound) else None

    def jobs(self, timeout: float = LOOK_TIMEOUT) -> tuple[JobOverview, ...]:
        answer = self.ask(lambda me: job_details.RequestJobsOverview(reply_to=me), timeout)
        assert isinstance(answer, job_details.JobsOverview), f"unexpected reply to the query for all jobs: {answer}"
        return answer.jobs

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        request = job_details.RequestJobDetails
        return self._of_job(JobDetails, job_id, lambda me: request(job_id=job_id, reply_to=me, checkpoints=checkpoints))

    def graph(self, job_id: JobId) -> JobGraph:
        request = job_details.RequestJobGraph
        return self._of_job(job.JobFound, job_id, lambda me: request(job_id=job_id, reply_to=me)).job_graph

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        request = job_details.RequestJobVertexDetails
        answer = self._of_job(
            job_details.SubtasksOfVertex,
            job_id,
            lambda me: request(job_id=job_id, reply_to=me, vertex_id=vertex_id),
        )
        if answer.vertex is None:
            raise self._unknown(f"job {job_id} has no vertex {vertex_id}")
        return answer.vertex, answer.subtasks

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot:
        request = job_details.RequestCheckpointStats
        return self._of_job(CheckpointStatsSnapshot, job_id, lambda me: request(job_id=job_id, reply_to=me))

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        request = job_details.RequestCheckpointDetails
        answer = self._of_job(
            job_details.CheckpointDetails,
            job_id,
            lambda me: request(job_id=job_id, reply_to=me, checkpoint_id=checkpoint_id),
        )
        if answer.checkpoint is None:
            raise self._unknown(f"checkpoint {checkpoint_id} of job {job_id} is not in the history")
        return answer.checkpoint, answer.subtasks

    def rescales(self, job_id: JobId) -> RescalesSnapshot:
        request = rescaling.RequestRescales
        return self._of_job(RescalesSnapshot, job_id, lambda me: request(job_id=job_id, reply_to=me))

    def requirements(self, job_id: JobId, timeout: float = LOOK_TIMEOUT) -> JobResourceRequirements:
        return self._ask_for_success(
            rescaling.JobResourceRequirementsUpdated,
            lambda me: rescaling.RequestJobResourceRequirements(job_id=job_id, client=me),
            timeout,
        ).requirements

    def update_requirements(
        self, job_id: JobId, requirements: JobResourceRequirements, timeout: float = LOOK_TIMEOUT
    ) -> None:
        self._ask_for_success(
            rescaling.JobResourceRequirementsUpdated,
            lambda me: rescaling.UpdateJobResourceRequirements(job_id=job_id, client=me, requirements=requirements),
            timeout,
        )

    def cancel(self, job_id: JobId, timeout: float = LOOK_TIMEOUT, *, delete_checkpoints: bool = False) -> None:
        self._ask_for_success(
            job.CancellationSuccess,
            lambda me: job.CancelJob(job_id=job_id, client=me, delete_checkpoints=delete_checkpoints),
            timeout,
        )

    def stop(self, job_id: JobId, directory: str | None, timeout: float = SNAPSHOT_TIMEOUT, *, drain: bool) -> str:
        """Stop a job with a savepoint in `directory`, or with a checkpoint if `directory` is None. Returns the path."""
        return self._ask_for_success(
            job.StoppingSuccess,
            lambda me: job.StopJob(job_id=job_id, client=me, savepoint_directory=directory, drain=drain),
            timeout,
        ).checkpoint_path

    def trigger_savepoint(self, job_id: JobId, directory: str, timeout: float = SNAPSHOT_TIMEOUT) -> str:
        return self._ask_for_success(
            job.TriggerSavepointSuccess,
            lambda me: job.TriggerSavepoint(job_id=job_id, client=me, savepoint_directory=directory),
            timeout,
        ).savepoint_path

    def trigger_checkpoint(
        self, job_id: JobId, checkpoint_type: job.CheckpointType, timeout: float = SNAPSHOT_TIMEOUT
    ) -> job.RequestCheckpointSuccess:
        """Take a checkpoint. Returns its id and path when it is complete."""
        return self._ask_for_success(
            job.RequestCheckpointSuccess,
            lambda me: job.RequestCheckpoint(job_id=job_id, client=me, checkpoint_type=checkpoint_type),
            timeout,
        )

    def report_client_heartbeat(self, job_id: JobId, expired_timestamp_ms: int) -> None:
        """Report that a job's client is alive at least until the given time, in milliseconds since the epoch."""
        self._of_job(
            job.JobClientHeartbeatAccepted,
            job_id,
            lambda me: job.ReportJobClientHeartbeat(
                job_id=job_id, expired_timestamp_ms=expired_timestamp_ms, reply_to=me
            ),
        )

    def _of_job(self, kind: type[A], job_id: JobId, make: Callable[[Ref], Message]) -> A:
        answer = self.ask(make)
        if not isinstance(answer, kind):
            raise self._unknown(f"Job {job_id} not found")
        return answer

    def _ask_for_success(self, success: type[A], make: Callable[[Ref], Message], timeout: float) -> A:
        answer = self.ask(make, timeout)
        if isinstance(answer, success):
            return answer
        assert isinstance(answer, Refusal), f"unexpected reply to a client's request: {answer}"
        raise self._refused(answer)

    def _unknown(self, text: str) -> Exception:
        return NotKnownError(text)

    def _refused(self, failure: Refusal) -> Exception:
        return RequestRefusedError(failure.cause.message)
