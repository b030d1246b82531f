"""The client of a simulation: it keeps what it hears of its jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from flykka.messages.ids import JobId
from flykka.messages.job import (
    CheckpointAborted,
    CheckpointCompleted,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    StoppingSuccess,
    TriggerSavepointSuccess,
)
from flykka.messages.message import Message
from flykka.runtime.actor import Actor


@dataclass(slots=True)
class Heard:
    """What the client has heard."""

    results: dict[JobId, JobResultSuccess | JobResultFailure] = field(default_factory=dict)
    stopped: dict[JobId, str] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)
    answers: Counter[type[Message]] = field(default_factory=Counter)
    restarts: Counter[JobId] = field(default_factory=Counter)
    completed: int = 0
    aborted: Counter[str] = field(default_factory=Counter)
    """Checkpoints that were given up, by the reason."""
    given_up_last: set[JobId] = field(default_factory=set)
    """Jobs of which a checkpoint was given up since the last one was complete."""


class SimulationClient(Actor):
    """Submits jobs, and listens to them."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def handle_message(self, message: Message) -> None:
        """Keep what decides how the run goes on, and count the rest."""
        heard = self._heard
        heard.answers[type(message)] += 1
        match message:
            case JobResultSuccess(job_id=job_id) | JobResultFailure(job_id=job_id):
                heard.results.setdefault(job_id, message)
            case StoppingSuccess(job_id=job_id, checkpoint_path=path):
                heard.stopped[job_id] = path
            case TriggerSavepointSuccess(savepoint_path=path):
                heard.savepoints.append(path)
            case JobStatusChanged(job_id=job_id, status=JobStatus.RESTARTING):
                heard.restarts[job_id] += 1
            case CheckpointCompleted(job_id=job_id):
                heard.completed += 1
                heard.given_up_last.discard(job_id)
            case CheckpointAborted(job_id=job_id, reason=reason):
                heard.aborted[reason.value] += 1
                heard.given_up_last.add(job_id)
            case _:
                pass
