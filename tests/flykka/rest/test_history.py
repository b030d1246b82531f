"""Ended jobs are served from their archives like running jobs, but without commands."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, RestartStrategies, StreamExecutionEnvironment
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.cli.main import main
from flykka.errors import ClusterError, JobExecutionError
from flykka.messages.monitoring.job_details import ProcessEnvironment
from flykka.rest.handlers.log_urls import LogUrls
from flykka.rest.history_gateway import REFRESH_SECONDS, HistoryGateway
from flykka.rest.server import RestServer
from flykka.rest.settings import RestSettings
from tests.actors.test_archives import ended_job
from tests.integration.test_continuing import wait_checkpoint

pytestmark = pytest.mark.slow

FIRST, SECOND = "0" * 32, "f" * 32
REFUSAL = "have ended: commands to them are refused"


@pytest.fixture
def archive_folder(tmp_path: Path) -> Path:
    archive_job(tmp_path / "c" / "archives", FIRST, ended_ms=1_000)
    return tmp_path / "c"


def archive_job(folder: Path, job_id: str, *, ended_ms: int) -> None:
    ended = ended_job(job_id)
    ended = replace(ended, overview=replace(ended.overview, ended_ms=ended_ms))
    CheckpointStorage(str(folder)).write_archive(ended)


Serve = Callable[[Path], httpx.Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[tuple[RestServer, httpx.Client]] = []

    def begin(folder: Path) -> httpx.Client:
        server = RestServer(RestSettings())
        server.start_history(HistoryGateway(str(folder), lambda: 5_000))
        made.append((server, httpx.Client(base_url=server.address, timeout=20)))
        return made[-1][1]

    yield begin
    for server, http in made:
        http.close()
        server.close()


def test_jobs_are_listed_by_end_time_including_new_archives(archive_folder: Path) -> None:
    seconds = [0.0]
    history = HistoryGateway(str(archive_folder), lambda: 0, lambda: seconds[0])
    first = [job.job_id for job in history.jobs()]
    archive_job(archive_folder, SECOND, ended_ms=500)

    seconds[0] = REFRESH_SECONDS - 1
    too_soon = [job.job_id for job in history.jobs()]
    seconds[0] = REFRESH_SECONDS
    later = [job.job_id for job in history.jobs()]
    (archive_folder / "archives" / f"{FIRST}.archive").unlink()
    seconds[0] = 2 * REFRESH_SECONDS
    at_last = [job.job_id for job in history.jobs()]

    assert (first, too_soon, later, at_last) == ([FIRST], [FIRST], [SECOND, FIRST], [SECOND])


def test_a_job_with_several_archives_is_listed_once(archive_folder: Path) -> None:
    archive_job(archive_folder / "copy", FIRST, ended_ms=2_000)

    assert [job.ended_ms for job in HistoryGateway(str(archive_folder), lambda: 0).jobs()] == [2_000]


def test_invalid_archives_are_named_once_and_the_others_served(
    archive_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (archive_folder / "broken.archive").write_bytes(b"FLYKKA\r\n")
    (archive_folder / "closed.archive").mkdir()
    (archive_folder / "gone.archive").symlink_to(archive_folder / "nowhere")
    seconds = [0.0]
    history = HistoryGateway(str(archive_folder), lambda: 0, lambda: seconds[0])

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert [job.job_id for job in history.jobs()] == [FIRST]
            seconds[0] += REFRESH_SECONDS

    warnings = sorted(record.getMessage() for record in caplog.records)
    assert warnings == [
        f"an archive is skipped: {archive_folder}/broken.archive: cut off within its header",
        f"an archive is skipped: {archive_folder}/gone.archive: there is no such file",
    ]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=f"there is no folder '{tmp_path}/nowhere'"):
        HistoryGateway(f"{tmp_path}/nowhere", lambda: 0)


def test_commands_to_ended_jobs_are_refused(serve: Serve, archive_folder: Path) -> None:
    http = serve(archive_folder)

    for method, path in (
        ("PATCH", f"/jobs/{FIRST}"),
        ("POST", f"/jobs/{FIRST}/savepoints"),
        ("POST", f"/v1/jobs/{FIRST}/checkpoints"),
        ("POST", "/savepoint-disposal"),
    ):
        answer = http.request(method, path)
        assert (answer.status_code, answer.json()["errors"][0].endswith(REFUSAL)) == (405, True)
    features = http.get("/config").json()["features"]
    assert (features["web-cancel"], features["web-history"]) == (False, True)


def test_paths_without_archived_data_are_not_found(serve: Serve, archive_folder: Path) -> None:
    http = serve(archive_folder)

    for path in (f"/jobs/{SECOND}", f"/jobs/{FIRST}/vertices/other", f"/jobs/{FIRST}/checkpoints/details/9"):
        assert http.get(path).status_code == 404
    assert http.get(f"/jobs/{FIRST}/checkpoints/details/1").json()["status"] == "IN_PROGRESS"
    assert http.get("/overview").json()["jobs-finished"] == 1
    assert http.get("/taskmanagers").json() == {"taskmanagers": []}
    assert "has FINISHED" in http.get(f"/jobs/{FIRST}/why").text


def test_the_page_is_notified_that_it_shows_a_history(serve: Serve, archive_folder: Path) -> None:
    http = serve(archive_folder)

    assert '"historyOf":"' + str(archive_folder) in first_frame(http, "/events")
    assert '"historyOf":"' + str(archive_folder) in first_frame(http, f"/jobs/{FIRST}/events")


def first_frame(http: httpx.Client, path: str) -> str:
    with http.stream("GET", path) as answer:
        return next(answer.iter_lines())


def test_the_settings_and_the_environment_of_a_job_are_served(serve: Serve, archive_folder: Path) -> None:
    ended = ended_job(SECOND)
    noted = ProcessEnvironment(version="Python 3.11", arch="vax")
    CheckpointStorage(str(archive_folder)).write_archive(replace(ended, environment=noted))
    http = serve(archive_folder)

    settings = {each["key"]: each["value"] for each in http.get(f"/jobs/{SECOND}/jobmanager/config").json()}

    assert settings["pipeline.name"] == ended.details.name
    assert http.get(f"/jobs/{SECOND}/jobmanager/environment").json() == {
        "jvm": {"version": "Python 3.11", "arch": "vax", "options": []},
        "classpath": [],
    }
    assert http.get(f"/jobs/{'a' * 32}/jobmanager/environment").status_code == 404


def test_links_to_logs_follow_the_configured_patterns(serve: Serve, archive_folder: Path) -> None:
    http = serve(archive_folder)
    for path in ("jobmanager/log-url", "taskmanagers/task-manager-1/log-url"):
        assert "--log-url" in http.get(f"/jobs/{FIRST}/{path}").json()["errors"][0]

    server = RestServer(RestSettings())
    patterns = LogUrls(job_manager="http://logs/<jobid>", task_manager="https://logs/<tmid>/of/<jobid>")
    server.start_history(HistoryGateway(str(archive_folder), lambda: 5_000), patterns)
    with httpx.Client(base_url=server.address, timeout=20) as client:
        of_driver = client.get(f"/jobs/{FIRST}/jobmanager/log-url").json()
        of_task_manager = client.get(f"/v1/jobs/{FIRST}/taskmanagers/a%20b/log-url").json()
        unknown = client.get(f"/jobs/{SECOND}/jobmanager/log-url")
    server.close()

    assert of_driver == {"url": f"http://logs/{FIRST}"}
    assert of_task_manager == {"url": f"https://logs/a%20b/of/{FIRST}"}
    assert unknown.status_code == 404


def test_an_invalid_command_line_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"flykka history: there is no folder '{tmp_path}/nowhere'\n"

    with pytest.raises(SystemExit, match="2"):
        main(["history", str(tmp_path), "--rest", "0.0.0.0:0"])
    assert "name a file with a token" in capsys.readouterr().err

    with pytest.raises(SystemExit, match="2"):
        main(["history", str(tmp_path), "--log-url", "logs/<jobid>"])
    assert "'logs/<jobid>' is not a pattern of a URL" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("ends_it", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_the_command_serves_until_it_is_ended(archive_folder: Path, ends_it: signal.Signals) -> None:
    command = [sys.executable, "-m", "flykka", "history", str(archive_folder), "--rest", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        address = re.search(r"http://\S+", said)
        assert address is not None
        jobs = httpx.get(f"{address[0]}/jobs").json()
        running.send_signal(ends_it)
        code = running.wait(timeout=30)

    assert said == f"the history of {archive_folder} is at {address[0]} (1 job has ended); Ctrl-C ends this\n"
    assert jobs == {"jobs": [{"id": FIRST, "status": "FINISHED"}]}
    assert code == 0


def fails_at_seven(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] == 7:
        raise ValueError("no seven")
    return row


@pytest.mark.spark
@pytest.mark.slow
def test_history_and_cluster_show_a_failed_job_equally(spark: SparkSession, tmp_path: Path, serve: Serve) -> None:
    spark.range(5).write.json(str(tmp_path / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_rest().enable_checkpointing("500ms").set_checkpoint_dir(tmp_path / "checkpoints")
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, "10ms"))
        source = FileSource.json(tmp_path / "in", schema="id long").monitor_continuously("50ms", until=None)
        numbers = env.from_source(source, uid="numbers").map(fails_at_seven, "id long").uid("checked")
        numbers.sink_to(FileSink.parquet(tmp_path / "out")).uid("out")
        job = env.execute_async("numbers")
        wait_checkpoint(job)
        spark.range(7, 8).write.mode("append").json(str(tmp_path / "in"))
        with pytest.raises(JobExecutionError):
            job.wait(timeout=60)
        assert env.rest_address is not None
        with httpx.Client(base_url=env.rest_address, timeout=20) as http:
            live = answers_about_job(http, job.job_id)

    archived = answers_about_job(serve(tmp_path / "checkpoints"), job.job_id)

    assert archived == live
    assert live["/jobs/overview"]["jobs"][0]["state"] == "FAILED"
    assert job.details.number_of_restarts == 1


def answers_about_job(http: httpx.Client, job_id: str) -> dict[str, Any]:
    """Return all responses about a job, without the fields that change with the clock."""
    job = f"/jobs/{job_id}"
    paths = ["/jobs", "/jobs/overview", job]
    paths += [f"{job}/{name}" for name in ("status", "plan", "config", "exceptions", "accumulators", "checkpoints")]
    paths += [f"{job}/jobmanager/{name}" for name in ("config", "environment")]
    paths.append(f"{job}/checkpoints/config")
    for checkpoint in http.get(f"{job}/checkpoints").json()["history"]:
        paths.append(f"{job}/checkpoints/details/{checkpoint['id']}")
    for vertex in http.get(job).json()["vertices"]:
        one = f"{job}/vertices/{vertex['id']}"
        names = ("taskmanagers", "subtasktimes", "watermarks", "backpressure", "accumulators", "attempts", "metrics")
        paths += [one, *(f"{one}/{name}" for name in names)]
    found = {}
    for path in paths:
        answer = http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        found[path] = answer.json()
        if isinstance(found[path], dict):
            for clock in ("now", "end-timestamp"):
                found[path].pop(clock, None)
    return found
