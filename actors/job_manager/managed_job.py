"""The JobManager's record of a job: its phase, its listeners, and pending requests of clients.

The functions at the end of the module work on the records of all jobs: they route requests, and recover jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import assert_never

from flykka.actors.machines.states import next_phase
from flykka.messages.control.high_availability import SubmittedJobGraph
from flykka.messages.control.job import (
    CancelJob,
    CancellationFailure,
    CancellationSuccess,
    JobFound,
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    ListeningBehaviour,
    RequestCheckpoint,
    RequestCheckpointFailure,
    RequestCheckpointSuccess,
    RequestJob,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.control.job_control import JobEnded
from flykka.messages.control.rescaling import (
    JobResourceRequirementsRefused,
    JobResourceRequirementsUpdated,
    RequestJobResourceRequirements,
    UpdateJobResourceRequirements,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref

RequirementsRequest = UpdateJobResourceRequirements | RequestJobResourceRequirements
RequirementsAnswer = JobResourceRequirementsUpdated | JobResourceRequirementsRefused


class RequirementsRequests:
    """Pending resource requests of one job. Each gets one reply: the JobMaster's, or a refusal."""

    def __init__(self) -> None:
        self._asked: list[RequirementsRequest] = []

    def ask(self, request: RequirementsRequest, job_master: Ref) -> None:
        self._asked.append(request)
        job_master.tell(request)

    def answer(self, answer: RequirementsAnswer) -> None:
        request = next((each for each in self._asked if each.client == answer.client), None)
        if request is not None:
            self._asked.remove(request)
            answer.client.tell(answer)

    def refuse_all(self, why: str) -> None:
        for request in self._asked:
            request.client.tell(requirements_refusal(request, why))
        self._asked.clear()


def requirements_refusal(request: RequirementsRequest, why: str) -> JobResourceRequirementsRefused:
    cause = SerializedThrowable(type_name="RescaleError", message=why)
    return JobResourceRequirementsRefused(job_id=request.job_id, client=request.client, cause=cause)


class JobPhase(Enum):
    """The phase of a job. The values are predicates for explanations."""

    ACCEPTING = "is being accepted: its graph is being checked and stored"
    STARTING = "waits for a new JobMaster: its start must be stored first"
    AWAITING_CODE = (
        "waits for its application: the job was recovered, but its code is unknown until the application"
        " submits it again"
    )
    RUNNING = "is run by its JobMaster"
    RELEASING = "has lost its JobMaster; the former one's work is being ended"
    PUTTING_AWAY = "has ended, and is being cleaned up"
    SUSPENDED = "is suspended: this process does not lead"


P = JobPhase

JOB_PHASE_MOVES: dict[JobPhase, tuple[JobPhase, ...]] = {
    P.ACCEPTING: (P.STARTING, P.AWAITING_CODE, P.RUNNING, P.PUTTING_AWAY, P.SUSPENDED),
    P.STARTING: (P.RUNNING, P.SUSPENDED),
    P.AWAITING_CODE: (P.ACCEPTING, P.RUNNING, P.PUTTING_AWAY, P.SUSPENDED),
    P.RUNNING: (P.RELEASING, P.PUTTING_AWAY, P.SUSPENDED),
    P.RELEASING: (P.STARTING, P.PUTTING_AWAY, P.SUSPENDED),
    P.PUTTING_AWAY: (P.SUSPENDED,),
    P.SUSPENDED: (P.ACCEPTING, P.STARTING, P.AWAITING_CODE, P.RUNNING, P.PUTTING_AWAY),
}
"""The store may accept a job while its JobManager is suspended. The job then runs when the JobManager leads again."""


MAX_FAILURES = 3
"""The number of JobMaster failures after which the job fails."""

FAILURES_RESET_MS = 600_000
"""The uptime of a JobMaster, in milliseconds, after which the number of failures is reset."""

SnapshotRequest = TriggerSavepoint | RequestCheckpoint
SnapshotAnswer = TriggerSavepointSuccess | TriggerSavepointFailure | RequestCheckpointSuccess | RequestCheckpointFailure


