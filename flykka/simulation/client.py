"""The client of a simulation: it keeps what it hears of its jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from flykka.client.job_manager_seeker import JobManagerSeeker
from flykka.messages.control.job import (
    CheckpointAborted,
    CheckpointCompleted,
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    MetricsReported,
    RegisterJobClient,
    StoppingSuccess,
    SubmitJob,
    TriggerSavepointSuccess,
)
from flykka.messages.control.job_manager import SeekJobManagerDue
from flykka.messages.monitoring.exception_history import ExceptionHistoryChanged, FailureOutcome
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.signals import Terminated


@dataclass(slots=True)
class Heard:
    """What the client has heard."""

    results: dict[JobId, JobResultSuccess | JobResultFailure] = field(default_factory=dict)
    stopped: dict[JobId, str] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)
    answers: Counter[type[Message]] = field(default_factory=Counter)
    statuses: dict[JobId, JobStatus] = field(default_factory=dict)
    restarts: Counter[JobId] = field(default_factory=Counter)
    """Of jobs and of regions of them."""
    completed: int = 0
    aborted: Counter[str] = field(default_factory=Counter)
    """Checkpoints that were given up, by the reason."""
    given_up_last: set[JobId] = field(default_factory=set)
    """Jobs of which a checkpoint was given up since the last one was complete."""
    rows_published: dict[ExecutionAttemptId, int] = field(default_factory=dict)
    """What each attempt has said last."""


class SimulationClient(Actor):
    """Submits jobs, and listens to them; when the JobManager has died it comes back to the next one, as clients do."""

    def __init__(self, heard: Heard, job_manager: Ref) -> None:
        self._heard = heard
        self._job_manager = job_manager
        self._submitted: SubmitJob | None = None
        """What the run is about now."""

    def pre_start(self) -> None:
        """Watch the JobManager."""
        self._seeker = JobManagerSeeker(self.context, self._job_manager)
        self.context.watch(self._job_manager)

    def handle_message(self, message: Message) -> None:
        """Keep what decides how the run goes on, and count the rest."""
        heard = self._heard
        heard.answers[type(message)] += 1
        match message:
            case SubmitJob():
                self._submitted = message
                self._job_manager.tell(message)
            case Terminated():
                self._seeker.lose()
            case SeekJobManagerDue():
                self._look_for_job_manager()
            case JobNotFound(job_id=job_id) if self._submitted is not None and job_id not in heard.results:
                # Nobody had accepted it when the JobManager died.
                self._job_manager.tell(self._submitted)
            case JobResultSuccess(job_id=job_id) | JobResultFailure(job_id=job_id):
                heard.results.setdefault(job_id, message)
            case StoppingSuccess(job_id=job_id, checkpoint_path=path):
                heard.stopped[job_id] = path
            case TriggerSavepointSuccess(savepoint_path=path):
                heard.savepoints.append(path)
            case JobStatusChanged(job_id=job_id, status=status):
                heard.statuses[job_id] = status
                heard.restarts[job_id] += status is JobStatus.RESTARTING
            case ExceptionHistoryChanged(job_id=job_id, entry=entry):
                # While regions restart, their job runs.
                is_running = heard.statuses.get(job_id) is JobStatus.RUNNING
                heard.restarts[job_id] += is_running and entry.outcome is FailureOutcome.RESTARTING
            case CheckpointCompleted(job_id=job_id):
                heard.completed += 1
                heard.given_up_last.discard(job_id)
            case CheckpointAborted(job_id=job_id, reason=reason):
                heard.aborted[reason.value] += 1
                heard.given_up_last.add(job_id)
            case MetricsReported(attempt=attempt, metrics=metrics):
                heard.rows_published[attempt] = metrics.rows_published
            case _:
                pass

    def _look_for_job_manager(self) -> None:
        found = self._seeker.look()
        if found is None:
            return
        self._job_manager = found
        self.context.watch(found)
        if self._submitted is not None:
            job_id = self._submitted.job_graph.job_id
            found.tell(RegisterJobClient(job_id=job_id, client=self.context.ref))
