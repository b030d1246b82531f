"""RestfulGateway: asks the actors of a cluster on behalf of requests (Flink's). Every call blocks, on a thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from flykka.actors.errors import StoreUnavailableError
from flykka.actors.execution_graph_info_store.actor import process_environment
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.actors.resource_manager.actor import ResourceManager
from flykka.actors.task_manager.actor import TaskManager
from flykka.diagnosis.collection import collect_reports
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsSnapshot,
    SubtaskCheckpointStatistics,
)
from flykka.messages.control.high_availability import LeaderInformation
from flykka.messages.control.job import (
    CancelJob,
    CancellationFailure,
    CheckpointType,
    JobClientHeartbeatNoted,
    JobFound,
    ReportJobClientHeartbeat,
    RequestCheckpoint,
    RequestCheckpointFailure,
    RequestCheckpointSuccess,
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
    RescalesSnapshot,
    UpdateJobResourceRequirements,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.explanation import ExplainSlots, SlotsExplained
from flykka.messages.monitoring.job_details import (
    CheckpointDetails,
    JobDetails,
    JobOverview,
    JobsOverview,
    JobVertexDetails,
    ProcessEnvironment,
    RequestCheckpointDetails,
    RequestCheckpointStats,
    RequestJobDetails,
    RequestJobGraph,
    RequestJobsOverview,
    RequestJobVertexDetails,
    SubtaskDetails,
    SubtasksOfVertex,
)
from flykka.messages.wire.ids import JobId, JobVertexId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.rest.errors import RestError
from flykka.runtime.errors import ActorDeadError, AskFailedError, AskTimeoutError

if TYPE_CHECKING:
    from flykka.cluster.local_cluster import LocalCluster

TIMEOUT_S = 10.0
"""Seconds for an answer that needs nothing but the JobManager."""

STOPPING_TIMEOUT_S = 3_600.0
"""Seconds that a savepoint may take; its own time limit is the job's."""

_ID = re.compile(r"[0-9a-f]{32}")

A = TypeVar("A", bound=Message)