class ManagedJob:
    """A job of the JobManager. Used in its turns only."""

    def __init__(self, submitted: SubmittedJobGraph, info_store: Ref) -> None:
        self.submitted = submitted
        self.info_store = info_store
        self.phase = JobPhase.ACCEPTING
        self.job_master: Ref | None = None
        self.is_busy = False
        """True while blocking work for the job runs."""
        self.is_kept = False
        self.is_bound = True
        self.cancellation: CancelJob | None = None
        """The request to cancel the job, which is also sent to later JobMasters."""
        self.end: JobEnded | None = None
        self.is_cleaned_up = False
        self.is_over_elsewhere = False
        """True if another leader has archived the job. This record is dropped once no work for the job runs here."""
        self.is_asked_again = False
        self.failure: SerializedThrowable | None = None
        self._failures = 0
        self._began_ms = 0
        self._clients: dict[Ref, ListeningBehaviour] = {}
        self._stopped_by: list[StopJob] = []
        self._snapshots_asked: list[SnapshotRequest] = []
        self._requirements = RequirementsRequests()

    @property
    def job_id(self) -> JobId:
        return self.submitted.job_graph.job_id

    @property
    def may_begin(self) -> bool:
        return self.phase is not JobPhase.AWAITING_CODE

    @property
    def has_failed_too_often(self) -> bool:
        return self._failures >= MAX_FAILURES

    def recover(self, submitted: SubmittedJobGraph, end: JobEnded | None, *, is_bound: bool) -> None:
        self.submitted, self.is_kept, self.is_bound = submitted, True, is_bound
        self.end = end if self.is_over_elsewhere else self.end or end
        self.is_over_elsewhere = False
        if not is_bound and self.end is None:
            self.move(JobPhase.AWAITING_CODE)

    def bind(self, job_graph: JobGraph) -> None:
        """Continue the job with the graph that its application has submitted again."""
        self.submitted = replace(self.submitted, job_graph=job_graph, starts=self.submitted.starts + 1)
        self.move(JobPhase.ACCEPTING)

    def move(self, phase: JobPhase) -> None:
        self.phase = next_phase(JOB_PHASE_MOVES, self.phase, phase)

    def begin_work(self, phase: JobPhase) -> None:
        self.move(phase)
        self.is_busy = True

    def accept(self, starts: int) -> bool:
        """Record that the store has the job, after this many starts. Returns True if clients are to be notified."""
        is_new = self.phase is not JobPhase.STARTING
        self.submitted = replace(self.submitted, starts=starts)
        self.is_kept, self.is_bound, self.is_busy = True, True, False
        return is_new

    def run(self, job_master: Ref, now: int) -> None:
        self.move(JobPhase.RUNNING)
        self.job_master, self._began_ms = job_master, now

    def record_end(self, end: JobEnded) -> None:
        self.end, self.is_cleaned_up = end, True

    def end_elsewhere(self, end: JobEnded) -> None:
        self.end, self.is_kept, self.is_over_elsewhere = end, False, True

    def record_failure(self, failure: SerializedThrowable, now: int) -> None:
        if now - self._began_ms >= FAILURES_RESET_MS:
            self._failures = 0
        self._failures += 1
        self.failure = failure

    def lose_job_master(self, now: int) -> None:
        text = f"the JobMaster of {self.job_id} ended unexpectedly; a new one continues from the latest checkpoint"
        cause = self.failure or SerializedThrowable(type_name="JobMasterLostError", message=text)
        self.give_up_requests(text)
        self._tell_status(JobStatus.RESTARTING, now, cause)

    def release(self, end: JobEnded | None, checkpoint_path: str | None) -> None:
        self.is_busy = False
        if end is not None:
            self.end = end
        elif self.end is None and self.has_failed_too_often:
            assert self.failure is not None, f"the JobMasters of {self.job_id} have not failed"
            status = JobStatus.FAILED
            self.end = JobEnded(job_id=self.job_id, status=status, cause=self.failure, checkpoint_path=checkpoint_path)

    def answer_with_end(self, client: Ref, behaviour: ListeningBehaviour) -> None:
        """Reply to another submission with the end of the job, which is being cleaned up."""
        self.is_asked_again = True
        self.register(client, behaviour)
        client.tell(JobSubmitSuccess(job_id=self.job_id))

    def suspend(self, now: int) -> None:
        if self.phase is JobPhase.RUNNING:
            self._tell_status(JobStatus.SUSPENDED, now)
        self.move(JobPhase.SUSPENDED)
        self.give_up_requests("its JobManager no longer leads")

    def register(self, client: Ref, behaviour: ListeningBehaviour) -> bool:
        """Add the client as a listener. Returns True if it receives all changes from now on and did not before."""
        all_changes = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES
        was, self._clients[client] = self._clients.get(client), behaviour
        return behaviour is all_changes and was is not all_changes

    @property
    def listeners(self) -> tuple[Ref, ...]:
        all_changes = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES
        clients = (client for client, behaviour in self._clients.items() if behaviour is all_changes)
        # The info store comes first, so that it can answer queries about a change that a client has just received.
        return (self.info_store, *clients)

    def refuse(self, cause: SerializedThrowable) -> None:
        self.tell_all(refusal(self.job_id, cause))
        self._clients.clear()

    def tell_all(self, message: Message) -> None:
        for client in self._clients:
            client.tell(message)

    def tell_result(self, end: JobEnded, *, is_earlier: bool = False) -> None:
        self.answer_stops(outcome_of_stop(end))
        self.refuse_snapshots(f"it has ended {end.status}")
        self._requirements.refuse_all(f"it has ended {end.status}")
        self.info_store.tell(result(end))
        for client, behaviour in self._clients.items():
            if behaviour is not ListeningBehaviour.DETACHED:
                client.tell(result(end, is_earlier=is_earlier))

    def _tell_status(self, status: JobStatus, now: int, cause: SerializedThrowable | None = None) -> None:
        """Send listeners a status that no JobMaster can send."""
        changed = JobStatusChanged(job_id=self.job_id, status=status, timestamp_ms=now, cause=cause)
        for client in self.listeners:
            client.tell(changed)

    def cancel(self, message: CancelJob) -> None:
        if self.end is not None or self.phase is JobPhase.AWAITING_CODE:
            message.client.tell(not_cancelled(self.job_id))
            return
        self.cancel_because(message)
        message.client.tell(CancellationSuccess(job_id=self.job_id))

    def cancel_because(self, message: CancelJob) -> None:
        if self.cancellation is not None and self.cancellation.delete_checkpoints:
            message = replace(message, delete_checkpoints=True)
        self.cancellation = message
        if self.job_master is not None:
            self.job_master.tell(message)

    def stop(self, message: StopJob) -> None:
        """Stop the job. The client gets a reply when the job has ended, or when the stop has failed."""
        if self.end is not None:
            message.client.tell(
                not_stopped(self.job_id, f"job {self.job_id} does not exist or has ended: it cannot be stopped")
            )
        elif self.phase is JobPhase.ACCEPTING:
            message.client.tell(not_stopped(self.job_id, "it is not yet accepted"))
        elif self.job_master is None:
            message.client.tell(not_stopped(self.job_id, f"it {self.phase.value}"))
        elif self._stopped_by and _kind_of_stop(self._stopped_by[0]) != _kind_of_stop(message):
            text = f"it is already being stopped, {_kind_of_stop(self._stopped_by[0])}"
            message.client.tell(not_stopped(self.job_id, text))
        else:
            self._stopped_by.append(message)
            self.job_master.tell(message)

    def answer_stops(self, answer: StoppingSuccess | StoppingFailure) -> None:
        for stop in self._stopped_by:
            stop.client.tell(answer)
        self._stopped_by.clear()

    def take_snapshot(self, message: SnapshotRequest) -> None:
        """Trigger a savepoint or checkpoint. The JobMaster replies. If it ends first, a failure is sent."""
        if self.end is not None:
            message.client.tell(snapshot_refusal(message, f"job {self.job_id} does not exist or has ended"))
        elif self.phase is JobPhase.ACCEPTING:
            message.client.tell(snapshot_refusal(message, "it is not yet accepted"))
        elif self.job_master is None:
            message.client.tell(snapshot_refusal(message, f"it {self.phase.value}"))
        else:
            self._snapshots_asked.append(message)
            self.job_master.tell(message)

    def on_requirements_request(self, message: RequirementsRequest) -> None:
        """Read or change the resource requirements. The JobMaster replies. Without a JobMaster, a refusal is sent."""
        if self.end is None and self.job_master is not None:
            self._requirements.ask(message, self.job_master)
        else:
            why = "it has ended" if self.end is not None else f"it {self.phase.value}"
            message.client.tell(requirements_refusal(message, why))

    def answer_requirements(self, answer: RequirementsAnswer) -> None:
        """Forward a reply of the JobMaster. Store new requirements for later JobMasters."""
        if isinstance(answer, JobResourceRequirementsUpdated) and answer.is_new:
            self.submitted = replace(self.submitted, resource_requirements=answer.requirements)
        self._requirements.answer(answer)

    def answer_snapshot(self, answer: SnapshotAnswer) -> None:
        """Forward a reply of the JobMaster, unless the client has already received a refusal."""
        of_savepoint = isinstance(answer, TriggerSavepointSuccess | TriggerSavepointFailure)
        requests = (each for each in self._snapshots_asked if each.client == answer.client)
        request = next((each for each in requests if isinstance(each, TriggerSavepoint) is of_savepoint), None)
        if request is not None:
            self._snapshots_asked.remove(request)
            answer.client.tell(answer)

    def refuse_snapshots(self, why: str) -> None:
        for request in self._snapshots_asked:
            request.client.tell(snapshot_refusal(request, why))
        self._snapshots_asked.clear()

    def give_up_requests(self, why: str) -> None:
        self.answer_stops(not_stopped(self.job_id, why))
        self.refuse_snapshots(why)
        self._requirements.refuse_all(why)


