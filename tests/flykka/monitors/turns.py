"""Turns as a trace records them, and a monitor's violations. Fields that a law ignores have default values."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import NotifyCheckpointComplete
from flykka.messages.tasks.exchange import BatchRef, Buffer, BufferResponse, PartitionRequest
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, ExecutionAttemptId, JobId, ResultPartitionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import Monitor
from flykka.monitors.monitors import Watch
from flykka.runtime.trace.effects import Send, Undecoded
from flykka.runtime.trace.records import Record, Turn

JOB = JobId("job")
JOB_MASTER = Ref("/user/job-manager/job-job", 1)
COORDINATOR = Ref("/user/job-manager/job-job/checkpoint-coordinator", 1)
TASK_MANAGER = Ref("/user/task-manager-1", 1)
TASK = Ref("/user/task-manager-1/map-0.0-1", 1)
BRIDGE = Ref("/user/task-manager-1/map-0.0-1/bridge", 1)
CLIENT = Ref("/user/client", 1)


def attempt(subtask: int = 0, number: int = 0) -> ExecutionAttemptId:
    return ExecutionAttemptId(f"job_map_{subtask}_{number}")


def turn(
    recipient: Ref,
    message: Message | Undecoded,
    *sends: tuple[Ref, Message],
    now_ms: int = 0,
    failure: SerializedThrowable | None = None,
) -> Turn:
    """Return a turn in which `recipient` handled `message` and sent these messages."""
    return Turn(
        sequence=0,
        now_ms=now_ms,
        recipient=recipient,
        sender=None,
        cause=None,
        kind="message",
        message=message,
        effects=tuple(Send(target=target, message=sent) for target, sent in sends),
        failure=failure,
    )


def batch_ref(name: str) -> BatchRef:
    return BatchRef(batch_id=BatchId(name), rows=1, size_bytes=1)


def partition_request(partition_id: ResultPartitionId) -> tuple[Ref, Message]:
    return TASK_MANAGER, PartitionRequest(partition_id=partition_id, subpartition=0, credit=2, consumer=TASK)


def receive_turn(partition_id: ResultPartitionId, buffer: Buffer, *sends: Message) -> Turn:
    message = BufferResponse(partition_id=partition_id, subpartition=0, sequence_number=0, buffer=buffer, backlog=0)
    return turn(TASK, message, *((BRIDGE, sent) for sent in sends))


def notify_complete(checkpoint_id: int) -> NotifyCheckpointComplete:
    return NotifyCheckpointComplete(job_id=JOB, attempt=attempt(), checkpoint_id=checkpoint_id, timestamp_ms=0)


def violations_of(monitor: Monitor, *records: Record) -> list[str]:
    """Return the texts of the monitor's violations, without their turns."""
    watch = Watch([monitor])
    return [violation.text.partition(": ")[2] for record in records for violation in watch.observe(record)]
