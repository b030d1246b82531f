"""RestfulGateway: queries the actors of a cluster for REST requests (Flink's class). Calls block their thread."""

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
from flykka.client.job_manager_gateway import LOOK_TIMEOUT, JobManagerGateway, Refusal
from flykka.diagnosis.collection import collect_reports
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.messages.control.high_availability import LeaderInformation
from flykka.messages.control.job import CancellationFailure
from flykka.messages.control.rescaling import JobResourceRequirements, JobResourceRequirementsRefused
from flykka.messages.monitoring.explanation import ExplainSlots, SlotsExplained
from flykka.messages.monitoring.job_details import ProcessEnvironment
from flykka.messages.wire.ids import JobId, TaskManagerId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.rest.errors import RestError
from flykka.runtime.errors import ActorDeadError, AskFailedError, AskTimeoutError

if TYPE_CHECKING:
    from flykka.cluster.local_cluster import LocalCluster

_CONFLICT = 409
"""The HTTP status of requests that are impossible because the job has ended or was changed."""

_ID = re.compile(r"[0-9a-f]{32}")

A = TypeVar("A", bound=Message)


class RestfulGateway(JobManagerGateway):
    history_of = None

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster.system, cluster.gateway.ref, cluster.gateway.services)
        self._cluster = cluster

    def ask(self, make: Callable[[Ref], Message], timeout: float = LOOK_TIMEOUT) -> Message:
        """Ask the JobManager, unless another driver leads."""
        try:
            if (leader := self.other_leader()) is not None:
                raise RestError(503, _standby_reason(leader))
            return super().ask(make, timeout)
        except (ActorDeadError, AskFailedError, AskTimeoutError) as silent:
            raise _unanswered("the JobManager", silent) from None
        except StoreUnavailableError as unknown:
            raise RestError(503, f"it is not known which driver leads: {unknown}", passes=True) from None

    def environment(self, job_id: JobId) -> ProcessEnvironment:
        self.details(job_id)
        return process_environment()

    def requirements(self, job_id: JobId, timeout: float = LOOK_TIMEOUT) -> JobResourceRequirements:
        """Return the bounds of a job's parallelism. The status is 404 if the job is unknown."""
        self.details(job_id)
        return super().requirements(job_id, timeout)

    def update_requirements(
        self, job_id: JobId, requirements: JobResourceRequirements, timeout: float = LOOK_TIMEOUT
    ) -> None:
        """Set the bounds of a job's parallelism. The status is 400 if they are refused."""
        self.details(job_id)
        try:
            super().update_requirements(job_id, requirements, timeout)
        except RestError as refused:
            if refused.status == _CONFLICT:
                raise RestError(400, str(refused)) from None
            raise

    def slots(self) -> SlotsExplained:
        living = (cell for cell in self._system.cells.living() if cell.props.actor_class is ResourceManager)
        resource_manager = next((cell.ref for cell in living), None)
        if resource_manager is None:
            raise RestError(503, "no ResourceManager is running at this moment", passes=True)
        try:
            answer = resource_manager.ask(lambda me: ExplainSlots(reply_to=me), timeout=LOOK_TIMEOUT)
        except (ActorDeadError, AskFailedError, AskTimeoutError) as silent:
            raise _unanswered("the ResourceManager", silent) from None
        assert isinstance(answer, SlotsExplained), f"unexpected reply to the query for slots: {answer}"
        return answer

    def network(self, task_manager: TaskManagerId) -> NetworkSettings:
        for cell in self._system.cells.living():
            if cell.props.actor_class is TaskManager and cell.name == task_manager:
                settings = cell.props.kwargs["network"]
                assert isinstance(settings, NetworkSettings), f"{cell.name} has no network settings"
                return settings
        raise RestError(404, f"there is no TaskManager {task_manager!r}")

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        """Diagnose a job. Each of its actors has `time_limit` seconds to reply.

        If no actor replies, the diagnosis reports that, but only for jobs that were submitted from this process.
        """
        graph = self._cluster.running_graph(job_id)
        details = self.details(job_id) if graph is None else JobReadModel(graph).details(self._system.clock.now_ms())
        return diagnose(collect_reports(self._system, details, time_limit))

    def shut_down(self) -> None:
        """Shut down the cluster on another thread, because this server must respond before it terminates."""
        Thread(target=self._cluster.shutdown, name="flykka-rest-shutdown", daemon=True).start()

    def cancel(self, job_id: JobId, timeout: float = LOOK_TIMEOUT, *, delete_checkpoints: bool = False) -> None:
        """Request the cancellation of a job. The status is 409 if it has ended, 404 if it is unknown."""
        self.details(job_id)
        super().cancel(job_id, timeout, delete_checkpoints=delete_checkpoints)

    def cancel_if_running(self, job_id: JobId) -> None:
        try:
            super().cancel(job_id)
        except RestError as refused:
            if refused.status != _CONFLICT:
                raise

    def _of_job(self, kind: type[A], job_id: JobId, make: Callable[[Ref], Message]) -> A:
        if not _ID.fullmatch(job_id):
            raise RestError(400, f"{job_id!r} is not an id of a job: it has 32 hexadecimal digits")
        return super()._of_job(kind, job_id, make)

    def _unknown(self, text: str) -> Exception:
        return RestError(404, text)

    def _refused(self, failure: Refusal) -> Exception:
        at_once = isinstance(failure, CancellationFailure | JobResourceRequirementsRefused)
        return RestError(_CONFLICT if at_once else 500, failure.cause.message)


def _unanswered(name: str, silent: Exception) -> RestError:
    """Create the error for an actor that does not reply. A dead actor is replaced, so the request may be repeated."""
    text = f"{name} does not answer: {silent}"
    return RestError(503, text, passes=not isinstance(silent, AskTimeoutError))


def _standby_reason(leader: LeaderInformation) -> str:
    where = "has no REST interface" if leader.rest_address is None else f"answers at {leader.rest_address}"
    return f"this driver is on standby: another one leads, and {where}"
