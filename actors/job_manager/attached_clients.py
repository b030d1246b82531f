"""The part of a JobManager that monitors the heartbeats of clients, and cancels jobs whose clients have died."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import assert_never

from flykka.actors.job_manager.managed_job import ManagedJob
from flykka.actors.machines.effects import CancelTimer, StartTimer
from flykka.actors.machines.heartbeat import ClientExpired, ClientSessions
from flykka.actors.timer_effects import set_timer
from flykka.messages.control.job import (
    CancelJob,
    JobClientExpired,
    JobClientHeartbeatAccepted,
    JobNotFound,
    ReportJobClientHeartbeat,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.context import ActorContext

_log = logging.getLogger(__name__)

ClientHeartbeatMessage = ReportJobClientHeartbeat | JobClientExpired


class AttachedClients:
    def __init__(self, context: ActorContext, jobs: Mapping[JobId, ManagedJob]) -> None:
        self._context = context
        self._jobs = jobs
        self._sessions = ClientSessions()

    def begin(self, job: ManagedJob) -> None:
        settings = job.submitted.job_graph.client_heartbeat
        if settings is not None:
            now = self._context.now()
            self._perform(self._sessions.heartbeat(job.job_id, now + settings.timeout_ms, now))

    def end(self, job_id: JobId) -> None:
        """Expect no more heartbeats, because the job has ended or another leader runs it."""
        self._perform(self._sessions.end(job_id))

    def on_message(self, message: ClientHeartbeatMessage) -> None:
        match message:
            case ReportJobClientHeartbeat(job_id=job_id, expired_timestamp_ms=expires_ms, reply_to=reply_to):
                is_there = job_id in self._jobs and self._jobs[job_id].end is None
                if is_there:
                    self._perform(self._sessions.heartbeat(job_id, expires_ms, self._context.now()))
                if reply_to is not None:
                    reply_to.tell(JobClientHeartbeatAccepted(job_id=job_id) if is_there else JobNotFound(job_id=job_id))
            case JobClientExpired(job_id=job_id):
                self._perform(self._sessions.expire(job_id, self._context.now()))
            case _:
                assert_never(message)

    def _cancel(self, job: ManagedJob) -> None:
        graph = job.submitted.job_graph
        limit = "" if graph.client_heartbeat is None else f" for {graph.client_heartbeat.timeout_ms} ms"
        text = f"the client of job {graph.name!r} has sent no heartbeat{limit}, and the job must end with its client"
        _log.warning("%s: it is cancelled", text)
        cause = SerializedThrowable(type_name="ClientHeartbeatTimeoutError", message=text)
        job.cancel_because(CancelJob(job_id=job.job_id, client=self._context.ref, cause=cause))

    def _perform(self, effects: Iterable[StartTimer | CancelTimer | ClientExpired]) -> None:
        for effect in effects:
            match effect:
                case StartTimer() | CancelTimer():
                    set_timer(self._context, effect)
                case ClientExpired(job_id=job_id):
                    if job_id in self._jobs:
                        self._cancel(self._jobs[job_id])
                case _:
                    assert_never(effect)
