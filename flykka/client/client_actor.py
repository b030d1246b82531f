"""The client's actor of a job (Flink's JobClientActor): submits the job, receives its events and forwards them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from typing import TYPE_CHECKING

from flykka.actors.machines.restart.restart_strategy import restarts_without_end
from flykka.client.flight_record import is_of_checkpoint, record_failure
from flykka.client.job_execution_result import JobExecutionResult
from flykka.client.leader_retriever import LeaderRetriever
from flykka.errors import JobCancelledError, JobExecutionError, JobRestoreError, JobSubmissionError, ProgramError
from flykka.messages.control.cluster import ClusterFailed
from flykka.messages.control.job import (
    AddJobListener,
    CheckpointCompleted,
    JobClientHeartbeatDue,
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    ListeningBehaviour,
    MetricsReported,
    RegisterJobClient,
    RegisterJobClientSuccess,
    ReportJobClientHeartbeat,
    SubmitJob,
)
from flykka.messages.control.job_manager import LeaderLookupDue
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobGraph
from flykka.messages.monitoring.exception_history import ExceptionHistoryChanged, FailureOutcome
from flykka.messages.monitoring.flight_record import FlightRecordNotWritten, FlightRecordWritten
from flykka.messages.monitoring.job_details import JobDetails, JobDetailsTimedOut, RequestJobDetails
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.errors import serialized
from flykka.runtime.futures.future import Future
from flykka.runtime.signals import Terminated

if TYPE_CHECKING:
    from flykka.client.flight_record import WriteFlightRecord

logger = logging.getLogger("flykka")

_LOGGED_RESTARTS = frozenset(10**power for power in range(10))

DETAILS_TIMEOUT_MS = 10_000

FLIGHT_RECORD_TIMEOUT_MS = 30_000
"""Milliseconds to wait for the flight record, so that an unresponsive file system does not delay the failure further.
"""
HISTORY = 1_000
"""The number of retained messages about a job, not counting metrics."""

Attached = bool | ListeningBehaviour | str
"""True: receive all changes. False: receive only replies. Otherwise a ListeningBehaviour, or its name."""

EVERYTHING = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES


def listening_behaviour(attached: Attached) -> ListeningBehaviour:
    """Parse `attached`.

    Raises:
        ProgramError: there is no such behaviour.
    """
    if isinstance(attached, bool):
        return EVERYTHING if attached else ListeningBehaviour.DETACHED
    try:
        return ListeningBehaviour(attached)
    except ValueError as unknown:
        names = ", ".join(ListeningBehaviour)
        raise ProgramError(f"attached must be True, False or one of {names}, not {attached!r}") from unknown


@dataclass(slots=True, kw_only=True)
class JobView:
    """The state of a job, updated by the client's actor and readable by any thread."""

    outcome: Future[JobExecutionResult]
    submitted: Future[JobId]
    attached: Future[JobId]
    """Completed when the job has ended, or when a client that was not registered on submission is registered."""
    details: JobDetails
    is_final: bool = False
    news: int = 0
    """The number of received messages. If it is unchanged, only elapsed times have changed."""
    status: JobStatus = JobStatus.CREATED
    failure: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, details: JobDetails | None) -> JobDetails:
        with self._lock:
            if details is not None and not self.is_final:
                self.details = details
            return self.details

    def end_with(self, details: JobDetails) -> None:
        with self._lock:
            self.details, self.is_final = details, True

    def end_without_details(self, result: JobResultSuccess | JobResultFailure) -> None:
        """Derive the final details from the result, because the cluster can no longer provide them."""
        with self._lock:
            match result:
                case JobResultSuccess(checkpoint_path=path, accumulators=final):
                    self.details = replace(
                        self.details, status=JobStatus.FINISHED, kept_checkpoint=path, accumulators=final
                    )
                case JobResultFailure(checkpoint_path=path, cause=cause, status=status):
                    self.details = replace(self.details, status=status, kept_checkpoint=path, last_failure=cause)
            self.is_final = True


