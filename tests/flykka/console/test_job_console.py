"""A job from its submission to its summary, in a file and on a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console as RichConsole

from flykka.client.job_client import JobClient
from flykka.console.job_console import JobConsole
from flykka.errors import JobCancelledError
from flykka.messages.control.job import JobResultFailure, JobResultSuccess, JobStatus
from tests.flykka.client.one_job import BOOM, JOB, KEPT, one_job, status


def kept_checkpoint(client: JobClient) -> list[tuple[str, str]]:
    return [("kept", client.details.kept_checkpoint or "nothing")]


def test_without_a_terminal_lines_and_a_summary_precede_the_end_of_wait() -> None:
    out = StringIO()
    with one_job() as job:
        JobConsole(RichConsole(file=out, width=40), kept_checkpoint).show(job.client)

        job.publish(status(JobStatus.RUNNING, at=50), status(JobStatus.FINISHED, at=1_250))
        job.publish(JobResultSuccess(job_id=JOB, checkpoint_path=KEPT))
        job.client.wait(timeout=10)

    assert out.getvalue().splitlines() == [
        "   0.00 s  job RUNNING",
        "   1.20 s  job STOPPED",
        "job 'delays' STOPPED in 1.2 s",
        "  read         0 rows from 'flights'",
        "  written      0 rows to 'output'",
        "  checkpoints  0 completed, 0 failed",
        f"  kept         {KEPT}",
    ]


def test_lines_of_concurrent_jobs_have_the_name_of_their_job() -> None:
    out = StringIO()
    with one_job() as first, one_job() as second:
        console = JobConsole(RichConsole(file=out), kept_checkpoint)
        console.show(first.client)
        # The name is the same as on another cluster: it only matters that a console already runs.
        console.show(second.client)

        second.publish(status(JobStatus.RUNNING), JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.CANCELED))
        with pytest.raises(JobCancelledError):
            second.client.wait(timeout=10)

    assert out.getvalue().splitlines()[0] == "   0.00 s  delays: job RUNNING"


def test_messages_are_printed_unchanged() -> None:
    out = StringIO()

    JobConsole(RichConsole(file=out, width=20), kept_checkpoint).notify(
        "[bold]a line that is longer than the terminal[/bold]"
    )

    assert out.getvalue() == "[bold]a line that is longer than the terminal[/bold]\n"
