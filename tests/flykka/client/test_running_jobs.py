"""Jobs of other processes are found by their files, in a private folder; files of ended processes are deleted."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.client.running_jobs import FOLDER_VARIABLE, RunningJob, RunningJobFile, running_jobs, token_for
from flykka.messages.wire.ids import JobId

HOLDER = """
import json, os, sys
from flykka.client.running_jobs import RunningJob, RunningJobFile
file = RunningJobFile(RunningJob(job_id="b" * 32, name="orders", process=os.getpid(), address="http://127.0.0.1:1"))
print("there", flush=True)
sys.stdin.readline()
"""
"""A process that runs a job until its parent sends a line or kills it."""


@pytest.fixture(autouse=True)
def jobs_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "jobs"))
    return tmp_path / "jobs"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield process
        process.kill()


def prices(process: int = 7) -> RunningJob:
    return RunningJob(job_id=JobId("a" * 32), name="prices", process=process)


def test_a_job_is_found_until_its_file_is_removed(jobs_folder: Path) -> None:
    file = RunningJobFile(prices())
    assert running_jobs() == (prices(),)

    file.remove()
    file.remove()

    assert running_jobs() == ()
    assert list(jobs_folder.iterdir()) == []


def test_the_token_of_a_job_is_readable_by_its_user_only(jobs_folder: Path) -> None:
    job = replace(prices(), address="http://127.0.0.1:8081", token="of prices")
    file = RunningJobFile(job)

    assert running_jobs() == (job,)
    assert "of prices" not in repr(job)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (jobs_folder, *jobs_folder.iterdir())] == [0o700, 0o600]
    for address in ("http://127.0.0.1:8081", "http://localhost:8081/", "http://127.0.0.1:8081/v1"):
        assert token_for(address) == "of prices"
    for address in ("http://127.0.0.1:8082", "https://127.0.0.1:8081", "http://db1:8081"):
        assert token_for(address) is None
    file.remove()
    assert token_for("http://127.0.0.1:8081") is None


def test_one_job_may_run_in_two_processes() -> None:
    files = [RunningJobFile(prices(process)) for process in (8, 7)]

    assert running_jobs() == (prices(7), prices(8))
    for file in files:
        file.remove()


def test_a_job_of_another_process_is_found_until_that_process_is_killed(
    other: subprocess.Popen[str], jobs_folder: Path
) -> None:
    address = "http://127.0.0.1:1"
    theirs = RunningJob(job_id=JobId("b" * 32), name="orders", process=other.pid, address=address)
    assert running_jobs() == (theirs,)

    other.kill()
    other.wait(60)

    assert running_jobs() == ()
    assert list(jobs_folder.iterdir()) == []


def test_two_concurrent_processes_do_not_find_an_ended_job(
    other: subprocess.Popen[str], jobs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.kill()
    other.wait(60)
    found: list[RunningJob] = []
    unlink = Path.unlink

    def look_before(path: Path, missing_ok: bool = False) -> None:
        monkeypatch.setattr(Path, "unlink", unlink)
        found.extend(running_jobs())
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", look_before)

    assert running_jobs() == ()
    assert found == []
    assert list(jobs_folder.iterdir()) == []


def test_the_folder_is_private(jobs_folder: Path) -> None:
    RunningJobFile(prices()).remove()

    assert jobs_folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_readable_by_others_is_not_used_and_logged(
    jobs_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jobs_folder.mkdir(mode=0o755)
    jobs_folder.chmod(0o755)
    caplog.set_level("INFO", "flykka")

    RunningJobFile(prices()).remove()

    assert running_jobs() == ()
    assert list(jobs_folder.iterdir()) == []
    assert f"other processes will not find job 'prices': {jobs_folder} is not accessible to you alone" in caplog.text
    assert "which jobs run in other processes is not known" in caplog.text
