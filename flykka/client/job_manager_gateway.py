"""Asks the JobManager on behalf of the user's threads: the present one, or its successor."""

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
"""Seconds for an answer that needs nothing but the JobManager."""

SNAPSHOT_TIMEOUT = 3_600.0
"""Seconds that a savepoint or a checkpoint may take; its own time limit is the job's."""

_PAUSE = 0.05
"""Seconds between two looks for a JobManager, while there is none."""

A = TypeVar("A", bound=Message)

Refusal = (
    job.CancellationFailure
    | job.StoppingFailure
    | job.TriggerSavepointFailure
    | job.RequestCheckpointFailure
    | rescaling.JobResourceRequirementsRefused
)
"""The answers of the JobManager that it does not do what it was asked for."""


class NotKnownError(Exception):
    """There is no such job any more, or it has no such vertex or checkpoint."""


class RequestRefusedError(Exception):
    """The JobManager has not done what it was asked for; the text has its reason."""


class JobManagerGateway:
    """Any thread may use it, but those of actors. `services` tell of leaders in other processes.

    It answers the questions of `JobQueries` that the JobManager can answer, and passes on what is to be done with a
    job. Each call waits for `timeout` seconds at most.

    Raises:
        AskTimeoutError: there is no answer in this time.
        ActorDeadError: the cluster has ended.
        NotKnownError: there is no such job, or it has no such part.
        RequestRefusedError: what was asked for is not done.
    """

    def __init__(
        self, system: ActorSystem, job_manager: ActorRef, services: HighAvailabilityServices | None = None
    ) -> None:
        self._system = system
        self._first = job_manager
        self.services = services

    def other_leader(self) -> LeaderInformation | None:
        """The leader that this JobManager waits for; None where it leads itself, or nobody is known to.

        Raises:
            StoreUnavailableError: the store of high availability does not answer.
        """
        return None if self.services is None else self.services.other_leader()

    def leads(self) -> bool:
        """True if this process leads. Raises as `other_leader`."""
        return self.services is None or self.services.leads()

    @property
    def ref(self) -> ActorRef:
        """The JobManager that lives now; the first one, if none does."""
        return self._system.find(self._first.path) or self._first

    def ask(self, make: Callable[[Ref], Message], timeout: float = LOOK_TIMEOUT) -> Message:
        """Ask what `make` makes of the ref to answer to, once more where the JobManager has died on it.

        What it has begun for a question dies with it, so that a question may be asked again.
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
        """The graph of a job that has not ended; None where there is none of this id."""
        answer = self.ask(lambda me: job.RequestJob(job_id=job_id, client=me), timeout)
        return answer.job_graph if isinstance(answer, job.JobFound) else None

    def jobs(self, timeout: float = LOOK_TIMEOUT) -> tuple[JobOverview, ...]:
        answer = self.ask(lambda me: job_details.RequestJobsOverview(reply_to=me), timeout)
        assert isinstance(answer, job_details.JobsOverview), f"the question for all jobs is not answered with {answer}"
        return answer.jobs

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        request = job_details.RequestJobDetails
        return self._of_job(JobDetails, job_id, lambda me: request(job_id=job_id, reply_to=me, checkpoints=checkpoints))

    def graph(self, job_id: JobId) -> JobGraph:
        request = job_details.RequestJobGraph
        return self._of_job(job.JobFound, job_id, lambda me: request(job_id=job_id, reply_to=me)).job_graph

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        request = job_details.RequestJobVertexDetails
        found = self._of_job(
            job_details.SubtasksOfVertex,
            job_id,
            lambda me: request(job_id=job_id, reply_to=me, vertex_id=vertex_id),
        )
        if found.vertex is None:
            raise self._not_known(f"job {job_id} has no vertex {vertex_id}")
        return found.vertex, found.subtasks

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot:
        request = job_details.RequestCheckpointStats
        return self._of_job(CheckpointStatsSnapshot, job_id, lambda me: request(job_id=job_id, reply_to=me))

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        request = job_details.RequestCheckpointDetails
        found = self._of_job(
            job_details.CheckpointDetails,
            job_id,
            lambda me: request(job_id=job_id, reply_to=me, checkpoint_id=checkpoint_id),
        )
        if found.checkpoint is None:
            raise self._not_known(f"checkpoint {checkpoint_id} of job {job_id} is not kept")
        return found.checkpoint, found.subtasks

    def rescales(self, job_id: JobId) -> RescalesSnapshot:
        request = rescaling.RequestRescales
        return self._of_job(RescalesSnapshot, job_id, lambda me: request(job_id=job_id, reply_to=me))

    def requirements(self, job_id: JobId, timeout: float = LOOK_TIMEOUT) -> JobResourceRequirements:
        """The bounds of the parallelism of a job that has not ended."""
        return self._done(
            rescaling.JobResourceRequirementsUpdated,
            lambda me: rescaling.RequestJobResourceRequirements(job_id=job_id, client=me),
            timeout,
        ).requirements

    def update_requirements(
        self, job_id: JobId, requirements: JobResourceRequirements, timeout: float = LOOK_TIMEOUT
    ) -> None:
        """Set bounds of the parallelism of a job."""
        self._done(
            rescaling.JobResourceRequirementsUpdated,
            lambda me: rescaling.UpdateJobResourceRequirements(job_id=job_id, client=me, requirements=requirements),
            timeout,
        )

    def cancel(self, job_id: JobId, timeout: float = LOOK_TIMEOUT, *, delete_checkpoints: bool = False) -> None:
        """Have a job cancelled; it may end later."""
        self._done(
            job.CancellationSuccess,
            lambda me: job.CancelJob(job_id=job_id, client=me, delete_checkpoints=delete_checkpoints),
            timeout,
        )

    def stop(self, job_id: JobId, directory: str | None, timeout: float = SNAPSHOT_TIMEOUT, *, drain: bool) -> str:
        """Stop a job with a savepoint below `directory`, or else with a checkpoint; its path."""
        return self._done(
            job.StoppingSuccess,
            lambda me: job.StopJob(job_id=job_id, client=me, savepoint_directory=directory, drain=drain),
            timeout,
        ).checkpoint_path

    def trigger_savepoint(self, job_id: JobId, directory: str, timeout: float = SNAPSHOT_TIMEOUT) -> str:
        """Take a savepoint; its path."""
        return self._done(
            job.TriggerSavepointSuccess,
            lambda me: job.TriggerSavepoint(job_id=job_id, client=me, savepoint_directory=directory),
            timeout,
        ).savepoint_path

    def trigger_checkpoint(
        self, job_id: JobId, checkpoint_type: job.CheckpointType, timeout: float = SNAPSHOT_TIMEOUT
    ) -> job.RequestCheckpointSuccess:
        """Take a checkpoint: its id and its path, when it is complete."""
        return self._done(
            job.RequestCheckpointSuccess,
            lambda me: job.RequestCheckpoint(job_id=job_id, client=me, checkpoint_type=checkpoint_type),
            timeout,
        )

    def report_client_heartbeat(self, job_id: JobId, expired_timestamp_ms: int) -> None:
        """The client of a job lives until then (ms since the epoch)."""
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
            raise self._not_known(f"Job {job_id} not found")
        return answer

    def _done(self, success: type[A], make: Callable[[Ref], Message], timeout: float) -> A:
        answer = self.ask(make, timeout)
        if isinstance(answer, success):
            return answer
        assert isinstance(answer, Refusal), f"a request of a client is not answered with {answer}"
        raise self._refused(answer)

    def _not_known(self, text: str) -> Exception:
        return NotKnownError(text)

    def _refused(self, failure: Refusal) -> Exception:
        return RequestRefusedError(failure.cause.message)
