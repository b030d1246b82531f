"""Commands from another terminal: their output, and their errors if the request is refused."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flykka.cli.main import main
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.client.running_jobs import FOLDER_VARIABLE, RunningJob, RunningJobFile
from flykka.messages.control.job import CancelJob
from flykka.messages.wire.ids import JobId
from flykka.rest.settings import RestSettings
from flykka.runtime.errors import AskTimeoutError
from flykka.runtime.trace.file.reader import TraceReader
from tests.flykka.rest.conftest import JOB, Serve, Served

pytestmark = pytest.mark.slow

WHY = ["why", "--timeout", "500ms"]
"""The `why` command with a short timeout, because the tasks of these tests never reply."""


def run_command(capsys: pytest.CaptureFixture[str], served: Served, *words: str) -> tuple[int, str, str]:
    code = main([*words, "--address", served.server.address])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_jobs_are_listed(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    code, out, _ = run_command(capsys, served, "list")

    assert code == 0
    assert out.endswith(f"  {JOB}  a <job> (RUNNING)\n")


@pytest.mark.slow
def test_a_job_is_found_by_name_by_id_or_alone(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    for named in (("a <job>",), (JOB[:5],), ()):
        code, out, _ = run_command(capsys, served, *WHY, *named)
        assert code == 0
        assert "a <job>" in out

    code, _, err = run_command(capsys, served, "cancel", "other")
    assert (code, err) == (1, f"flykka cancel: there is no job 'other' at {served.server.address}\n")


def test_a_job_is_cancelled(capsys: pytest.CaptureFixture[str], served: Served) -> None:
    assert run_command(capsys, served, "cancel")[:2] == (0, f"job 'a <job>' ({JOB}) is being cancelled\n")


def test_a_job_is_cancelled_and_its_checkpoints_deleted(
    capsys: pytest.CaptureFixture[str], served: Served, tmp_path: Path
) -> None:
    path = tmp_path / "all.trace"
    code, *_ = run_command(capsys, served, "cancel", "--delete-checkpoints")
    path.write_bytes(served.http.get("/recorder/trace").content)

    requests = [turn.message for turn in TraceReader.open(path) if isinstance(turn.message, CancelJob)]
    assert code == 0
    assert {request.delete_checkpoints for request in requests} == {True}


def test_a_refusal_is_printed(capsys: pytest.CaptureFixture[str], served: Served, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "flykka stop: No savepoint directory configured" in run_command(capsys, served, "stop")[2]
    code, _, err = run_command(capsys, served, "savepoint", "take", "-p", str(tmp_path / "file"))
    assert code == 1
    assert err.startswith(f"flykka savepoint take: the savepoint directory '{tmp_path}/file' cannot be written")


def test_an_unreachable_server_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["list", "--address", address]) == 1
    assert f"flykka list: no flykka answers at http://{address}: " in capsys.readouterr().err
    assert main(["list", "-m", address, "--token-file", str(tmp_path / "none")]) == 1
    assert "cannot be queried: " in capsys.readouterr().err


def test_the_address_may_be_set_in_the_environment(
    capsys: pytest.CaptureFixture[str], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYKKA_ADDRESS", served.server.address)

    assert main(["list"]) == 0
    assert JOB in capsys.readouterr().out


@pytest.fixture
def add_running_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return a function that adds jobs to those found on this machine, which has no others."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "jobs"))
    files: list[RunningJobFile] = []

    def find(name: str, address: str | None, job_id: JobId = JOB, token: str | None = None) -> None:
        job = RunningJob(job_id=job_id, name=name, process=7, address=address, token=token)
        files.append(RunningJobFile(job))

    yield find
    for file in files:
        file.remove()


@pytest.mark.slow
def test_a_job_of_this_machine_is_found_without_an_address(
    capsys: pytest.CaptureFixture[str], served: Served, add_running_job: Callable[..., None]
) -> None:
    add_running_job("a <job>", served.server.address)

    for words in (["list"], WHY, [*WHY, "a <job>"], [*WHY, JOB[:4]]):
        assert main(words) == 0
        assert "a <job>" in capsys.readouterr().out


@pytest.mark.slow
def test_requests_for_an_ended_job_are_sent_to_its_former_address(
    capsys: pytest.CaptureFixture[str], served: Served, add_running_job: Callable[..., None]
) -> None:
    add_running_job("its successor", served.server.address, JobId("c" * 32))

    assert main([*WHY, "a <job>"]) == 0
    assert "a <job>" in capsys.readouterr().out


def test_the_token_of_a_local_job_is_printed(
    capsys: pytest.CaptureFixture[str], served: Served, add_running_job: Callable[..., None]
) -> None:
    add_running_job("a <job>", served.server.address, token=served.server.token)
    localhost = served.server.address.replace("127.0.0.1", "localhost")

    for words in (["token"], ["token", "a <job>"], ["token", "-m", localhost]):
        assert main(words) == 0
        assert capsys.readouterr().out == f"{served.server.token}\n"


def test_a_server_without_a_token_prints_an_error(
    capsys: pytest.CaptureFixture[str], serve: Serve, add_running_job: Callable[..., None]
) -> None:
    address = serve(RestSettings(no_token=True)).server.address
    add_running_job("a <job>", address)

    assert main(["token"]) == 1
    assert f"flykka token: no token is known for {address}: it needs none" in capsys.readouterr().err
    assert main(["cancel"]) == 0


def test_an_ambiguous_target_is_refused_without_a_request(
    capsys: pytest.CaptureFixture[str], add_running_job: Callable[..., None]
) -> None:
    assert main(["why"]) == 1
    assert "flykka why: no job of yours is running on this machine" in capsys.readouterr().err
    assert main(["list"]) == 1
    assert "flykka list: no job of yours is running on this machine" in capsys.readouterr().err

    add_running_job("prices", None)
    assert main(["why"]) == 1
    assert f"'prices' {JOB} (process 7) has no REST interface: " in capsys.readouterr().err

    add_running_job("orders", "http://127.0.0.1:1", JobId("c" * 32))
    assert main(["stop"]) == 1
    assert "there are 2 jobs, so one must be specified: 'prices'" in capsys.readouterr().err

    add_running_job("clicks", "http://127.0.0.1:2", JobId("d" * 32))
    assert main(["cancel"]) == 1
    assert "there are 3 jobs, so one must be specified: 'prices'" in capsys.readouterr().err


def test_the_timeout_of_each_actor_must_be_a_duration(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["why", "--timeout", "soon"])
    assert "time for an answer" in capsys.readouterr().err


@pytest.mark.slow
def test_a_job_manager_that_does_not_reply_is_reported(
    capsys: pytest.CaptureFixture[str],
    served: Served,
    add_running_job: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*asked: object) -> None:
        raise AskTimeoutError("it is stuck")

    add_running_job("a <job>", served.server.address, token=served.server.token)
    monkeypatch.setattr(JobManagerGateway, "ask", late)

    assert main(["cancel"]) == 1
    assert "the JobManager does not answer: it is stuck" in capsys.readouterr().err
    assert main(["why"]) == 0
    assert f"'a <job>' {JOB} RUNNING" in capsys.readouterr().out
