"""`flykka why` finds the jobs of other processes by their sockets: in a private folder, stale ones cleaned away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from flykka.cli.main import main
from flykka.cluster.local_cluster import ClusterSettings, LocalCluster
from flykka.diagnosis.sockets import FOLDER_VARIABLE, Process, ask_all, listening_socket, receive, send
from flykka.messages.graph.job_graph import CheckpointingSettings
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.cluster.test_local_cluster import SilentDataPlane

pytestmark = pytest.mark.slow

Begin = Callable[..., int]

JOB_PROCESS = """
import sys, threading
from dataclasses import replace
from flykka.cluster.local_cluster import ClusterSettings, LocalCluster
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.tasks.task import ExecutionState
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.cluster.test_local_cluster import SilentDataPlane

names = sys.argv[2:]
deployed = threading.Semaphore(0)

def hear(message):
    if isinstance(message, ExecutionStateChanged) and message.state is ExecutionState.DEPLOYING:
        deployed.release()

with LocalCluster(SilentDataPlane(), ClusterSettings(slots_per_task_manager=8)) as cluster:
    for name in names:
        graph = replace(graph_of(vertex("source", 1)), name=name, job_id=name,
                        checkpointing=CheckpointingSettings(directory=sys.argv[1]))
        cluster.submit(graph).add_listener(hear)
        if not deployed.acquire(timeout=60):
            sys.exit(f"the task of job {name!r} was never deployed")
    print("there", flush=True)
    sys.stdin.readline()
"""
"""Jobs whose bridges never answer, until a line comes from the process that began it."""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # The path of a socket must be short.
    with TemporaryDirectory(prefix="why-") as name:
        monkeypatch.setenv(FOLDER_VARIABLE, str(Path(name, "sockets")))
        yield Path(name, "sockets")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Begin]:
    """Starts a process that runs jobs of these names; returns its id."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*names: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", JOB_PROCESS, str(tmp_path), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        return process.pid

    yield begin
    for process in processes:
        process.communicate("\n", timeout=60)


def test_the_job_that_runs_in_another_process_is_explained(run: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    run("prices")

    assert main(["why"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("source (1/1) is made ready for ")
    assert any(line.startswith("job          'prices' prices RUNNING") for line in told)


def test_of_several_jobs_one_has_to_be_named(run: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run("prices", "orders"), run("clicks")

    assert main(["why"]) == 1
    listed = capsys.readouterr()
    assert [line.split()[0] for line in listed.out.splitlines()] in (
        ["'orders'", "'prices'", "'clicks'"],
        ["'clicks'", "'orders'", "'prices'"],
    )
    assert f"(process {first})" in listed.out
    assert f"(process {second})" in listed.out
    assert "there are 3 jobs; name one" in listed.err

    assert main(["why", "orders"]) == 0
    assert "'orders' orders RUNNING" in capsys.readouterr().out


def test_a_job_that_is_not_there_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why"]) == 1
    assert "no job runs here, in no process of yours" in capsys.readouterr().err


def test_a_socket_that_nobody_listens_at_is_cleaned_away(folder: Path) -> None:
    listening, path = listening_socket()
    listening.close()
    assert path.exists()

    assert list(ask_all({}, 5)) == []
    assert not path.exists()


def test_a_process_that_takes_the_question_and_says_nothing_is_told_as_silent(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listening, _ = listening_socket()
    with listening:
        assert list(ask_all({}, 0.2)) == [Process(pid=os.getpid(), answer={}, silent=True)]


def test_the_folder_is_private(folder: Path) -> None:
    listening_socket()[0].close()

    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_look_into_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)

    assert main(["why"]) == 2
    assert "is not a folder of yours alone" in capsys.readouterr().err


def test_what_is_said_arrives_whole() -> None:
    here, there = socket.socketpair()
    said = {"text": "ü" * 200_000}
    with here, there:
        speaker = threading.Thread(target=send, args=(here, said))
        speaker.start()
        assert receive(there) == said
        speaker.join()


def test_nobody_is_received_any_more_when_the_last_cluster_has_ended(folder: Path, tmp_path: Path) -> None:
    graph = replace(graph_of(vertex("source", 1)), checkpointing=CheckpointingSettings(directory=str(tmp_path)))
    with LocalCluster(SilentDataPlane(), ClusterSettings(slots_per_task_manager=8)) as cluster:
        cluster.submit(graph).wait_submitted(60)
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "flykka-why")
        (there,) = folder.iterdir()

    thread.join(60)
    assert not thread.is_alive()
    assert not there.exists()