@trace_tag("actor.job_client")
class JobClientActor(Actor):
    """The client of one submitted job. It completes its view in any case, even if the cluster terminates.

    The end of a job is reported when its last details have arrived, because they cannot be requested after the cluster
    has terminated. A failure is reported when its flight record has been written, so that the error can name the file.
    """

    def __init__(
        self,
        job_manager: Ref,
        job_graph: JobGraph,
        view: JobView,
        restore_path: str | None = None,
        write_flight_record: WriteFlightRecord | None = None,
        *,
        allow_non_restored_state: bool = False,
        listening_behaviour: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES,
        submits: bool = True,
    ) -> None:
        self._job_manager = job_manager
        self._listening_behaviour = listening_behaviour
        self._submits = submits
        self._graph = job_graph
        self._view = view
        self._restore_path = restore_path
        self._allow_non_restored_state = allow_non_restored_state
        self._write_flight_record = write_flight_record
        self._result: JobResultSuccess | JobResultFailure | None = None
        """The result of the job, while the last details are outstanding."""
        self._untold: JobResultFailure | None = None  # A failure whose flight record is being written.
        self._submitted_ms = 0
        self._checkpoint_path: str | None = None
        """The path of the newest checkpoint, if checkpoints survive the loss of the cluster."""
        self._restarts = 0
        self._history = JobHistory()
        self._listeners: list[Ref] = []

    def pre_start(self) -> None:
        self._submitted_ms = self.context.now()
        self._leader_retriever = LeaderRetriever(self.context, self._job_manager)
        self.context.watch(self._job_manager)
        if self._submits and (heartbeat := self._graph.client_heartbeat) is not None:
            self.context.timers.start_fixed_delay("heartbeat", heartbeat.interval_ms, JobClientHeartbeatDue())
        if self._submits:
            self._submit()
        else:
            self._register()

    def _submit(self) -> None:
        self._job_manager.tell(
            SubmitJob(
                job_graph=self._graph,
                client=self.context.ref,
                listening_behaviour=self._listening_behaviour,
                restore_path=self._restore_path,
                allow_non_restored_state=self._allow_non_restored_state,
            )
        )

    def _register(self) -> None:
        job_id, client, behaviour = self._graph.job_id, self.context.ref, self._listening_behaviour
        self._job_manager.tell(RegisterJobClient(job_id=job_id, client=client, listening_behaviour=behaviour))

    def handle_message(self, message: Message) -> None:
        """Record and forward messages about the job. Its result is delayed until its final details arrive."""
        if isinstance(message, JobClientHeartbeatDue):
            self._send_heartbeat()
            return
        self._view.news += 1
        match message:
            case JobResultSuccess() | JobResultFailure() if not self._has_ended and not self._is_refused(message):
                self._request_details(message)
            case JobDetails() | JobDetailsTimedOut() | JobNotFound() | Terminated() if self._result is not None:
                self._on_details(message, self._result)
            case JobDetails() | JobDetailsTimedOut():
                return  # The details arrived after the timeout.
            case _:
                self._on_event(message)

    def _send_heartbeat(self) -> None:
        heartbeat = self._graph.client_heartbeat
        if heartbeat is None or self._has_ended:
            self.context.timers.cancel("heartbeat")
            return
        expires_ms = self.context.now() + heartbeat.timeout_ms
        self._job_manager.tell(ReportJobClientHeartbeat(job_id=self._graph.job_id, expired_timestamp_ms=expires_ms))

    def _is_refused(self, result: JobResultSuccess | JobResultFailure) -> bool:
        return isinstance(result, JobResultFailure) and self._submits and not self._view.submitted.done()

    def _request_details(self, result: JobResultSuccess | JobResultFailure) -> None:
        self._result = result
        self._job_manager.tell(RequestJobDetails(job_id=self._graph.job_id, reply_to=self.context.ref))
        self.context.timers.start_once("details", DETAILS_TIMEOUT_MS, JobDetailsTimedOut())

    def _on_details(self, answer: Message, result: JobResultSuccess | JobResultFailure) -> None:
        self.context.timers.cancel("details")
        self._result = None
        if isinstance(answer, JobDetails):
            self._view.end_with(answer)
        else:
            self._view.end_without_details(result)
        self._on_event(result)

    def _on_event(self, message: Message) -> None:
        match message:
            case AddJobListener(listener=listener):
                self._on_add_listener(listener)
                return
            case RegisterJobClient(listening_behaviour=behaviour):
                # This client sent the request itself. Although detached, it needs the events of its job.
                self._listening_behaviour = behaviour
                self._register()
                return
            case JobSubmitSuccess(job_id=job_id):
                self._view.submitted.try_set(job_id)
            case RegisterJobClientSuccess(job_id=job_id):
                self._view.submitted.try_set(job_id)
                self._view.attached.try_set(job_id)
            case JobStatusChanged(status=status):
                self._view.status = status
            case ExceptionHistoryChanged(entry=entry) if entry.outcome is FailureOutcome.RESTARTING:
                self._on_restart(entry.root.cause)
            case CheckpointCompleted(path=path) if self._keeps_checkpoints:
                self._checkpoint_path = path
            case JobResultSuccess():
                self._on_success(message)
            case JobResultFailure() if self._needs_flight_record(message):
                self._begin_flight_record(message)
                return
            case JobResultFailure():
                self._on_failure(message)
            case FlightRecordWritten() | FlightRecordNotWritten():
                if self._untold is None:
                    return  # The file was written after the timeout.
                message = self._on_flight_record(message, self._untold)
            case Terminated() | LeaderLookupDue() | ClusterFailed() | JobNotFound() if self._has_ended:
                return
            case ClusterFailed(cause=cause):
                # Listeners must be notified of the end too.
                message = JobResultFailure(job_id=self._graph.job_id, cause=self._lost(cause.message))
            case Terminated():
                self._leader_retriever.on_leader_lost()
                return
            case LeaderLookupDue() if not self._leader_retriever.has_timed_out:
                self._find_job_manager()
                return
            case LeaderLookupDue():
                message = JobResultFailure(job_id=self._graph.job_id, cause=self._lost("the JobManager has ended"))
            case JobNotFound() if self._submits and not self._view.submitted.done():
                # The JobManager died before it accepted the job.
                self._submit()
                return
            case JobNotFound(job_id=job_id):
                message = JobResultFailure(job_id=job_id, cause=self._lost("its JobManager no longer knows it"))
        self._history.add(message)
        for listener in self._listeners:
            listener.tell(message)

    @property
    def _has_ended(self) -> bool:
        return self._view.outcome.done() or self._untold is not None or self._result is not None

    def _find_job_manager(self) -> None:
        leader = self._leader_retriever.find_leader()
        if leader is not None:
            self._job_manager = leader
            self.context.watch(leader)
            self._register()

    def post_stop(self) -> None:
        """Fail all waiters, because the cluster has terminated and no result will come."""
        if self._result is not None:
            self._on_details(JobDetailsTimedOut(), self._result)
        if self._untold is None:
            self._lost("its cluster was shut down while it ran, for example by close() of the environment")
        else:
            self._on_failure(self._untold, unrecorded="its cluster was shut down meanwhile")

    def _on_add_listener(self, listener: Ref) -> None:
        for message in self._history:
            listener.tell(message)
        self._listeners.append(listener)

    @property
    def _keeps_checkpoints(self) -> bool:
        retention = self._graph.checkpointing.retention
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def _on_restart(self, cause: SerializedThrowable) -> None:
        """Log a restart if the job has no listeners. Otherwise a job that fails repeatedly would seem to work."""
        self._restarts += 1
        # One line per second would hide everything else, so only the 1st, 10th, 100th, ... restart is logged.
        if self._listeners or self._restarts not in _LOGGED_RESTARTS:
            return
        endless = restarts_without_end(self._graph.restart_strategy)
        logger.warning(
            "job %r has failed and restarts (restart %d%s): %s: %s",
            self._graph.name,
            self._restarts,
            ", without limit unless set_restart_strategy(...) sets one" if endless else "",
            cause.type_name,
            cause.message,
        )

    def _on_success(self, success: JobResultSuccess) -> None:
        self._view.status = JobStatus.FINISHED
        self._view.submitted.try_set(success.job_id)
        if success.is_earlier and self._submits:
            logger.warning("job %r has finished earlier in this application: it does not run again", self._graph.name)
        self._view.outcome.try_set(
            JobExecutionResult(
                job_id=self._graph.job_id,
                job_name=self._graph.name,
                net_runtime_ms=self.context.now() - self._submitted_ms,
                checkpoint_path=success.checkpoint_path,
                accumulators=success.accumulators,
                is_earlier=success.is_earlier,
            )
        )
        self._view.attached.try_set(success.job_id)

    def _needs_flight_record(self, failure: JobResultFailure) -> bool:
        if not self._view.submitted.done() or failure.status is not JobStatus.FAILED:
            return False
        return self._write_flight_record is not None or is_of_checkpoint(failure.cause)

    def _begin_flight_record(self, failure: JobResultFailure) -> None:
        self._untold = failure
        damaged = (failure.checkpoint_path or self._restore_path) if is_of_checkpoint(failure.cause) else None
        self.context.pipe_to_self(
            partial(record_failure, self._write_flight_record, damaged),
            lambda record: record,
            lambda error: FlightRecordNotWritten(cause=serialized(error)),
        )
        late = SerializedThrowable(type_name="TimeoutError", message="the file system has not answered in 30 seconds")
        self.context.timers.start_once("flight-record", FLIGHT_RECORD_TIMEOUT_MS, FlightRecordNotWritten(cause=late))

    def _on_flight_record(
        self, record: FlightRecordWritten | FlightRecordNotWritten, failure: JobResultFailure
    ) -> JobResultFailure:
        self.context.timers.cancel("flight-record")
        self._untold = None
        match record:
            case FlightRecordWritten():
                self._on_failure(failure, record)
            case FlightRecordNotWritten(cause=cause):
                logger.error("job %r: the flight record could not be written: %s", self._graph.name, cause.message)
                self._on_failure(failure, unrecorded=cause.message)
        return failure

    def _on_failure(
        self, failure: JobResultFailure, record: FlightRecordWritten | None = None, *, unrecorded: str | None = None
    ) -> None:
        cause, retained_path = failure.cause, failure.checkpoint_path
        restarts = self._view.details.number_of_restarts
        self._view.status = failure.status
        job_id, name = self._graph.job_id, self._graph.name
        if self._view.submitted.try_fail(lambda: JobSubmissionError(_refused(name, cause))):
            self._fail(lambda: JobSubmissionError(_refused(name, cause)))
        elif failure.status is JobStatus.CANCELED:
            why = "" if cause.type_name == JobCancelledError.__name__ else f": {cause.message}"
            self._fail(lambda: JobCancelledError(job_id, name, f"was cancelled{why}", cause, retained_path))
        else:
            error = JobRestoreError if is_of_checkpoint(cause) else JobExecutionError
            self._fail(
                lambda: error(
                    job_id,
                    name,
                    "failed",
                    cause,
                    retained_path,
                    restarts=restarts,
                    flight_record=record.path or None if record else None,
                    unrecorded=unrecorded,
                    earlier_checkpoint=record.earlier_checkpoint if record else None,
                )
            )

    def _lost(self, why: str) -> SerializedThrowable:
        job_id, name = self._graph.job_id, self._graph.name
        cause = SerializedThrowable(type_name="ClusterLostError", message=why)
        if not self._view.outcome.done():
            self._view.status = JobStatus.FAILED
            if self._view.details.ended_ms is None:
                # A detached client may have requested details that already show the end of the job.
                self._view.end_without_details(JobResultFailure(job_id=job_id, cause=cause))
        self._view.submitted.try_fail(lambda: JobSubmissionError(_refused(name, cause)))
        retained_path = self._checkpoint_path
        self._fail(lambda: JobExecutionError(job_id, name, "was lost with its cluster", cause, retained_path))
        return cause

    def _fail(self, failure: Callable[[], Exception]) -> None:
        if not self._view.outcome.done():
            # This is set first, because a thread that waits for the outcome reads it.
            self._view.failure = failure()
            self._view.outcome.try_fail(failure)
            self._view.attached.try_set(self._graph.job_id)