def submitted(submission: SubmitJob) -> SubmittedJobGraph:
    return SubmittedJobGraph(
        job_graph=submission.job_graph,
        listening_behaviour=submission.listening_behaviour,
        restore_path=submission.restore_path,
        allow_non_restored_state=submission.allow_non_restored_state,
    )


def result(end: JobEnded, *, is_earlier: bool = False) -> JobResultSuccess | JobResultFailure:
    job_id, path = end.job_id, end.checkpoint_path
    match end.status:
        case JobStatus.FINISHED:
            return JobResultSuccess(
                job_id=job_id, checkpoint_path=path, accumulators=end.accumulators, is_earlier=is_earlier
            )
        case JobStatus.CANCELED:
            text = f"job {job_id} was cancelled"
            cause = end.cause or SerializedThrowable(type_name="JobCancelledError", message=text)
        case _:
            assert end.cause is not None, f"job {job_id} is {end.status} without a cause"
            cause = end.cause
    return JobResultFailure(job_id=job_id, cause=cause, status=end.status, checkpoint_path=path, is_earlier=is_earlier)


def refusal(job_id: JobId, cause: SerializedThrowable) -> JobResultFailure:
    return JobResultFailure(job_id=job_id, cause=cause)


def duplicate(job_id: JobId) -> SerializedThrowable:
    """Return the refusal of a running job (Flink's DuplicateJobSubmissionException)."""
    return SerializedThrowable(type_name="DuplicateJobSubmissionError", message=f"job {job_id} exists already")


