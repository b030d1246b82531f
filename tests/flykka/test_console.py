"""What a reader of the console is told."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.console import Console, format_bytes
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.job import (
    CheckpointAborted,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobRestored,
    JobStatus,
    JobStatusChanged,
    TaskManagerLost,
)
from flykka.messages.message import Message
from flykka.messages.task import ExecutionState

JOB = JobId("job")


def lines(messages: Sequence[Message]) -> list[str]:
    written: list[str] = []
    console = Console(written.append)
    for message in messages:
        console(message)
    return written


def running(task: str, task_manager: str, at: int = 0) -> ExecutionStateChanged:
    return ExecutionStateChanged(
        job_id=JOB,
        attempt=ExecutionAttemptId(f"{task}-0"),
        task_name=task,
        state=ExecutionState.RUNNING,
        timestamp_ms=at,
        task_manager=TaskManagerId(task_manager),
    )


def test_seconds_are_counted_from_the_first_message() -> None:
    messages = [
        JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=50_000),
        JobStatusChanged(job_id=JOB, status=JobStatus.FINISHED, timestamp_ms=61_230),
    ]

    assert lines(messages) == ["   0.00 s  job RUNNING", "  11.23 s  job FINISHED"]


def test_a_restart_is_told_with_the_first_line_of_its_reason() -> None:
    cause = SerializedThrowable(type_name="py4j.protocol.SomeError", message="a worker died\n\tat java.lang.Thread")
    messages = [JobStatusChanged(job_id=JOB, status=JobStatus.RESTARTING, timestamp_ms=0, cause=cause)]

    assert lines(messages) == ["   0.00 s  job RESTARTING: SomeError: a worker died"]


def test_one_cause_is_told_once() -> None:
    cause = SerializedThrowable(type_name="SlotLost", message="task-manager-2 has ended")
    statuses = (JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FAILING)
    causes = (cause, cause, None, cause)
    messages = [
        JobStatusChanged(job_id=JOB, status=status, timestamp_ms=0, cause=why)
        for status, why in zip(statuses, causes, strict=True)
    ]

    assert lines(messages) == [
        "   0.00 s  job FAILING: SlotLost: task-manager-2 has ended",
        "   0.00 s  job RESTARTING",
        "   0.00 s  job RUNNING",
        "   0.00 s  job FAILING: SlotLost: task-manager-2 has ended",
    ]


def test_a_checkpoint_is_told_with_its_duration_and_sizes() -> None:
    completed = CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=4,
        duration_ms=312,
        size_bytes=20_480,
        incremental_bytes=512,
        path="/chk-4",
        timestamp_ms=0,
    )
    aborted = CheckpointAborted(job_id=JOB, checkpoint_id=5, reason="JOB_FAILURE", timestamp_ms=10)

    assert lines([completed, aborted]) == [
        "   0.00 s  checkpoint 4 completed in 312 ms: 20.0 KiB, 512 B of it new",
        "   0.01 s  checkpoint 5 aborted: JOB_FAILURE",
    ]


def test_a_restore_says_from_where() -> None:
    restored = JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=0)
    from_scratch = JobRestored(job_id=JOB, checkpoint_id=None, timestamp_ms=0)

    assert lines([restored, from_scratch]) == [
        "   0.00 s  restored from checkpoint 3",
        "   0.00 s  starts again from the beginning: no checkpoint was complete",
    ]


def test_a_task_manager_is_told_of_when_it_first_runs_something_and_when_it_is_lost() -> None:
    messages = [
        running("Source: flights (1/1)", "task-manager-1"),
        running("delays (1/2)", "task-manager-1"),
        TaskManagerLost(job_id=JOB, task_manager=TaskManagerId("task-manager-1"), reason="terminated", timestamp_ms=0),
        running("delays (1/2)", "task-manager-3"),
    ]

    assert lines(messages) == [
        "   0.00 s  task-manager-1 runs its first task, Source: flights (1/1)",
        "   0.00 s  task-manager-1 lost: terminated",
        "   0.00 s  task-manager-3 runs its first task, delays (1/2)",
    ]


def test_sizes_are_written_short() -> None:
    sizes = [0, 1_023, 1_024, 1_536, 3 * 1_024**3, 5 * 1_024**4]

    assert [format_bytes(size) for size in sizes] == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "3.0 GiB", "5.0 TiB"]