@trace_tag("actor.job_listener")
class JobListenerActor(Actor):
    """Calls a user's function with every message about a job, in order, on its own thread, until the job ends."""

    def __init__(self, client: Ref, callback: Callable[[Message], object], heard_all: Future[None]) -> None:
        self._client = client
        self._callback = callback
        self._heard_all = heard_all

    def pre_start(self) -> None:
        self._client.tell(AddJobListener(listener=self.context.ref))

    def handle_message(self, message: Message) -> None:
        """Call the function. An error in it fails only this actor."""
        last = isinstance(message, JobResultSuccess | JobResultFailure)
        try:
            self._callback(message)
        finally:
            if last:
                self._heard_all.try_set(None)
                self.context.stop()

    def pre_restart(self, cause: BaseException | None) -> None:
        """Keep the listener registered while it restarts, because messages continue to arrive."""

    def post_restart(self, cause: BaseException | None) -> None:
        """Do not register again, because the client would send the whole history again."""

    def post_stop(self) -> None:
        self._heard_all.try_set(None)


def _refused(name: str, cause: SerializedThrowable) -> str:
    return f"job {name!r} was refused: {cause.type_name}: {cause.message}"


class JobHistory:
    """Retains the last messages about a job for late listeners, and the latest metrics of every subtask.

    Metrics arrive once per interval and subtask as long as the job runs. If they counted towards the limit, those of a
    job with many subtasks would displace all other messages.
    """

    def __init__(self, limit: int = HISTORY) -> None:
        self._messages: deque[tuple[int, Message]] = deque(maxlen=limit)
        self._metrics: dict[tuple[JobVertexId, int], tuple[int, Message]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[Message]:
        metrics = sorted(self._metrics.values(), key=_number)
        return iter([message for _, message in merge(self._messages, metrics, key=_number)])

    def add(self, message: Message) -> None:
        numbered = (self._next, message)
        self._next += 1
        if isinstance(message, MetricsReported):
            self._metrics[message.vertex_id, message.subtask] = numbered
        else:
            self._messages.append(numbered)


def _number(numbered: tuple[int, Message]) -> int:
    return numbered[0]
