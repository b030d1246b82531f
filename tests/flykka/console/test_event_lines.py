"""Lines of the console about events of a job."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Literal

import pytest
from rich.console import Console as RichConsole

from flykka.console.event_lines import Console
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.control.job import (
    CheckpointAborted,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobRestored,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    TaskManagerLost,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, TaskManagerId
from flykka.messages.wire.message import Message
from tests.flykka.console.pictures import checkpoint_completed

JOB = JobId("job")


def console_output(messages: Sequence[Message], *, terminal: bool) -> str:
    """Return the output on a terminal of 40 columns, or in a file."""
    out = StringIO()
    colours: Literal["standard"] | None = "standard" if terminal else None
    output = RichConsole(file=out, force_terminal=terminal, color_system=colours, no_color=not terminal, width=40)
    console = Console(output)
    for message in messages:
        console(message)
    return out.getvalue()


def lines(messages: Sequence[Message]) -> list[str]:
    return console_output(messages, terminal=False).splitlines()


def task_running(task: str, task_manager: str, at: int = 0) -> ExecutionStateChanged:
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
        JobResultSuccess(job_id=JOB),
    ]

    assert lines(messages) == ["   0.00 s  job RUNNING", "  11.23 s  job FINISHED"]


def test_a_stopped_job_is_distinguished_from_a_finished_one() -> None:
    messages = [
        JobStatusChanged(job_id=JOB, status=JobStatus.FINISHED, timestamp_ms=1_000),
        JobResultSuccess(job_id=JOB, checkpoint_path="/chk-9"),
    ]

    assert lines(messages) == ["   0.00 s  job STOPPED"]


def test_a_restart_is_printed_with_the_first_line_of_its_reason() -> None:
    cause = SerializedThrowable(type_name="py4j.protocol.SomeError", message="a worker died\n\tat java.lang.Thread")
    messages = [JobStatusChanged(job_id=JOB, status=JobStatus.RESTARTING, timestamp_ms=0, cause=cause)]

    assert lines(messages) == ["   0.00 s  job RESTARTING: SomeError: a worker died"]


def test_one_cause_is_printed_only_once() -> None:
    cause = SerializedThrowable(type_name="SlotLostError", message="task-manager-2 has ended")
    statuses = (JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.FAILING)
    causes = (cause, cause, None, cause)
    messages = [
        JobStatusChanged(job_id=JOB, status=status, timestamp_ms=0, cause=why)
        for status, why in zip(statuses, causes, strict=True)
    ]

    assert lines(messages) == [
        "   0.00 s  job FAILING: SlotLostError: task-manager-2 has ended",
        "   0.00 s  job RESTARTING",
        "   0.00 s  job RUNNING",
        "   0.00 s  job FAILING: SlotLostError: task-manager-2 has ended",
    ]


def failed_and_restored(at: int, cause: SerializedThrowable) -> list[Message]:
    return [
        ExecutionStateChanged(
            job_id=JOB,
            attempt=ExecutionAttemptId("counts-0"),
            task_name="counts (1/1)",
            state=ExecutionState.FAILED,
            timestamp_ms=at,
            task_manager=TaskManagerId("task-manager-1"),
            failure=cause,
        ),
        JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=at),
    ]


def test_a_repeated_failure_is_printed_once_and_counted_at_growing_intervals() -> None:
    cause = SerializedThrowable(
        type_name="ValueError", message="operator 'counts': no\n  File \"app.py\", line 7, in counts"
    )
    messages = [message for at in range(52) for message in failed_and_restored(at * 1_000, cause)]

    printed = lines(messages)

    assert printed[:5] == [
        "   0.00 s  counts (1/1) failed on task-manager-1: ValueError: operator 'counts': no",
        '             File "app.py", line 7, in counts',
        "   0.00 s  restored from checkpoint 3",
        "   1.00 s  counts (1/1) failed on task-manager-1: same failure, 2 times: ValueError: operator 'counts': no",
        "   1.00 s  restored from checkpoint 3",
    ]
    counted = [line.partition("same failure, ")[2].partition(":")[0] for line in printed if "same failure" in line]
    assert counted == ["2 times", "5 times", "10 times", "20 times", "50 times"]
    assert len(printed) == 3 + 2 * 5


def test_the_same_failure_after_a_checkpoint_is_printed_completely() -> None:
    cause = SerializedThrowable(type_name="ValueError", message="no")
    completed = CheckpointCompleted(
        job_id=JOB, checkpoint_id=4, duration_ms=3, size_bytes=0, incremental_bytes=0, path="/chk-4", timestamp_ms=0
    )

    printed = lines([*failed_and_restored(0, cause), completed, *failed_and_restored(0, cause)])

    assert not any("same failure" in line for line in printed)


def test_each_loss_of_a_task_manager_is_printed() -> None:
    lost = SerializedThrowable(type_name="SlotLostError", message="task-manager-1 is lost")

    printed = lines([message for at in range(4) for message in failed_and_restored(at, lost)])

    assert len(printed) == 8


def test_a_checkpoint_is_printed_with_its_duration_and_sizes() -> None:
    completed = CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=4,
        duration_ms=312,
        size_bytes=20_480,
        incremental_bytes=512,
        path="/chk-4",
        timestamp_ms=0,
    )
    aborted = CheckpointAborted(
        job_id=JOB, checkpoint_id=5, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION, timestamp_ms=10
    )

    assert lines([completed, aborted]) == [
        "   0.00 s  checkpoint 4 completed in 312 ms: 20.0 KiB, 512 B of it new",
        "   0.01 s  checkpoint 5 aborted: JOB_FAILOVER_REGION",
    ]


def test_a_restore_is_printed_with_its_source() -> None:
    restored = JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=0)
    from_scratch = JobRestored(job_id=JOB, checkpoint_id=None, timestamp_ms=0)

    assert lines([restored, from_scratch]) == [
        "   0.00 s  restored from checkpoint 3",
        "   0.00 s  starts again from the beginning: no checkpoint was complete",
    ]


def test_a_task_manager_is_printed_at_its_first_task_and_its_loss() -> None:
    messages = [
        task_running("Source: flights (1/1)", "task-manager-1"),
        task_running("delays (1/2)", "task-manager-1"),
        TaskManagerLost(job_id=JOB, task_manager=TaskManagerId("task-manager-1"), reason="terminated", timestamp_ms=0),
        task_running("delays (1/2)", "task-manager-3"),
    ]

    assert lines(messages) == [
        "   0.00 s  task-manager-1 runs its first task, Source: flights (1/1)",
        "   0.00 s  task-manager-1 lost: terminated",
        "   0.00 s  task-manager-3 runs its first task, delays (1/2)",
    ]


def test_a_line_is_neither_truncated_nor_wrapped_nor_parsed_as_markup() -> None:
    reason = "[red]see /tmp/[1]:[/red] " + "a very long reason " * 20 + "end"
    lost = TaskManagerLost(job_id=JOB, task_manager=TaskManagerId("task-manager-1"), reason=reason, timestamp_ms=0)

    assert lines([lost]) == [f"   0.00 s  task-manager-1 lost: {reason}"]


def test_lines_have_the_colours_of_their_severity_on_terminals() -> None:
    lost = TaskManagerLost(job_id=JOB, task_manager=TaskManagerId("task-manager-1"), reason="killed", timestamp_ms=0)
    failing = JobStatusChanged(job_id=JOB, status=JobStatus.FAILING, timestamp_ms=0)
    completed = CheckpointCompleted(
        job_id=JOB, checkpoint_id=4, duration_ms=3, size_bytes=2, incremental_bytes=1, path="/chk-4", timestamp_ms=0
    )
    running = JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0)

    assert console_output([lost, failing, completed, running], terminal=True).splitlines() == [
        "   0.00 s  \x1b[33mtask-manager-1 lost: killed\x1b[0m",
        "   0.00 s  \x1b[31mjob FAILING\x1b[0m",
        "   0.00 s  \x1b[32mcheckpoint 4 completed in 3 ms: 2 B, 1 B of it new\x1b[0m",
        "   0.00 s  job RUNNING",
    ]


def test_a_job_without_its_own_console_prints_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    Console()(JobStatusChanged(job_id=JOB, status=JobStatus.RUNNING, timestamp_ms=0))

    assert capsys.readouterr().out == "   0.00 s  job RUNNING\n"


def test_a_failed_checkpoint_is_printed_with_its_cause_and_repetitions_counted() -> None:
    cause = SerializedThrowable(type_name="DiskFullError", message="No space left on device")

    def failed_checkpoint(times: int) -> CheckpointAborted:
        reason = CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION
        failure = CheckpointFailure(
            reason=reason, cause=cause, task_name="sink (1/1)", task_manager="tm-1", times=times, since_ms=0
        )
        return CheckpointAborted(job_id=JOB, checkpoint_id=times, reason=reason, timestamp_ms=0, failure=failure)

    shown = lines([failed_checkpoint(times) for times in range(1, 13)])

    text = "aborted: CHECKPOINT_ASYNC_EXCEPTION at sink (1/1) on tm-1: DiskFullError: No space left on device"
    assert shown[0] == f"   0.00 s  checkpoint 1 {text}"
    assert [line.partition(" (the same ")[2].split(" ")[0] for line in shown[1:]] == ["2", "5", "10"]


def test_successful_checkpoints_share_a_line_that_precedes_other_events() -> None:
    failed = CheckpointAborted(job_id=JOB, checkpoint_id=5, reason=CheckpointDeclineReason.EXPIRED, timestamp_ms=5_000)
    messages = [
        *(checkpoint_completed(number, number * 1_000) for number in range(1, 5)),
        failed,
        checkpoint_completed(6, 6_000),
    ]

    assert [line.partition(";")[0].partition(" in ")[0] for line in lines(messages)] == [
        "   0.00 s  checkpoint 1 completed",
        "   3.00 s  checkpoints 2-4 completed, median 58 ms",
        "   4.00 s  checkpoint 5 aborted: EXPIRED",
        "   5.00 s  checkpoint 6 completed",
    ]


def test_a_savepoint_has_its_own_line() -> None:
    messages = [
        checkpoint_completed(1, 0),
        checkpoint_completed(2, 10),
        checkpoint_completed(3, 20, path="/savepoints/savepoint-job-1f03a9c2-3"),
    ]

    assert [line[11:].partition(" in ")[0] for line in lines(messages)] == [
        "checkpoint 1 completed",
        "checkpoint 2 completed",
        "savepoint 3 completed",
    ]