def removed(job_id: JobId) -> JobEnded:
    """Return the reply about a job that is no longer stored and has no known result."""
    text = f"job {job_id} was removed and is not continued"
    cause = SerializedThrowable(type_name="JobNotFoundError", message=text)
    return JobEnded(job_id=job_id, status=JobStatus.FAILED, cause=cause)


def outcome_of_stop(end: JobEnded) -> StoppingSuccess | StoppingFailure:
    if end.status is JobStatus.FINISHED and end.checkpoint_path is not None:
        return StoppingSuccess(job_id=end.job_id, checkpoint_path=end.checkpoint_path)
    return not_stopped(end.job_id, f"it has ended {end.status}")


def not_stopped(job_id: JobId, why: str) -> StoppingFailure:
    return StoppingFailure(job_id=job_id, cause=SerializedThrowable(type_name="StopJobError", message=why))


def not_cancelled(job_id: JobId) -> CancellationFailure:
    text = f"job {job_id} does not exist or has ended: it cannot be cancelled"
    return CancellationFailure(job_id=job_id, cause=SerializedThrowable(type_name="JobNotFoundError", message=text))


def snapshot_refusal(request: SnapshotRequest, why: str) -> TriggerSavepointFailure | RequestCheckpointFailure:
    job_id, client = request.job_id, request.client
    match request:
        case TriggerSavepoint():
            cause = SerializedThrowable(type_name="SavepointError", message=why)
            return TriggerSavepointFailure(job_id=job_id, client=client, cause=cause)
        case RequestCheckpoint():
            cause = SerializedThrowable(type_name="CheckpointError", message=why)
            return RequestCheckpointFailure(job_id=job_id, client=client, cause=cause)
        case _:
            assert_never(request)


