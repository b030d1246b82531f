"""The JobManager: takes jobs in, has a JobMaster run each of them, and tells the clients what became of them.

A job is known here from its submission until its JobMaster has ended, so that an id, a folder and an actor's name are
free again when the client hears the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from flykka.actors.checkpoint_storage import CheckpointStorage
from flykka.actors.data_plane import DataPlane
from flykka.actors.errors import GraphError, described
from flykka.actors.graph.validation import check_job_graph
from flykka.actors.job_master import JobMaster
from flykka.actors.master_hooks import MasterHooks
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobId
from flykka.messages.job import (
    CancelJob,
    CancellationFailure,
    CancellationSuccess,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobSubmitSuccess,
    ListeningBehaviour,
    StopJob,
    StoppingFailure,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.job_control import JobDataReleased, JobEnded, JobGraphAccepted, JobGraphRefused
from flykka.messages.job_graph import JobGraph
from flykka.messages.message import Message
from flykka.messages.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.errors import InvalidActorNameError, serialized
from flykka.runtime.path import child_path
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import STOPPING_STRATEGY


@dataclass(slots=True, kw_only=True)
class _Job:
    submission: SubmitJob
    job_master: Ref | None = None
    """None while the graph is being checked and stored."""
    is_cancelled: bool = False
    stopped_by: list[StopJob] = field(default_factory=list)
    savepoints_for: list[Ref] = field(default_factory=list)
    end: JobEnded | None = None


class JobManager(Actor):
    """One per system, `/user/job-manager`. A JobMaster that fails is not restarted: its job has failed."""

    supervisor_strategy = STOPPING_STRATEGY

    def __init__(self, resource_manager: Ref, data_plane: DataPlane) -> None:
        self._resource_manager = resource_manager
        self._data_plane = data_plane
        self._jobs: dict[JobId, _Job] = {}

    def handle_message(self, message: Message) -> None:
        """What clients ask, what becomes of a submission, and how a job ends."""
        match message:
            case SubmitJob():
                self._on_submit(message)
            case JobGraphAccepted(job_id=job_id, master_hooks=master_hooks):
                self._on_accepted(job_id, master_hooks)
            case JobGraphRefused(job_id=job_id, cause=cause):
                self._refuse(self._jobs.pop(job_id).submission, cause)
            case CancelJob():
                self._on_cancel(message)
            case StopJob():
                self._on_stop(message)
            case TriggerSavepoint():
                self._on_trigger_savepoint(message)
            case TriggerSavepointSuccess() | TriggerSavepointFailure():
                self._on_savepoint(message)
            case StoppingFailure(job_id=job_id):
                self._answer_stop(self._jobs[job_id], message)
            case JobEnded(job_id=job_id):
                self._jobs[job_id].end = message
            case Terminated(ref=ref):
                self._on_terminated(ref)
            case JobDataReleased(job_id=job_id):
                self._on_released(job_id, message)
            case _:
                self.context.unhandled(message)

    def post_stop(self) -> None:
        """Nobody waits for a stop, or a savepoint, that nobody will carry out."""
        for job_id, job in self._jobs.items():
            self._answer_stop(job, _not_stopped(job_id, "its cluster is shut down"))
            self._refuse_savepoints(job_id, job, "its cluster is shut down")

    # Submission

    def _on_submit(self, submission: SubmitJob) -> None:
        job_graph = submission.job_graph
        job_id = job_graph.job_id
        if job_id in self._jobs:
            text = f"there is a job {job_id} already"
            self._refuse(submission, SerializedThrowable(type_name="DuplicateJobSubmissionError", message=text))
            return
        try:
            check_job_graph(job_graph)
            child_path(self.context.path, _name(job_id))
        except (GraphError, InvalidActorNameError) as unfit:
            self._refuse(submission, described(unfit))
            return
        self._jobs[job_id] = _Job(submission=submission)
        self.context.pipe_to_self(
            partial(_check_and_store, self._data_plane, job_graph),
            lambda master_hooks: JobGraphAccepted(job_id=job_id, master_hooks=master_hooks),
            lambda error: JobGraphRefused(job_id=job_id, cause=serialized(error)),
        )

    def _refuse(self, submission: SubmitJob, cause: SerializedThrowable) -> None:
        submission.client.tell(JobResultFailure(job_id=submission.job_graph.job_id, cause=cause))

    def _on_accepted(self, job_id: JobId, master_hooks: tuple[str, ...]) -> None:
        job = self._jobs[job_id]
        submission = job.submission
        submission.client.tell(JobSubmitSuccess(job_id=job_id))
        listens = submission.listening_behaviour is ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES
        props = Props(
            JobMaster,
            submission.job_graph,
            self._resource_manager,
            self._data_plane,
            CheckpointStorage(submission.job_graph.checkpointing.directory),
            listeners=(submission.client,) if listens else (),
            master_hooks=master_hooks,
            restore_path=submission.restore_path,
            allow_non_restored_state=submission.allow_non_restored_state,
        )
        job.job_master = self.context.spawn(props, _name(job_id))
        self.context.watch(job.job_master)
        if job.is_cancelled:
            job.job_master.tell(CancelJob(job_id=job_id, client=self.context.ref))

    # Cancellation

    def _on_cancel(self, message: CancelJob) -> None:
        job_id = message.job_id
        job = self._jobs.get(job_id)
        if job is None or job.end is not None:
            text = f"there is no job {job_id} that could be cancelled"
            cause = SerializedThrowable(type_name="JobNotFoundError", message=text)
            message.client.tell(CancellationFailure(job_id=job_id, cause=cause))
            return
        if job.job_master is None:
            job.is_cancelled = True
        else:
            job.job_master.tell(message)
        message.client.tell(CancellationSuccess(job_id=job_id))

    # Stopping: answered when the job has ended, or goes on all the same

    def _on_stop(self, message: StopJob) -> None:
        job_id = message.job_id
        job = self._jobs.get(job_id)
        if job is None or job.end is not None:
            message.client.tell(_not_stopped(job_id, f"there is no job {job_id} that could be stopped"))
        elif job.job_master is None:
            message.client.tell(_not_stopped(job_id, "it is not yet accepted"))
        elif job.stopped_by and _kind_of_stop(job.stopped_by[0]) != _kind_of_stop(message):
            message.client.tell(_not_stopped(job_id, f"it stops already, {_kind_of_stop(job.stopped_by[0])}"))
        else:
            job.stopped_by.append(message)
            job.job_master.tell(message)

    def _answer_stop(self, job: _Job, answer: StoppingSuccess | StoppingFailure) -> None:
        for stop in job.stopped_by:
            stop.client.tell(answer)
        job.stopped_by.clear()

    # Savepoints: answered by the JobMaster, or here where it has ended without

    def _on_trigger_savepoint(self, message: TriggerSavepoint) -> None:
        job_id = message.job_id
        job = self._jobs.get(job_id)
        if job is None or job.end is not None:
            message.client.tell(_no_savepoint(job_id, message.client, f"there is no job {job_id} that runs"))
        elif job.job_master is None:
            message.client.tell(_no_savepoint(job_id, message.client, "it is not yet accepted"))
        else:
            job.savepoints_for.append(message.client)
            job.job_master.tell(message)

    def _on_savepoint(self, answer: TriggerSavepointSuccess | TriggerSavepointFailure) -> None:
        job = self._jobs[answer.job_id]
        job.savepoints_for.remove(answer.client)
        answer.client.tell(answer)

    def _refuse_savepoints(self, job_id: JobId, job: _Job, why: str) -> None:
        for client in job.savepoints_for:
            client.tell(_no_savepoint(job_id, client, why))
        job.savepoints_for.clear()

    # The end

    def _on_terminated(self, ref: Ref) -> None:
        job_id = next(job_id for job_id, job in self._jobs.items() if job.job_master == ref)
        job = self._jobs[job_id]
        if job.end is not None:
            self._conclude(job_id, job.end)
            return
        # It died, and what it would have cleaned up is left. Checkpoints stay: they are what the job can go on from.
        self.context.pipe_to_self(
            partial(_release_and_find_checkpoint, self._data_plane, job.submission.job_graph),
            lambda path: JobDataReleased(job_id=job_id, checkpoint_path=path),
            lambda error: JobDataReleased(job_id=job_id, cause=serialized(error)),
        )

    def _on_released(self, job_id: JobId, released: JobDataReleased) -> None:
        if released.cause is not None:
            self.context.publish(released)
        cause = SerializedThrowable(
            type_name="JobMasterLostError", message=f"the JobMaster of {job_id} failed by itself"
        )
        path = released.checkpoint_path
        self._conclude(job_id, JobEnded(job_id=job_id, status=JobStatus.FAILED, cause=cause, checkpoint_path=path))

    def _conclude(self, job_id: JobId, end: JobEnded) -> None:
        job = self._jobs.pop(job_id)
        submission = job.submission
        self._answer_stop(job, _outcome_of_stop(end))
        self._refuse_savepoints(job_id, job, f"it has ended {end.status}")
        if submission.listening_behaviour is not ListeningBehaviour.DETACHED:
            submission.client.tell(_result(end))


def _name(job_id: JobId) -> str:
    return f"job-{job_id}"


def _check_and_store(data_plane: DataPlane, job_graph: JobGraph) -> tuple[str, ...]:
    """What the master hooks of the job are called."""
    data_plane.check(job_graph)
    CheckpointStorage(job_graph.checkpointing.directory).write_job_graph(job_graph)
    return MasterHooks(data_plane.master_hooks(job_graph.job_id)).identifiers


def _release_and_find_checkpoint(data_plane: DataPlane, job_graph: JobGraph) -> str | None:
    data_plane.release_job(job_graph.job_id, keep_staged=True)
    return CheckpointStorage(job_graph.checkpointing.directory).latest(job_graph.job_id)


def _result(end: JobEnded) -> JobResultSuccess | JobResultFailure:
    match end:
        case JobEnded(job_id=job_id, status=JobStatus.FINISHED, checkpoint_path=path, accumulators=accumulators):
            return JobResultSuccess(job_id=job_id, checkpoint_path=path, accumulators=accumulators)
        case JobEnded(job_id=job_id, status=JobStatus.CANCELED as status, checkpoint_path=path):
            cause = SerializedThrowable(type_name="JobCancelledError", message=f"job {job_id} was cancelled")
            return JobResultFailure(job_id=job_id, cause=cause, status=status, checkpoint_path=path)
        case JobEnded(job_id=job_id, status=status, cause=cause, checkpoint_path=path):
            assert cause is not None, f"job {job_id} is {status} without a cause"
            return JobResultFailure(job_id=job_id, cause=cause, status=status, checkpoint_path=path)


def _outcome_of_stop(end: JobEnded) -> StoppingSuccess | StoppingFailure:
    if end.status is JobStatus.FINISHED and end.checkpoint_path is not None:
        return StoppingSuccess(job_id=end.job_id, checkpoint_path=end.checkpoint_path)
    return _not_stopped(end.job_id, f"it has ended {end.status}")


def _not_stopped(job_id: JobId, why: str) -> StoppingFailure:
    return StoppingFailure(job_id=job_id, cause=SerializedThrowable(type_name="StopJobError", message=why))


def _no_savepoint(job_id: JobId, client: Ref, why: str) -> TriggerSavepointFailure:
    cause = SerializedThrowable(type_name="SavepointError", message=why)
    return TriggerSavepointFailure(job_id=job_id, client=client, cause=cause)


def _kind_of_stop(stop: StopJob) -> str:
    """Two stops are one where this is the same."""
    if stop.savepoint_directory is None:
        return "with a checkpoint"
    return f"{'draining, ' if stop.drain else ''}with a savepoint in {stop.savepoint_directory!r}"
