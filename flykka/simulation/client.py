"""The client of a simulation: it keeps what it hears of its jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.client.leader_retriever import LeaderRetriever
from flykka.messages.control.job import (
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobSubmitSuccess,
    RegisterJobClient,
    SubmitJob,
    TriggerSavepointSuccess,
)
from flykka.messages.control.job_manager import SeekJobManagerDue
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.signals import Terminated


@dataclass(slots=True)
class Heard:
    """Accepted jobs, results of jobs and paths of savepoints, as they were told to the client."""

    accepted: set[JobId] = field(default_factory=set)
    results: dict[JobId, JobResultSuccess | JobResultFailure] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)


@trace_tag("actor.simulation_client")
class SimulationClient(Actor):
    """Submits jobs, and listens to them; when the JobManager has died it comes back to the next one, as clients do."""

    def __init__(self, heard: Heard, job_manager: Ref) -> None:
        self._heard = heard
        self._job_manager = job_manager
        self._submitted: SubmitJob | None = None
        """Set the job that the run is about now."""

    def pre_start(self) -> None:
        """Watch the JobManager."""
        self._leader_retriever = LeaderRetriever(self.context, self._job_manager)
        self.context.watch(self._job_manager)

    def handle_message(self, message: Message) -> None:
        heard = self._heard
        match message:
            case SubmitJob():
                self._submitted = message
                self._job_manager.tell(message)
            case Terminated():
                self._leader_retriever.on_leader_lost()
            case SeekJobManagerDue():
                self._look_for_job_manager()
            case JobNotFound(job_id=job_id) if self._submitted is not None and job_id not in heard.results:
                # Nobody had accepted it when the JobManager died.
                self._job_manager.tell(self._submitted)
            case JobSubmitSuccess(job_id=job_id):
                heard.accepted.add(job_id)
            case JobResultSuccess(job_id=job_id) | JobResultFailure(job_id=job_id):
                heard.results.setdefault(job_id, message)
            case TriggerSavepointSuccess(savepoint_path=path):
                heard.savepoints.append(path)
            case _:
                pass

    def _look_for_job_manager(self) -> None:
        found = self._leader_retriever.find_leader()
        if found is None:
            return
        self._job_manager = found
        self.context.watch(found)
        if self._submitted is not None:
            job_id = self._submitted.job_graph.job_id
            found.tell(RegisterJobClient(job_id=job_id, client=self.context.ref))
