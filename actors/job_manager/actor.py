"""The JobManager: takes part in the leader election, accepts jobs, starts a JobMaster for each, and notifies clients.

Everything that must survive is in the leader's store (`high_availability`): a job from before its acceptance until it
is archived, and its result from before any of its data is deleted. So a JobManager or a JobMaster may die at any
moment, and its successor continues from the store. A dead JobMaster is replaced, unless it fails repeatedly. A
JobManager that does not lead stashes the requests of its clients until it leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

from flykka.actors.checkpoint_storage.storage import OwnedCheckpointStorage
from flykka.actors.data_plane import DataPlane
from flykka.actors.errors import GraphError, serialize_error
from flykka.actors.execution_graph_info_store.actor import execution_graph_info_store
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.actors.job_manager.attached_clients import AttachedClients, ClientHeartbeatMessage
from flykka.actors.job_manager.leadership import Leadership, LeadershipMessage
from flykka.actors.job_manager.managed_job import (
    JobPhase,
    JobRequest,
    ManagedJob,
    RequirementsAnswer,
    SnapshotAnswer,
    answer,
    duplicate,
    job_run_by,
    recover,
    refusal,
    removed,
    result,
    submitted,
)
from flykka.actors.job_manager.store import (
    accept_job,
    begin_again,
    clean_up_job,
    look_for_result,
    put_away_job,
    release_job_master,
)
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY
from flykka.messages.control import job_manager
from flykka.messages.control.high_availability import RevokeLeadership
from flykka.messages.control.job import (
    JobNotFound,
    JobSubmitSuccess,
    RegisterJobClient,
    RegisterJobClientSuccess,
    StoppingFailure,
    SubmitJob,
)
from flykka.messages.control.job_control import JobEnded, JobGraphAccepted, JobGraphRefused
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.explanation import ExplainLeadership, LeadershipExplained
from flykka.messages.monitoring.job_details import InfoRequest, TrackJob
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.errors import InvalidActorNameError, serialized
from flykka.runtime.events import ActorFailed
from flykka.runtime.path import child_path
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.supervision import STOPPING_STRATEGY

_log = logging.getLogger(__name__)

STORE_RETRY_MS = 1_000

_LOST = "LeadershipLostError"
"""The type of failures that do not concern the job: the new leader continues it."""

ClientRequest = SubmitJob | RegisterJobClient | job_manager.RequestApplicationRun | JobRequest
"""Requests that wait until this JobManager leads."""

ArchivingMessage = job_manager.JobMasterReleased | job_manager.JobArchived | job_manager.JobArchiveFailed


@trace_tag("actor.job_manager")
class JobManager(Actor):
    supervisor_strategy = STOPPING_STRATEGY

    def __init__(
        self,
        resource_manager: Ref,
        data_plane: DataPlane,
        high_availability: HighAvailabilityServices | None = None,
        job_store_capacity: int = JOB_STORE_CAPACITY,
    ) -> None:
        self._resource_manager = resource_manager
        self._data_plane = data_plane
        self._services = high_availability or EmbeddedHaServices()
        self._jobs: dict[JobId, ManagedJob] = {}
        self._job_store_capacity = job_store_capacity

    def pre_start(self) -> None:
        self.context.system.event_stream.subscribe(self.context.ref, ActorFailed)
        self._info_store = execution_graph_info_store(self.context, self._job_store_capacity)
        self._clients = AttachedClients(self.context, self._jobs)
        self._leadership = Leadership(self.context, self._services)
        self._leadership.start()

    def post_restart(self, cause: BaseException | None) -> None:
        """Stop, because the state of the failed instance is lost. A new JobManager recovers from the store."""
        self.context.stop()

    def handle_message(self, message: Message) -> None:
        match message:
            case _ if isinstance(message, ClientRequest):
                self._on_request(message)
            case _ if isinstance(message, ClientHeartbeatMessage):
                self._clients.on_message(message)
            case _ if isinstance(message, LeadershipMessage):
                self._on_leadership(message)
            case JobGraphAccepted() | JobGraphRefused() | job_manager.JobAlreadyEnded():
                self._on_started(message)
            case _ if isinstance(message, SnapshotAnswer):
                self._jobs[message.job_id].answer_snapshot(message)
            case _ if isinstance(message, RequirementsAnswer):
                self._jobs[message.job_id].answer_requirements(message)
            case StoppingFailure(job_id=job_id):
                self._jobs[job_id].answer_stops(message)
            case job_manager.JobResultLookedUp(job_id=job_id, client=client, end=end):
                if end is not None:
                    # The job may have ended while no JobManager could notify the info store.
                    self._info_store.tell(result(end))
                client.tell(JobNotFound(job_id=job_id) if end is None else result(end, is_earlier=True))
            case _ if isinstance(message, InfoRequest):
                self._info_store.tell(message)
            case ExplainLeadership(reply_to=reply_to, job_id=job_id):
                reply_to.tell(self.explain(job_id, self.context.now()))
            case ActorFailed(ref=ref, failure=failure):
                if (job := job_run_by(self._jobs, ref)) is not None:
                    job.record_failure(failure, self.context.now())
            case JobEnded(job_id=job_id):
                self._clients.end(job_id)
                self._jobs[job_id].record_end(message)
            case Terminated(ref=ref):
                self._on_terminated(ref)
            case _ if isinstance(message, ArchivingMessage):
                self._on_archived(message)
            case job_manager.StoreRetryDue(job_id=job_id):
                if (job := self._jobs.get(job_id)) is not None:
                    self._continue(job)
            case _:
                self.context.unhandled(message)

    def explain(self, job_id: JobId, now: int) -> LeadershipExplained:
        return self._leadership.explain(now, self._jobs[job_id].phase.value if job_id in self._jobs else None)

    def post_stop(self) -> None:
        for job in self._jobs.values():
            job.give_up_requests("its cluster is shut down")

    def _on_leadership(self, message: LeadershipMessage) -> None:
        match self._leadership.on_message(message, self._jobs):
            case job_manager.JobsRecovered() as recovered:
                self._take_over(recovered)
                self.context.unstash_all()
            case job_manager.LeaderElectionFailed():
                self.context.unstash_all()
            case RevokeLeadership():
                self._suspend()
            case None:
                pass

    def _take_over(self, recovered: job_manager.JobsRecovered) -> None:
        ended = {end.job_id: end for end in recovered.ended}
        stored = {each.job_graph.job_id: each for each in recovered.jobs}
        for job_id, each in stored.items():
            recover(self._jobs, each, ended.get(job_id), self._info_store, is_bound=job_id in recovered.bound)
        for job_id, job in list(self._jobs.items()):
            if job.is_kept and job_id not in stored:
                # Another leader has finished the job meanwhile.
                job.end_elsewhere(ended.get(job_id) or removed(job_id))
            self._continue(job)

    def _suspend(self) -> None:
        """Stop the JobMasters without changing the store, because another process may lead."""
        for job in self._jobs.values():
            self._clients.end(job.job_id)
            job.suspend(self.context.now())
            if job.job_master is not None:
                self.context.stop(job.job_master)

    def _on_request(self, message: ClientRequest) -> None:
        if self._leadership.session is None and self._leadership.failure is None:
            if isinstance(message, SubmitJob):
                graph = message.job_graph
                _log.info("job %s (%r) was submitted, and waits until this driver leads", graph.job_id, graph.name)
            self.context.stash()
            return
        match message:
            case SubmitJob():
                self._on_submit(message)
            case RegisterJobClient():
                self._on_register(message)
            case job_manager.RequestApplicationRun():
                if not self._leadership.answer(message):
                    self.context.stash()
            case _:
                answer(self._jobs, message)

    def _on_register(self, message: RegisterJobClient) -> None:
        job_id, client = message.job_id, message.client
        job = self._jobs.get(job_id)
        if job is None and self._leadership.session is not None:
            work = partial(look_for_result, self._leadership.store, job_id, client)
            self._ask_store(work, lambda _: job_manager.JobResultLookedUp(job_id=job_id, client=client))
        elif job is None:
            client.tell(JobNotFound(job_id=job_id))
        elif job.register(client, message.listening_behaviour) and job.job_master is not None:
            job.job_master.tell(message)
        else:
            client.tell(RegisterJobClientSuccess(job_id=job_id))

    def _on_submit(self, submission: SubmitJob) -> None:
        job_graph, client = submission.job_graph, submission.client
        job_id = job_graph.job_id
        job = self._jobs.get(job_id)
        if job is not None and job.end is not None:
            job.answer_with_end(client, submission.listening_behaviour)
            return
        problem = self._leadership.failure or self._submission_error(job_graph)
        if problem is None and job is not None and job.phase is not JobPhase.AWAITING_CODE:
            problem = duplicate(job_id)
        if problem is not None:
            client.tell(refusal(job_id, problem))
            return
        if job is None:
            job = self._jobs[job_id] = ManagedJob(submitted(submission), self._info_store)
        else:
            job.bind(job_graph)
        job.register(client, submission.listening_behaviour)
        self._continue(job)

    def _submission_error(self, job_graph: JobGraph) -> SerializedThrowable | None:
        try:
            check_job_graph(job_graph)
            child_path(self.context.path, _name(job_graph.job_id))
        except (GraphError, InvalidActorNameError) as error:
            return serialize_error(error)
        return None

    def _continue(self, job: ManagedJob) -> None:
        """Start the next step of a job if no step is running. Does nothing unless this JobManager leads and the job
        continues.
        """
        leads = self._leadership.session is not None
        if job.is_busy or job.job_master is not None:
            return
        if job.end is not None and job.is_over_elsewhere:
            del self._jobs[job.job_id]
            job.tell_result(job.end, is_earlier=job.is_asked_again)
        elif leads and job.end is not None:
            self._put_away(job, job.end)
        elif leads and job.may_begin:
            self._begin(job)

    def _begin(self, job: ManagedJob) -> None:
        job_id = job.job_id
        goes_on = job.is_kept and job.is_bound
        begin = begin_again if goes_on else accept_job
        job.begin_work(JobPhase.STARTING if goes_on else JobPhase.ACCEPTING)
        work = partial(begin, self._leadership.store, self._services, self._data_plane, job.submitted)
        self._ask_store(work, lambda error: JobGraphRefused(job_id=job_id, cause=serialized(error)))

    def _on_started(self, message: JobGraphAccepted | JobGraphRefused | job_manager.JobAlreadyEnded) -> None:
        match message:
            case JobGraphAccepted(job_id=job_id) if self._jobs[job_id].is_over_elsewhere:
                self._release(self._jobs[job_id])
            case JobGraphAccepted(job_id=job_id, starts=starts):
                job = self._jobs[job_id]
                if job.accept(starts):
                    job.tell_all(JobSubmitSuccess(job_id=job_id))
                if self._leadership.session is None:
                    job.move(JobPhase.SUSPENDED)
                else:
                    self._spawn_job_master(job, message)
            case JobGraphRefused(job_id=job_id, cause=cause):
                self._on_start_failed(self._jobs[job_id], cause)
            case job_manager.JobAlreadyEnded(end=end):
                job = self._jobs.pop(end.job_id)
                job.tell_all(JobSubmitSuccess(job_id=end.job_id))
                job.tell_result(end, is_earlier=True)
            case _:
                assert_never(message)

    def _on_start_failed(self, job: ManagedJob, cause: SerializedThrowable) -> None:
        job.is_busy = False
        if job.is_over_elsewhere:
            self._continue(job)
        elif cause.type_name == _LOST or (job.is_bound and job.is_kept):
            # The next leader finds the job in the store, or accepts it.
            self._try_again(job, cause)
        else:
            job.refuse(cause)
            if job.is_kept:
                job.move(JobPhase.AWAITING_CODE)
            else:
                del self._jobs[job.job_id]

    def _spawn_job_master(self, job: ManagedJob, accepted: JobGraphAccepted) -> None:
        store = self._leadership.store
        self._info_store.tell(TrackJob(job_graph=job.submitted.job_graph))
        props = job_master_props(job, self._resource_manager, self._data_plane, store, accepted)
        job_master = self.context.spawn(props, _name(job.job_id))
        self.context.watch(job_master)
        job.run(job_master, self.context.now())
        self._clients.begin(job)
        if job.cancellation is not None:
            job_master.tell(job.cancellation)

    def _on_terminated(self, ref: Ref) -> None:
        job = job_run_by(self._jobs, ref)
        if job is None:
            return
        job.job_master = None
        if job.end is not None and not job.is_over_elsewhere:
            self._continue(job)
            return
        if job.phase is JobPhase.RUNNING and not job.has_failed_too_often:
            job.lose_job_master(self.context.now())
        self._release(job)

    def _release(self, job: ManagedJob) -> None:
        job.begin_work(JobPhase.RELEASING if job.phase is not JobPhase.SUSPENDED else JobPhase.SUSPENDED)
        job_id = job.job_id
        goes_on_here = self._leadership.session is not None and not job.is_over_elsewhere
        store = self._leadership.store if goes_on_here else None
        work = partial(release_job_master, store, self._data_plane, job.submitted.job_graph)
        self._ask_store(work, lambda error: job_manager.JobMasterReleased(job_id=job_id, cause=serialized(error)))

    def _put_away(self, job: ManagedJob, end: JobEnded) -> None:
        job_id, store = job.job_id, self._leadership.store
        job.begin_work(JobPhase.PUTTING_AWAY)
        if job.is_cleaned_up:
            work = partial(put_away_job, store, end)
        else:
            work = partial(clean_up_job, store, self._data_plane, job.submitted.job_graph, end)
        self._ask_store(work, lambda error: job_manager.JobArchiveFailed(job_id=job_id, cause=serialized(error)))

    def _on_archived(self, message: ArchivingMessage) -> None:
        match message:
            case job_manager.JobMasterReleased(job_id=job_id, end=end, checkpoint_path=path, cause=cause):
                job = self._jobs[job_id]
                job.release(end, path)
                if cause is not None and cause.type_name != _LOST:
                    self.context.publish(message)
                self._continue(job)
            case job_manager.JobArchived(end=end):
                job = self._jobs.pop(end.job_id)
                job.tell_result(end, is_earlier=job.is_asked_again)
            case job_manager.JobArchiveFailed(job_id=job_id, cause=cause):
                job = self._jobs[job_id]
                job.is_busy = False
                self._try_again(job, cause)
            case _:
                assert_never(message)

    def _try_again(self, job: ManagedJob, cause: SerializedThrowable) -> None:
        """Retry later, because an accepted job is not given up if its store is temporarily unavailable."""
        if cause.type_name != _LOST:
            _log.error("job %s: %s: %s; it is tried again", job.job_id, cause.type_name, cause.message)
        self.context.timers.start_once(
            f"store-{job.job_id}", STORE_RETRY_MS, job_manager.StoreRetryDue(job_id=job.job_id)
        )

    def _ask_store(self, work: Callable[[], Message], on_failure: Callable[[BaseException], Message]) -> None:
        self.context.pipe_to_self(work, lambda answer: answer, on_failure)


def _name(job_id: JobId) -> str:
    return f"job-{job_id}"


ATTEMPTS_PER_START = 1_000_000
"""The maximum number of attempts of a subtask under one JobMaster. The next JobMaster numbers its attempts from there.
"""


def job_master_props(
    job: ManagedJob,
    resource_manager: Ref,
    data_plane: DataPlane,
    store: LeaderStore,
    accepted: JobGraphAccepted,
) -> Props:
    submitted = job.submitted
    job_graph = replace(submitted.job_graph, first_attempt_number=submitted.starts * ATTEMPTS_PER_START)
    return Props(
        JobMaster,
        job_graph,
        resource_manager,
        data_plane,
        OwnedCheckpointStorage(job_graph.checkpointing, partial(data_plane.confirm_owner, job_graph.job_id)),
        listeners=job.listeners,
        master_hooks=accepted.master_hooks,
        labels_failures=accepted.labels_failures,
        restore_path=submitted.restore_path,
        allow_non_restored_state=submitted.allow_non_restored_state,
        store=store,
        info_store=job.info_store,
        resource_requirements=submitted.resource_requirements,
    )
