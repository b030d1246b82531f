"""The end of a run: its summary, failed and cancelled jobs, and Ctrl-C."""

from __future__ import annotations

import signal
import sys
from io import StringIO

import pytest
from rich.console import Console as RichConsole

from flykka.api.job_settings import JobSettings
from flykka.api.launch import LaunchOptions, current_launch
from flykka.cli.exit_codes import CANCELLED, OK
from flykka.cli.run.app import App
from flykka.cli.run.execution import AppRun, run
from flykka.client.start_settings import StartSettings
from flykka.messages.control.job import JobResultSuccess
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention, JobType
from tests.flykka.client.one_job import JOB, OneJob, one_job


def app_run(shown: StringIO | None = None) -> AppRun:
    output = RichConsole(quiet=True) if shown is None else RichConsole(file=shown, width=200)
    return AppRun(LaunchOptions(), output, continue_with=lambda *start: " ".join(("flykka run app.py", *start)))


def test_a_job_whose_environment_was_closed_has_failed() -> None:
    run = app_run()

    with one_job() as job:
        run.job_submitted(job.client, keeps_checkpoints=False)

    [failure] = run.failures()
    assert "was lost with its cluster" in str(failure)
    assert run.running() == []


@pytest.mark.parametrize(
    ("out", "err", "link"),
    [(True, True, "/#token=of-the-tests"), (True, False, ""), (False, True, ""), (False, False, "")],
)
def test_the_token_is_printed_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, out: bool, err: bool, link: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: out, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: err, raising=False)
    output = StringIO()

    with one_job() as job:
        app_run(output).job_submitted(
            job.client, keeps_checkpoints=False, rest_address="http://127.0.0.1:1", rest_token="of-the-tests"
        )

    assert f"web page and REST interface at http://127.0.0.1:1{link}\n" in output.getvalue()


def test_a_job_cancelled_by_the_app_is_not_a_failure() -> None:
    run = app_run()

    with one_job() as job:
        run.job_submitted(job.client, keeps_checkpoints=False)
        job.client.cancel()
        run.wait()

    assert run.failures() == []


@pytest.mark.parametrize(
    ("retention", "why"),
    [
        (ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, "no checkpoint was complete"),
        (ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION, "its retention deletes checkpoints"),
    ],
)
def test_the_summary_of_a_cancelled_job_explains_the_missing_checkpoint(
    retention: ExternalizedCheckpointRetention, why: str
) -> None:
    output = StringIO()
    run = app_run(output)

    with one_job(retention=retention) as job:
        run.job_submitted(job.client, keeps_checkpoints=True)
        job.client.cancel()
        run.wait()

    assert f"kept         nothing: {why}" in output.getvalue()


@pytest.mark.parametrize(
    ("keeps_checkpoints", "said", "continued"),
    [
        (True, JobSettings(), "flykka run app.py"),
        (True, JobSettings(start=StartSettings(restore_from="latest")), "flykka run app.py --from-checkpoint auto"),
        (False, JobSettings(), "flykka run app.py --from-savepoint /savepoints/savepoint-ab12cd-1"),
    ],
)
def test_the_summary_contains_the_command_to_continue(
    keeps_checkpoints: bool, said: JobSettings, continued: str
) -> None:
    output = StringIO()
    run = app_run(output)
    run.overridden(said, {})

    with one_job() as job:
        run.job_submitted(job.client, keeps_checkpoints=keeps_checkpoints)
        job.publish(JobResultSuccess(job_id=JOB, checkpoint_path="/savepoints/savepoint-ab12cd-1"))
        run.wait()

    assert output.getvalue().splitlines()[-1] == f"  continue     {continued}"


class InterruptedApp(App):
    def __init__(self, job: OneJob, *, waits: bool) -> None:
        super().__init__("app.py")
        self.job, self.waits = job, waits

    def run(self) -> None:
        current_launch().job_submitted(self.job.client, keeps_checkpoints=True)
        signal.raise_signal(signal.SIGINT)
        if self.waits:
            self.job.client.wait(timeout=10)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(("job_type", "code"), [(JobType.STREAMING, OK), (JobType.BATCH, CANCELLED)])
def test_one_ctrl_c_stops_a_streaming_job_and_cancels_a_batch_job(
    capfd: pytest.CaptureFixture[str], job_type: JobType, code: int, waits: bool
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with one_job(job_type=job_type) as job:
            app = InterruptedApp(job, waits=waits)
            assert run(app, LaunchOptions(), continue_with=lambda *start: "", verbose=False) == code
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err == ""