class RestfulGateway:
    """Of one cluster."""

    history_of = None
    """It shows no archives."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._system = cluster.system
        self._job_manager = cluster.gateway

    def jobs(self) -> tuple[JobOverview, ...]:
        """The jobs that run, and the last that have ended."""
        return self._ask(JobsOverview, lambda me: RequestJobsOverview(reply_to=me)).jobs

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        """A job as it stands now, with that many of its last checkpoints."""
        return self._of_job(
            JobDetails,
            job_id,
            lambda me: RequestJobDetails(job_id=job_id, reply_to=me, checkpoints=checkpoints),
        )

    def graph(self, job_id: JobId) -> JobGraph:
        """The plan and the configuration of a job."""
        return self._of_job(JobFound, job_id, lambda me: RequestJobGraph(job_id=job_id, reply_to=me)).job_graph

    def environment(self, job_id: JobId) -> ProcessEnvironment:
        self.details(job_id)
        return process_environment()

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        """A vertex, and its subtasks. Raises `RestError` where the job has none of this id."""
        found = self._of_job(
            SubtasksOfVertex,
            job_id,
            lambda me: RequestJobVertexDetails(job_id=job_id, reply_to=me, vertex_id=vertex_id),
        )
        if found.vertex is None:
            raise RestError(404, f"job {job_id} has no vertex {vertex_id}")
        return found.vertex, found.subtasks

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot:
        return self._of_job(
            CheckpointStatsSnapshot, job_id, lambda me: RequestCheckpointStats(job_id=job_id, reply_to=me)
        )

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        """A checkpoint, and its subtasks as far as they are kept. Raises `RestError` where it is not kept."""
        found = self._of_job(
            CheckpointDetails,
            job_id,
            lambda me: RequestCheckpointDetails(job_id=job_id, reply_to=me, checkpoint_id=checkpoint_id),
        )
        if found.checkpoint is None:
            raise RestError(404, f"checkpoint {checkpoint_id} of job {job_id} is not kept")
        return found.checkpoint, found.subtasks

    def rescales(self, job_id: JobId) -> RescalesSnapshot:
        return self._of_job(RescalesSnapshot, job_id, lambda me: RequestRescales(job_id=job_id, reply_to=me))

    def requirements(self, job_id: JobId) -> JobResourceRequirements:
        """The bounds of the parallelism of a job. Raises `RestError` where it has ended."""
        self.details(job_id)
        return self._requirements(409, lambda me: RequestJobResourceRequirements(job_id=job_id, client=me))

    def update_requirements(self, job_id: JobId, requirements: JobResourceRequirements) -> None:
        """Set bounds of the parallelism of a job. Raises `RestError` where they are none, or it has ended."""
        self.details(job_id)
        self._requirements(
            400, lambda me: UpdateJobResourceRequirements(job_id=job_id, client=me, requirements=requirements)
        )

    def _requirements(self, refused: int, make: Callable[[Ref], Message]) -> JobResourceRequirements:
        answer = self._ask(Message, make)
        if isinstance(answer, JobResourceRequirementsRefused):
            raise RestError(refused, answer.cause.message)
        assert isinstance(answer, JobResourceRequirementsUpdated), f"requirements are not answered with {answer}"
        return answer.requirements

    def slots(self) -> SlotsExplained:
        living = (cell for cell in self._system.cells.living() if cell.props.actor_class is ResourceManager)
        resource_manager = next((cell.ref for cell in living), None)
        if resource_manager is None:
            raise RestError(503, "there is no ResourceManager at this moment", passes=True)
        try:
            answer = resource_manager.ask(lambda me: ExplainSlots(reply_to=me), timeout=TIMEOUT_S)
        except (ActorDeadError, AskFailedError, AskTimeoutError) as silent:
            raise _unanswered("the ResourceManager", silent) from None
        assert isinstance(answer, SlotsExplained), f"the question for slots is not answered with {answer}"
        return answer

    def network(self, task_manager: TaskManagerId) -> NetworkSettings:
        """The room of a TaskManager for batches on their way. Raises `RestError` where there is none of this name."""
        for cell in self._system.cells.living():
            if cell.props.actor_class is TaskManager and cell.name == task_manager:
                found = cell.props.kwargs["network"]
                assert isinstance(found, NetworkSettings), f"{cell.name} has no settings of its network"
                return found
        raise RestError(404, f"there is no TaskManager {task_manager!r}")

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        """Diagnose a job, which goes on or does not: every actor of it is asked, and has seconds to answer.

        That none of them answers is an answer too, where the job was submitted from this process.
        """
        graph = self._cluster.running_graph(job_id)
        known = self.details(job_id) if graph is None else JobReadModel(graph).details(self._system.clock.now_ms())
        return diagnose(collect_reports(self._system, known, time_limit))

    def shut_down(self) -> None:
        """Begin to end the cluster, on another thread: this server answers the request, and ends with it."""
        Thread(target=self._cluster.shutdown, name="flykka-rest-shutdown", daemon=True).start()

    def cancel(self, job_id: JobId, *, delete_checkpoints: bool = False) -> None:
        """Have a job cancelled. Raises `RestError` where there is no such job, or it has ended."""
        self.details(job_id)
        refusal = self._cancelled(job_id, delete_checkpoints=delete_checkpoints)
        if refusal is not None:
            raise RestError(409, refusal.cause.message)

    def cancel_if_running(self, job_id: JobId) -> None:
        """Have a job cancelled, unless it has ended."""
        self._cancelled(job_id)

    def _cancelled(self, job_id: JobId, *, delete_checkpoints: bool = False) -> CancellationFailure | None:
        answer = self._ask(
            Message, lambda me: CancelJob(job_id=job_id, client=me, delete_checkpoints=delete_checkpoints)
        )
        return answer if isinstance(answer, CancellationFailure) else None

    def report_client_heartbeat(self, job_id: JobId, expired_timestamp_ms: int) -> None:
        """The client of a job lives until then. Raises `RestError` where there is no such job, or it has ended."""
        self._of_job(
            JobClientHeartbeatNoted,
            job_id,
            lambda me: ReportJobClientHeartbeat(job_id=job_id, expired_timestamp_ms=expired_timestamp_ms, reply_to=me),
        )

    def stop(self, job_id: JobId, directory: str, *, drain: bool) -> str:
        """Stop a job with a savepoint; its path. Raises `RestError` where it fails."""
        return self._done(
            StoppingSuccess,
            lambda me: StopJob(job_id=job_id, client=me, savepoint_directory=directory, drain=drain),
        ).checkpoint_path

    def trigger_savepoint(self, job_id: JobId, directory: str) -> str:
        """Take a savepoint; its path. Raises `RestError` where it fails."""
        return self._done(
            TriggerSavepointSuccess,
            lambda me: TriggerSavepoint(job_id=job_id, client=me, savepoint_directory=directory),
        ).savepoint_path

    def trigger_checkpoint(self, job_id: JobId, checkpoint_type: CheckpointType) -> int:
        """Take a checkpoint; its id, when it is complete. Raises `RestError` where it fails."""
        return self._done(
            RequestCheckpointSuccess,
            lambda me: RequestCheckpoint(job_id=job_id, client=me, checkpoint_type=checkpoint_type),
        ).checkpoint_id

    def _done(self, success: type[A], make: Callable[[Ref], Message]) -> A:
        """The answer to what takes as long as a snapshot. Raises `RestError` where it fails."""
        answer = self._ask(Message, make, STOPPING_TIMEOUT_S)
        if isinstance(answer, StoppingFailure | TriggerSavepointFailure | RequestCheckpointFailure):
            raise RestError(500, answer.cause.message)
        assert isinstance(answer, success), f"what is begun over REST is not answered with {answer}"
        return answer

    def _of_job(self, kind: type[A], job_id: JobId, make: Callable[[Ref], Message]) -> A:
        if not _ID.fullmatch(job_id):
            raise RestError(400, f"{job_id!r} is no id of a job: it has 32 hexadecimal digits")
        answer = self._ask(Message, make)
        if not isinstance(answer, kind):
            raise RestError(404, f"Job {job_id} not found")
        return answer

    def _ask(self, kind: type[A], make: Callable[[Ref], Message], timeout: float = TIMEOUT_S) -> A:
        try:
            if (leader := self._job_manager.other_leader()) is not None:
                raise RestError(503, _led_elsewhere(leader))
            answer = self._job_manager.ask(make, timeout)
        except (ActorDeadError, AskFailedError, AskTimeoutError) as silent:
            raise _unanswered("the JobManager", silent) from None
        except StoreUnavailableError as unknown:
            raise RestError(503, f"it is not known which driver leads: {unknown}", passes=True) from None
        assert isinstance(answer, kind), f"a question of the REST interface is not answered with {answer}"
        return answer


def _unanswered(name: str, silent: Exception) -> RestError:
    """Tell that an actor that has ended is followed by another; one that is stuck has been waited for already."""
    text = f"{name} does not answer: {silent}"
    return RestError(503, text, passes=not isinstance(silent, AskTimeoutError))


def _led_elsewhere(leader: LeaderInformation) -> str:
    where = "has no REST interface" if leader.rest_address is None else f"answers at {leader.rest_address}"
    return f"this driver waits until it is needed: another one leads, and {where}"
