"""The summary of an ended job."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console as RichConsole

from flykka.console.job_console import print_summary
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.monitoring.job_details import JobDetails, JobVertexDetails
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobVertexId, TaskManagerId
from tests.flykka.console.pictures import DETAILS, VERTEX, completed_statistics

SINK: JobVertexDetails = replace(
    VERTEX, vertex_id=JobVertexId("sink"), sources=(), sinks=("delays", "archive"), rows_published=19_486
)
FINISHED = replace(
    DETAILS,
    status=JobStatus.FINISHED,
    vertices=(replace(VERTEX, rows_in=336_776), SINK),
    checkpoints_completed=8,
    checkpoints_failed=1,
    last_completed=completed_statistics(9),
)


def summary(details: JobDetails, *more: tuple[str, str]) -> list[str]:
    out = StringIO()
    print_summary(RichConsole(file=out, width=40), details, more)
    return out.getvalue().splitlines()


def test_the_summary_counts_rows_read_and_written_and_checkpoints() -> None:
    assert summary(FINISHED) == [
        "job 'delays' FINISHED in 12.3 s",
        "  read         336,776 rows from 'flights'",
        "  written      19,486 rows to 'delays' and 'archive'",
        "  checkpoints  8 completed, 1 failed; the last, 9, took 300 ms: 2.0 KiB",
    ]


def test_unpublished_rows_are_distinguished_from_published_ones() -> None:
    half = replace(SINK, sinks=("delays",), rows_out=376, rows_published=336, rows_staged=40)

    lines = summary(replace(FINISHED, vertices=(half,)))

    assert "  written      336 rows to 'delays'; 40 more were staged and not published" in lines


def test_after_a_restart_the_count_of_published_rows_is_a_lower_bound() -> None:
    lines = summary(replace(FINISHED, number_of_restarts=1))

    assert "  written      at least 19,486 rows to 'delays' and 'archive'" in lines


def test_late_rows_are_listed_if_there_are_any() -> None:
    late = replace(FINISHED, vertices=(replace(SINK, late_rows=7), replace(SINK, late_rows=5)))

    assert "  late         12 rows came too late for their windows" in summary(late)


def root_failure(number: int = 1, outcome: FailureOutcome = FailureOutcome.RESTARTED) -> RootExceptionHistoryEntry:
    root = ExceptionHistoryEntry(
        cause=SerializedThrowable(type_name="ValueError", message="no price may be 26\n  File app.py"),
        timestamp_ms=17_860,
        task_name="map (1/2)",
        task_manager=TaskManagerId("task-manager-1"),
    )
    return RootExceptionHistoryEntry(
        number=number, root=root, outcome=outcome, delay_ms=500, restarted_ms=18_360, restored_checkpoint=3
    )


def test_failures_are_listed_with_their_handling_and_reread_rows() -> None:
    lines = summary(replace(FINISHED, started_ms=1_000, exceptions=(root_failure(),), number_of_restarts=1))

    assert lines[1].endswith(" (rows read again after a restart are counted again)")
    assert lines[-4:] == [
        "  restarts     1",
        "  failures     16.86 s  map (1/2) on task-manager-1: ValueError: no price may be 26",
        "                          File app.py",
        "                        the job restarted after 0.5 s from checkpoint 3",
    ]


def test_a_failure_that_ended_the_job_is_marked() -> None:
    lines = summary(replace(FINISHED, exceptions=(root_failure(outcome=FailureOutcome.FAILED),)))

    assert lines[-1].strip() == "not recovered: the job has FAILED"


def test_only_the_last_of_many_failures_are_listed() -> None:
    exceptions = tuple(root_failure(number) for number in range(9))

    lines = summary(replace(FINISHED, exceptions=exceptions, number_of_restarts=90))

    assert lines[-16] == "  restarts     90"


def test_additional_lines_are_neither_wrapped_nor_parsed_as_markup() -> None:
    path = "/a/[red]/very/long/path/to/a/checkpoint/of/this/job/chk-4"

    assert summary(FINISHED, ("kept", path))[-1] == f"  kept         {path}"
