"""Recordings written by hand: turns of the actors that a test needs, without a system."""

from __future__ import annotations

from pathlib import Path

from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointMetrics,
    NotifyCheckpointComplete,
    SnapshotOperatorCoordinators,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import MetadataWritten, PeriodicTriggerDue
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, attempt_id
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.recording import Effect
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.traces.trace import Trace

BEGIN_MS = 1_700_000_000_000
JOB = JobId("0123456789abcdef0123456789abcdef")
TASK_MANAGER = Ref("/user/task-manager-1", 1)


class TimerEnvelope(Envelope):
    kind = "timer"


class Recording:
    """Writes one turn after the other, by default a tenth of a second apart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = BEGIN_MS
        self._turns = 0
        self._recorder = TraceRecorder(path)
        self._recorder.open(system="recorded", seed=7)

    def turn(
        self,
        recipient: Ref,
        message: Message,
        *effects: Effect,
        sender: Ref | None = None,
        cause: int | None = None,
        after_ms: int = 100,
        failure: SerializedThrowable | None = None,
        timer: bool = False,
    ) -> int:
        number = self._next(after_ms)
        envelope = (TimerEnvelope if timer else Envelope)(message, sender, cause)
        self._recorder.turn(number, self.now_ms, recipient, envelope, list(effects), failure)
        return number

    def killed(self, ref: Ref) -> int:
        number = self._next(100)
        self._recorder.killed(number, self.now_ms, ref)
        return number

    def dead_letter(self, recipient: Ref, message: Message, reason: str) -> int:
        number = self._next(100)
        self._recorder.dead_letter(number, self.now_ms, message, None, recipient, reason)
        return number

    def closed(self) -> Trace:
        self._recorder.close()
        return Trace.open(self.path)

    def _next(self, after_ms: int) -> int:
        self.now_ms += after_ms if self._turns else 0
        self._turns += 1
        return self._turns


def job_master(job: JobId = JOB) -> Ref:
    return Ref(f"/user/job-manager/job-{job}", 1)


def play_into(recorder: FlightRecorder, trace: Trace) -> None:
    """Record the messages of a trace without their effects."""
    for turn in trace.turns:
        assert isinstance(turn.message, Message)
        recorder.turn(turn.sequence, turn.now_ms, turn.recipient, Envelope(turn.message, turn.sender, None), [], None)


def coordinator(job: JobId = JOB) -> Ref:
    return Ref(f"/user/job-manager/job-{job}/checkpoint-coordinator", 1)


def task_ref(subtask: int) -> Ref:
    return Ref(f"/user/task-manager-1/window-{subtask}.0-{subtask}", 1)


def attempt(subtask: int, job: JobId = JOB) -> ExecutionAttemptId:
    return attempt_id(job, JobVertexId("00000000000000aa"), subtask, 0)


def record_checkpoint(
    recording: Recording,
    number: int,
    *,
    tasks: int = 2,
    job: JobId = JOB,
    aborted: CheckpointDeclineReason | None = None,
) -> None:
    """Record a checkpoint from its trigger to its notification, or until it is aborted."""
    snapshot = SnapshotOperatorCoordinators(job_id=job, checkpoint_id=number)
    begun = recording.turn(coordinator(job), PeriodicTriggerDue(), ("send", job_master(job), snapshot), timer=True)
    asked = recording.turn(job_master(job), snapshot, sender=coordinator(job), cause=begun)
    for subtask in range(tasks):
        trigger = TriggerCheckpoint(
            job_id=job, attempt=attempt(subtask, job), checkpoint_id=number, timestamp_ms=BEGIN_MS
        )
        recording.turn(task_ref(subtask), trigger, sender=TASK_MANAGER, cause=asked, after_ms=1)
    if aborted is not None:
        given_up = CheckpointAborted(job_id=job, checkpoint_id=number, reason=aborted, timestamp_ms=BEGIN_MS)
        recording.turn(job_master(job), given_up, sender=coordinator(job))
        return
    for subtask in range(tasks):
        acknowledged = AcknowledgeCheckpoint(
            job_id=job,
            attempt=attempt(subtask, job),
            checkpoint_id=number,
            metrics=CheckpointMetrics(async_ms=1_500),
        )
        recording.turn(coordinator(job), acknowledged, sender=job_master(job), after_ms=10)
    recording.turn(coordinator(job), MetadataWritten(checkpoint_id=number, path=f"/checkpoints/chk-{number}"))
    completed = CheckpointCompleted(
        job_id=job,
        checkpoint_id=number,
        duration_ms=1_500,
        size_bytes=2_048,
        incremental_bytes=1_024,
        path=f"/checkpoints/chk-{number}",
        timestamp_ms=BEGIN_MS,
    )
    recording.turn(job_master(job), completed, sender=coordinator(job), after_ms=1)
    for subtask in range(tasks):
        notify = NotifyCheckpointComplete(
            job_id=job, attempt=attempt(subtask, job), checkpoint_id=number, timestamp_ms=BEGIN_MS
        )
        recording.turn(task_ref(subtask), notify, sender=TASK_MANAGER, after_ms=1)
