"""What is said of a job when it has ended."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console as RichConsole

from flykka.console.summary import print_summary
from flykka.jobs.job_details import JobDetails, JobVertexDetails, Restart
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobVertexId
from flykka.messages.job import JobStatus
from tests.flykka.console.pictures import DETAILS, VERTEX, checkpoint

SINK: JobVertexDetails = replace(
    VERTEX, vertex_id=JobVertexId("sink"), sources=(), sinks=("delays", "archive"), rows_out=19_486
)
FINISHED = replace(
    DETAILS,
    status=JobStatus.FINISHED,
    vertices=(replace(VERTEX, rows_in=336_776), SINK),
    checkpoints_completed=8,
    checkpoints_failed=1,
    last_completed=checkpoint(9),
)


def summary(details: JobDetails, *more: tuple[str, str]) -> list[str]:
    out = StringIO()
    print_summary(RichConsole(file=out, width=40), details, more)
    return out.getvalue().splitlines()


def test_what_was_read_and_written_and_which_checkpoints_there_were() -> None:
    assert summary(FINISHED) == [
        "job 'delays' FINISHED in 12.3 s",
        "  read         336,776 rows from 'flights'",
        "  written      19,486 rows to 'delays' and 'archive'",
        "  checkpoints  8 completed, 1 failed; the last, 9, took 300 ms: 2.0 KiB",
    ]


def test_late_rows_are_told_where_there_were_any() -> None:
    late = replace(FINISHED, vertices=(replace(SINK, late_rows=7), replace(SINK, late_rows=5)))

    assert "  late         12 rows came too late for their windows" in summary(late)


def test_restarts_are_told_with_their_reasons_and_that_rows_were_read_again() -> None:
    cause = SerializedThrowable(type_name="SlotLostError", message="task-manager-2 is lost\nmore")
    restarted = replace(
        FINISHED, started_ms=1_000, restarts=(Restart(at_ms=17_860, cause=cause),), number_of_restarts=1
    )

    lines = summary(restarted)

    again = "(what was read again after a restart is counted again)"
    assert lines[1] == f"  read         336,776 rows from 'flights' {again}"
    assert lines[-2:] == [
        "  restarts     1",
        "               16.86 s  SlotLostError: task-manager-2 is lost",
    ]


def test_of_many_restarts_the_last_are_told() -> None:
    restarts = tuple(Restart(at_ms=1_000 * number, cause=None) for number in range(9))

    lines = summary(replace(FINISHED, restarts=restarts, number_of_restarts=90))

    assert lines[-6] == "  restarts     90"
    assert [line.strip() for line in lines[-5:]] == ["4.00 s", "5.00 s", "6.00 s", "7.00 s", "8.00 s"]


def test_more_lines_may_be_added_and_none_is_wrapped_or_marked_up() -> None:
    path = "/a/[red]/very/long/path/to/a/checkpoint/of/this/job/chk-4"

    assert summary(FINISHED, ("kept", path))[-1] == f"  kept         {path}"
