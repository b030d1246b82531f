"""Checks in virtual time that a job ends or makes progress. Recorded time may include waits for a disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flykka.actors.machines.states import JOB_TERMINAL
from flykka.messages.attempt.commands import ProcessBatch, ReadSplits
from flykka.messages.control.job import CheckpointCompleted, JobStatus, JobStatusChanged
from flykka.messages.control.registration import HeartbeatDue
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.trace.records import Turn


class LivenessMonitor(ConversationMonitor):
    """Observes the time since a job changed its status, completed a checkpoint or began a stage with rows.

    The time is checked with every heartbeat. Do not use this monitor if a job may be idle.
    """

    name = "liveness"

    def __init__(self, within_ms: int) -> None:
        super().__init__()
        self._within_ms = within_ms
        self._jobs: dict[JobId, JobStatus] = {}
        self._progress_ms = 0
        self._progress_turn: int | None = None

    def received(self) -> Mapping[type, OnReceived]:
        return {HeartbeatDue: self._on_pulse}

    def sent(self) -> Mapping[type, OnSent]:
        return {
            JobStatusChanged: self._on_status,
            CheckpointCompleted: self._on_progress,
            ReadSplits: self._on_progress,
            ProcessBatch: self._on_progress,
        }

    def end(self) -> Iterator[Violation]:
        for job_id, status in self._jobs.items():
            yield Violation(self.name, f"job {job_id} is {status} at the end of the run", self._progress_turn)

    def _on_status(self, turn: Turn, to: Ref, message: JobStatusChanged) -> None:
        self._jobs[message.job_id] = message.status
        if message.status in JOB_TERMINAL:
            del self._jobs[message.job_id]
        self._on_progress(turn, to, message)

    def _on_progress(self, turn: Turn, _to: Ref, _message: object) -> None:
        self._progress_ms, self._progress_turn = turn.now_ms, turn.sequence

    def _on_pulse(self, turn: Turn, _message: HeartbeatDue) -> Iterable[Violation]:
        silent_ms = turn.now_ms - self._progress_ms
        if not self._jobs or silent_ms <= self._within_ms:
            return ()
        stuck = ", ".join(f"job {job_id} ({status})" for job_id, status in self._jobs.items())
        text = f"{stuck} made no progress for {silent_ms} ms, since turn {self._progress_turn}"
        self._progress_ms = turn.now_ms  # A job without progress is reported once per period.
        return [self.violation(turn, text)]
