"""Which jobs run on this machine at this moment, as their processes tell: the user's own, and those that answer."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from flykka.explanation.sockets import ask_all
from flykka.messages.wire.ids import JobId

_log = logging.getLogger("flykka")

_TIMEOUT = 2.0
"""Seconds that a process has for its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that has not ended, and the process that runs it."""

    job_id: JobId
    name: str
    process: int


def running_jobs() -> tuple[RunningJob, ...]:
    """The jobs of all processes, this one included. What cannot be asked is left out, and logged."""
    try:
        answers = list(ask_all({"running": True}, _TIMEOUT))
    except OSError as refused:
        _log.info("which jobs other processes run is not known: %s", refused)
        return ()
    return tuple(
        RunningJob(job_id=JobId(job["id"]), name=job["name"], process=process.pid)
        for process in answers
        for job in process.answer.get("jobs", ())
        if not job["done"]
    )
