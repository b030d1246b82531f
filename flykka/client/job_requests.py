"""Requests of a client to a running job, and the errors of those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from os import PathLike
from typing import TypeVar

from flykka.client.directories import absolute_directory
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.errors import (
    CheckpointError,
    ClusterError,
    JobCancellationError,
    JobStoppingError,
    RescaleError,
    SavepointError,
)
from flykka.messages.checkpointing.statistics import CheckpointStatsSnapshot
from flykka.messages.control.job import (
    CancelJob,
    CancellationFailure,
    CheckpointType,
    JobNotFound,
    RequestCheckpoint,
    RequestCheckpointFailure,
    RequestCheckpointSuccess,
    RequestJob,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.control.rescaling import (
    JobResourceRequirements,
    JobResourceRequirementsRefused,
    JobResourceRequirementsUpdated,
    RequestJobResourceRequirements,
    RequestRescales,
    Rescale,
    RescalesSnapshot,
    UpdateJobResourceRequirements,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.job_details import (
    CHECKPOINT_HISTORY,
    AwaitArchives,
    JobDetails,
    RequestCheckpointStats,
    RequestJobDetails,
    RequestJobVertexDetails,
    SubtaskDetails,
    SubtasksOfVertex,
)
from flykka.messages.wire.ids import JobVertexId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.metrics.measured import Measured, of_job, of_subtasks
from flykka.runtime.errors import ActorDeadError, AskFailedError, AskTimeoutError

A = TypeVar("A", bound=Message)

_LOOK_TIMEOUT = 10.0
"""Seconds for an answer that needs nothing but the JobManager."""

_HERE = "localhost"
"""The host of what is measured: all actors are in this process."""


class JobRequests:
    """Of one job. Every call waits for the answer."""

    def __init__(self, job_manager: JobManagerGateway, job_graph: JobGraph) -> None:
        self._job_manager = job_manager
        self._graph = job_graph
        self._job_id = job_graph.job_id
        self._named = f"job {job_graph.name!r} ({job_graph.job_id})"

    def has_ended(self) -> bool:
        """True if the JobManager knows it no more."""
        answer = self._job_manager.ask(lambda me: RequestJob(job_id=self._job_id, client=me), _LOOK_TIMEOUT)
        return isinstance(answer, JobNotFound)

    def details(self, timeout: float, checkpoints: int = CHECKPOINT_HISTORY) -> JobDetails | None:
        """Ask for the job's details with this many last checkpoints; None where no JobManager answers or knows it."""
        job_id = self._job_id
        try:
            answer = self._job_manager.ref.ask(
                lambda me: RequestJobDetails(job_id=job_id, reply_to=me, checkpoints=checkpoints), timeout=timeout
            )
        except (ActorDeadError, AskFailedError, AskTimeoutError):
            return None
        return answer if isinstance(answer, JobDetails) else None

    def measured(self, now_ms: int) -> Iterator[Measured]:
        """Measure the job and each of its subtasks. Raises as `JobClient.metrics` does."""
        job_id = self._job_id
        details = self._info(JobDetails, lambda me: RequestJobDetails(job_id=job_id, reply_to=me, checkpoints=0))
        checkpoints = self._info(CheckpointStatsSnapshot, lambda me: RequestCheckpointStats(job_id=job_id, reply_to=me))
        yield of_job(details, checkpoints, _HERE, now_ms)
        for vertex in details.vertices:
            yield from of_subtasks(details, vertex, self._subtasks(vertex.vertex_id), _HERE, now_ms)

    def cancel(self, timeout: float) -> None:
        """As `JobClient.cancel`."""
        try:
            answer = self._job_manager.ask(lambda me: CancelJob(job_id=self._job_id, client=me), timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"no answer to the cancellation of job {self._graph.name!r} in {timeout} s") from late
        if isinstance(answer, CancellationFailure):
            raise JobCancellationError(f"{self._named}: {answer.cause.message}")

    def stop(self, timeout: float, savepoint_directory: str | None, *, drain: bool) -> str:
        """As `JobClient.stop` and `stop_with_savepoint`, up to the JobManager's word that it has stopped."""
        try:
            answer = self._job_manager.ask(
                lambda me: StopJob(
                    job_id=self._job_id, client=me, savepoint_directory=savepoint_directory, drain=drain
                ),
                timeout,
            )
        except AskTimeoutError as late:
            raise TimeoutError(f"{self._named} has not stopped after {timeout} s") from late
        if isinstance(answer, StoppingFailure):
            raise JobStoppingError(f"{self._named} was not stopped: {answer.cause.message}")
        assert isinstance(answer, StoppingSuccess), f"a stop is not answered with {answer}"
        return answer.checkpoint_path

    def trigger_savepoint(self, timeout: float, savepoint_directory: str) -> str:
        """As `JobClient.trigger_savepoint`."""
        try:
            answer = self._job_manager.ask(
                lambda me: TriggerSavepoint(job_id=self._job_id, client=me, savepoint_directory=savepoint_directory),
                timeout,
            )
        except AskTimeoutError as late:
            raise TimeoutError(f"no savepoint of {self._named} is complete after {timeout} s") from late
        if isinstance(answer, TriggerSavepointFailure):
            raise SavepointError(f"no savepoint of {self._named}: {answer.cause.message}")
        assert isinstance(answer, TriggerSavepointSuccess), f"a savepoint is not answered with {answer}"
        return answer.savepoint_path

    def trigger_checkpoint(self, timeout: float, checkpoint_type: CheckpointType) -> str:
        """As `JobClient.trigger_checkpoint`."""
        try:
            answer = self._job_manager.ask(
                lambda me: RequestCheckpoint(job_id=self._job_id, client=me, checkpoint_type=checkpoint_type), timeout
            )
        except AskTimeoutError as late:
            raise TimeoutError(f"no checkpoint of {self._named} is complete after {timeout} s") from late
        if isinstance(answer, RequestCheckpointFailure):
            raise CheckpointError(f"no checkpoint of {self._named}: {answer.cause.message}")
        assert isinstance(answer, RequestCheckpointSuccess), f"a checkpoint is not answered with {answer}"
        return answer.checkpoint_path

    def update_requirements(self, timeout: float, requirements: JobResourceRequirements) -> None:
        """As `JobClient.update_resource_requirements`."""
        job_id = self._job_id
        self._ask_for_requirements(
            timeout,
            lambda me: UpdateJobResourceRequirements(job_id=job_id, client=me, requirements=requirements),
        )

    def requirements(self, timeout: float) -> JobResourceRequirements:
        """As `JobClient.resource_requirements`."""
        job_id = self._job_id
        return self._ask_for_requirements(timeout, lambda me: RequestJobResourceRequirements(job_id=job_id, client=me))

    def rescales(self) -> tuple[Rescale, ...]:
        """As `JobClient.rescales`."""
        return self._info(RescalesSnapshot, lambda me: RequestRescales(job_id=self._job_id, reply_to=me)).rescales

    def _ask_for_requirements(self, timeout: float, make: Callable[[Ref], Message]) -> JobResourceRequirements:
        try:
            answer = self._job_manager.ask(make, timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"no answer about the requirements of {self._named} in {timeout} s") from late
        if isinstance(answer, JobResourceRequirementsRefused):
            raise RescaleError(f"{self._named} is not rescaled: {answer.cause.message}")
        assert isinstance(answer, JobResourceRequirementsUpdated), f"requirements are not answered with {answer}"
        return answer.requirements

    def await_archive(self) -> None:
        """Wait until the job, which has ended, is archived where it is to be: for some seconds at most."""
        if self._graph.checkpointing.archive_directory is not None:
            # Where nobody answers any more, its cluster has waited for it.
            with suppress(ActorDeadError, AskFailedError, AskTimeoutError):
                self._job_manager.ask(lambda me: AwaitArchives(reply_to=me), _LOOK_TIMEOUT)

    def savepoint_directory(self, directory: str | PathLike[str] | None) -> str:
        """Return the directory for savepoints, else the default. Raises `SavepointError` where there is neither."""
        chosen = directory or self._graph.checkpointing.savepoint_directory
        if chosen is None:
            raise SavepointError(
                "No savepoint directory configured. You can either specify a directory while triggering this savepoint"
                " or configure a default with set_default_savepoint_directory(...), in `flykka run` --savepoint-dir"
            )
        return absolute_directory(chosen)

    def _subtasks(self, vertex_id: JobVertexId) -> tuple[SubtaskDetails, ...]:
        return self._info(
            SubtasksOfVertex,
            lambda me: RequestJobVertexDetails(job_id=self._job_id, reply_to=me, vertex_id=vertex_id),
        ).subtasks

    def _info(self, kind: type[A], make: Callable[[Ref], Message]) -> A:
        try:
            answer = self._job_manager.ask(make, _LOOK_TIMEOUT)
        except AskTimeoutError as late:
            raise TimeoutError(f"nothing is told of {self._named} after {_LOOK_TIMEOUT} s") from late
        except ActorDeadError as ended:
            raise ClusterError(f"nothing more is told of {self._named}: its cluster was shut down") from ended
        if not isinstance(answer, kind):
            raise ClusterError(f"nothing is told of {self._named}: its cluster does not know it any more")
        return answer
