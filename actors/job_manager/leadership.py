"""The part of a JobManager that handles its leadership (Flink's DispatcherLeaderProcess).

Before a JobManager may act it must have been granted leadership, have read the store, and have announced itself to the
TaskManagers. Until then, and after leadership was revoked, it has no `session`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.actors.job_manager.store import begin_new_run, recover_jobs
from flykka.actors.machines.slots.task_manager_tracker import NAME
from flykka.messages.control.high_availability import (
    ApplicationRun,
    GrantLeadership,
    JobManagerLeaderAddress,
    RevokeLeadership,
)
from flykka.messages.control.job_manager import (
    ApplicationRunFound,
    ApplicationRunRefused,
    JobRecoveryFailed,
    JobsRecovered,
    LeaderElectionFailed,
    LeadershipContended,
    RecoveryRetryDue,
    RequestApplicationRun,
)
from flykka.messages.monitoring.explanation import LeadershipExplained
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, LeaderSessionId
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

_log = logging.getLogger(__name__)
RECOVERY_RETRY_MS = 1_000
LeadershipMessage = (
    GrantLeadership
    | RevokeLeadership
    | LeaderElectionFailed
    | LeadershipContended
    | JobsRecovered
    | JobRecoveryFailed
    | RecoveryRetryDue
)
LeadershipNews = JobsRecovered | RevokeLeadership | LeaderElectionFailed
"""The leadership events to which a JobManager has to react."""


class JobManagerContender:
    def __init__(self, job_manager: Ref, waits_for: str | None) -> None:
        self._job_manager = job_manager
        self._waits_for = waits_for

    def granted(self, session: LeaderSessionId) -> None:
        self._job_manager.tell(GrantLeadership(leader_session_id=session, waited_for=self._waits_for))

    def revoked(self, session: LeaderSessionId) -> None:
        self._job_manager.tell(RevokeLeadership(leader_session_id=session))

    def failed(self, error: BaseException) -> None:
        self._job_manager.tell(LeaderElectionFailed(cause=serialized(error)))


def contend(services: HighAvailabilityServices, job_manager: Ref) -> None:
    last_run = services.last_run()
    in_progress = last_run is not None and not last_run.is_concluded
    waits_for = last_run.run_id if last_run is not None and in_progress else None
    services.contend(JobManagerContender(job_manager, waits_for))


class Leadership:
    def __init__(self, context: ActorContext, services: HighAvailabilityServices) -> None:
        self._context = context
        self._services = services
        self._granted: LeaderSessionId | None = None
        self._waited_for: str | None = None
        self._run: ApplicationRun | None = None
        self._led: str | None = None
        """The run that this JobManager led last. Only its current leader may conclude it."""
        self.failure: SerializedThrowable | None = None
        """The reason why this JobManager will never lead."""
        self.since_ms: int | None = None

    @property
    def session(self) -> LeaderSessionId | None:
        """The session under which the JobManager may act, or None if it may not act."""
        return self._granted if self._run is not None else None

    @property
    def store(self) -> LeaderStore:
        assert self.session is not None, "this process does not lead, so it has no store"
        return self._services.store(self.session)

    def explain(self, now: int, job: str | None) -> LeadershipExplained:
        return LeadershipExplained(now_ms=now, is_leader=self.session is not None, job=job, since_ms=self.since_ms)

    def start(self) -> None:
        self._context.pipe_to_self(
            partial(contend, self._services, self._context.ref),
            lambda _: LeadershipContended(),
            lambda error: LeaderElectionFailed(cause=serialized(error)),
        )

    def on_message(self, message: LeadershipMessage, job_ids: Iterable[JobId]) -> LeadershipNews | None:
        """Handle a message of the election or the store. `job_ids` are the jobs for which clients wait at this
        JobManager.
        """
        match message:
            case GrantLeadership(leader_session_id=session, waited_for=waited_for):
                self._granted, self._waited_for, self._run, self.since_ms = session, self._led or waited_for, None, None
                self._recover(job_ids)
            case RevokeLeadership(leader_session_id=session) if session == self._granted:
                self._granted = self._run = self.since_ms = None
                _log.warning("this driver no longer leads: its jobs are suspended until it leads again")
                return message
            case LeaderElectionFailed(cause=cause):
                _log.error("this process cannot lead: %s: %s", cause.type_name, cause.message)
                self.failure = cause
                return message
            case JobsRecovered(leader_session_id=session, run=run) if session == self._granted:
                self._run, self._led = run, run.run_id
                self._announce(session)
                return message
            case JobRecoveryFailed(leader_session_id=session, cause=cause) if session == self._granted:
                _log.error("cannot lead yet, retrying: %s: %s", cause.type_name, cause.message)
                self._context.timers.start_once("recovery", RECOVERY_RETRY_MS, RecoveryRetryDue())
            case RecoveryRetryDue() if self._granted is not None and self._run is None:
                self._recover(job_ids)
            case _:
                pass  # The session has ended, or there is nothing to do.
        return None

    def answer(self, message: RequestApplicationRun) -> bool:
        """Reply with the current run. Returns False if the run is unknown: the caller then repeats its request."""
        if self.failure is not None:
            message.reply_to.tell(ApplicationRunRefused(cause=self.failure))
            return True
        session, run = self.session, self._run
        assert session is not None, "a request is handled while this process does not lead"
        assert run is not None, "a request is handled before the leader has read its store"
        if message.begins_new and run.is_concluded:
            self._run = None
            self._ask(partial(begin_new_run, self._services, session), session)
            return False
        message.reply_to.tell(ApplicationRunFound(run=run, leader_session_id=session))
        return True

    def _announce(self, session: LeaderSessionId) -> None:
        """Notify the TaskManagers before any JobMaster does, so that they reject requests of earlier leaders."""
        if self.since_ms is not None:
            return
        self.since_ms = self._context.now()
        address = JobManagerLeaderAddress(address=self._context.path, leader_session_id=session)
        for task_manager in self._context.actor_selection(f"../{NAME}*").resolve():
            task_manager.tell(address)

    def _recover(self, job_ids: Iterable[JobId]) -> None:
        session = self._granted
        assert session is not None, "jobs are recovered while this process does not lead"
        work = partial(recover_jobs, self._services, session, self._waited_for, self._context.path, tuple(job_ids))
        self._ask(work, session)

    def _ask(self, work: partial[JobsRecovered], session: LeaderSessionId) -> None:
        self._context.pipe_to_self(
            work,
            lambda recovered: recovered,
            lambda error: JobRecoveryFailed(leader_session_id=session, cause=serialized(error)),
        )