def _kind_of_stop(stop: StopJob) -> str:
    if stop.savepoint_directory is None:
        return "with a checkpoint"
    return f"{'draining, ' if stop.drain else ''}with a savepoint in {stop.savepoint_directory!r}"


JobRequest = RequestJob | CancelJob | StopJob | TriggerSavepoint | RequestCheckpoint | RequirementsRequest


def job_run_by(jobs: Mapping[JobId, ManagedJob], job_master: Ref) -> ManagedJob | None:
    return next((job for job in jobs.values() if job.job_master == job_master), None)


def recover(
    jobs: dict[JobId, ManagedJob],
    submitted: SubmittedJobGraph,
    end: JobEnded | None,
    info_store: Ref,
    *,
    is_bound: bool,
) -> None:
    """Recover a job that a new leader has found in the store.

    If this process has led the job before, the job's code is still loaded here, even if another driver has run the job
    meanwhile.
    """
    job = jobs.get(submitted.job_graph.job_id)
    if job is None:
        job = jobs[submitted.job_graph.job_id] = ManagedJob(submitted, info_store)
    elif job.is_bound and not is_bound:
        submitted, is_bound = replace(submitted, job_graph=job.submitted.job_graph), True
    job.recover(submitted, end, is_bound=is_bound)


def answer(jobs: Mapping[JobId, ManagedJob], request: JobRequest) -> None:
    job = jobs.get(request.job_id)
    if job is None:
        _answer_without(request)
        return
    match request:
        case RequestJob(job_id=job_id, client=client):
            client.tell(JobFound(job_id=job_id, job_graph=job.submitted.job_graph))
        case CancelJob():
            job.cancel(request)
        case StopJob():
            job.stop(request)
        case TriggerSavepoint() | RequestCheckpoint():
            job.take_snapshot(request)
        case UpdateJobResourceRequirements() | RequestJobResourceRequirements():
            job.on_requirements_request(request)
        case _:
            assert_never(request)


def _answer_without(request: JobRequest) -> None:
    job_id, client = request.job_id, request.client
    match request:
        case RequestJob():
            client.tell(JobNotFound(job_id=job_id))
        case CancelJob():
            client.tell(not_cancelled(job_id))
        case StopJob():
            client.tell(not_stopped(job_id, f"job {job_id} does not exist or has ended: it cannot be stopped"))
        case TriggerSavepoint() | RequestCheckpoint():
            client.tell(snapshot_refusal(request, f"job {job_id} does not exist or has ended"))
        case UpdateJobResourceRequirements() | RequestJobResourceRequirements():
            client.tell(requirements_refusal(request, f"job {job_id} does not exist or has ended"))
        case _:
            assert_never(request)
