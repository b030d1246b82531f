"""What is left of a run at its end."""

from __future__ import annotations

from rich.console import Console as RichConsole

from flykka.cli.app_run import AppRun
from flykka.launch import LaunchOptions
from tests.flykka.jobs.one_job import one_job


def app_run() -> AppRun:
    return AppRun(
        LaunchOptions(), RichConsole(quiet=True), continue_with=lambda *start: " ".join(("flykka run app.py", *start))
    )


def test_a_job_whose_environment_was_closed_while_it_ran_has_failed() -> None:
    run = app_run()

    with one_job() as job:
        run.job_submitted(job.client, keeps_checkpoints=False)

    [failure] = run.failures()
    assert "was lost with its cluster" in str(failure)
    assert run.running() == []


def test_a_job_that_the_app_has_cancelled_is_no_failure() -> None:
    run = app_run()

    with one_job() as job:
        run.job_submitted(job.client, keeps_checkpoints=False)
        job.client.cancel()
        run.wait()

    assert run.failures() == []
