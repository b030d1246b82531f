"""Released batches are not used, no actor fails with an internal error, and jobs make progress."""

from __future__ import annotations

import pytest

from flykka.actors.machines.attempt.batches import IN_TRANSIT
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import HoldBatches, ProcessBatch, ReadSplits, ReleaseBatches
from flykka.messages.control.job import JobStatus, JobStatusChanged
from flykka.messages.control.registration import HeartbeatDue
from flykka.messages.tasks.exchange import BatchRef, BufferResponse
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, ResultPartitionId
from flykka.messages.wire.message import Message
from flykka.monitors.batches import BatchMonitor
from flykka.monitors.failures import FailureMonitor
from flykka.monitors.liveness import LivenessMonitor
from flykka.runtime.trace.records import Turn
from tests.flykka.monitors.turns import BRIDGE, CLIENT, JOB, JOB_MASTER, TASK, attempt, turn, violations_of

DONE = StageResult(stage=0)
BATCH = BatchRef(batch_id=BatchId("b"), rows=1, size_bytes=1)
RELEASED = turn(TASK, DONE, (BRIDGE, ReleaseBatches(holder=IN_TRANSIT, batch_ids=(BATCH.batch_id,))))
READ = ProcessBatch(stage=1, gate=0, batch=BATCH, watermark_ms=0)
HELD = HoldBatches(checkpoint_id=1, holder="checkpoint", batch_ids=(BATCH.batch_id,))
SENT = BufferResponse(partition_id=ResultPartitionId("p:0"), subpartition=0, sequence_number=0, buffer=BATCH, backlog=0)


@pytest.mark.parametrize(
    ("use", "what"), [(READ, "is read"), (HELD, "is held for a checkpoint"), (SENT, "is sent")], ids=str
)
def test_a_batch_must_not_be_used_after_its_release(use: Message, what: str) -> None:
    used = turn(TASK, DONE, (BRIDGE, use))

    assert violations_of(BatchMonitor(), used, RELEASED) == []
    assert violations_of(BatchMonitor(), RELEASED, used) == [f"b {what}, but was released in turn 0"]


def test_a_turn_must_not_fail_with_an_assertion_error() -> None:
    mistake = SerializedThrowable(type_name="AssertionError", message="a credit is lost")
    others = SerializedThrowable(type_name="AssertionError", message="the user's own")

    assert violations_of(FailureMonitor(), turn(BRIDGE, READ, failure=others)) == []
    assert violations_of(FailureMonitor(), turn(TASK, DONE, failure=mistake)) == [
        "raises AssertionError: a credit is lost"
    ]


def test_an_attempt_must_not_fail_with_a_channel_order_error() -> None:
    def failing(type_name: str) -> Turn:
        failure = SerializedThrowable(type_name=type_name, message="element 3")
        failed = TaskExecutionState(attempt=attempt(), state=ExecutionState.FAILED, failure=failure)
        return turn(TASK, DONE, (JOB_MASTER, UpdateTaskExecutionState(state=failed)))

    assert violations_of(FailureMonitor(), failing("ValueError")) == []
    assert violations_of(FailureMonitor(), failing("CreditOverrunError")) == [
        "job_map_0_0 fails with CreditOverrunError: element 3"
    ]


def status_turn(status: JobStatus, now_ms: int) -> Turn:
    change = JobStatusChanged(job_id=JOB, status=status, timestamp_ms=now_ms)
    return turn(JOB_MASTER, DONE, (CLIENT, change), now_ms=now_ms)


def pulse(now_ms: int) -> Turn:
    return turn(JOB_MASTER, HeartbeatDue(), now_ms=now_ms)


def test_a_job_that_reads_data_makes_progress() -> None:
    reads = turn(TASK, DONE, (BRIDGE, ReadSplits(stage=1, splits=())), now_ms=1_500)

    assert (
        violations_of(LivenessMonitor(1_000), status_turn(JobStatus.RUNNING, 1_000), pulse(2_000), reads, pulse(2_500))
        == []
    )


def test_a_job_without_progress_for_too_long_is_stuck() -> None:
    violations = violations_of(
        LivenessMonitor(1_000), status_turn(JobStatus.RUNNING, 1_000), pulse(2_001), pulse(2_500)
    )

    assert violations == ["job job (RUNNING) made no progress for 1001 ms, since turn 0"]


def test_an_ended_job_may_be_idle_for_ever() -> None:
    run = [status_turn(JobStatus.RUNNING, 0), status_turn(JobStatus.FINISHED, 1), pulse(100_000)]

    assert violations_of(LivenessMonitor(1_000), *run) == []


def test_a_run_must_not_end_before_its_jobs() -> None:
    monitor = LivenessMonitor(1_000)
    violations_of(monitor, status_turn(JobStatus.RUNNING, 0))

    assert [violation.text for violation in monitor.end()] == ["job job is RUNNING at the end of the run"]
