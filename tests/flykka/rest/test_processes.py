"""The process over HTTP: its metrics, threads and logs, and the parts that belong to each TaskManager."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.messages.monitoring.explanation import TaskManagerInfo
from flykka.messages.monitoring.job_details import AttemptDetails, SubtaskDetails
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.ids import TaskManagerId
from flykka.rest.responses.metrics import task_manager_metrics
from tests.flykka.rest.conftest import JOB_PATH, Served

pytestmark = pytest.mark.slow


def ids(response: list[dict[str, str]]) -> set[str]:
    return {each["id"] for each in response}


def test_the_process_has_metrics_under_names_of_flykka(served: Served) -> None:
    listed = ids(served.http.get("/jobmanager/metrics").json())
    wanted = "Status.Python.Threads.Count,Status.JVM.Memory.Heap.Used,Status.Python.Memory.Resident.Max"
    answer = {each["id"]: each["value"] for each in served.http.get(f"/v1/jobmanager/metrics?get={wanted}").json()}

    assert {"Status.Python.CPU.Time", "Status.Python.GarbageCollector.Generation2.Count"} <= listed
    # A cluster with a silent data plane has no JVM.
    assert answer.keys() == {"Status.Python.Threads.Count", "Status.Python.Memory.Resident.Max"}
    assert int(answer["Status.Python.Threads.Count"]) > 1
    assert int(answer["Status.Python.Memory.Resident.Max"]) > 1_000_000


def test_a_task_manager_reports_its_slots_tasks_and_buffers(served: Served) -> None:
    wanted = "taskSlotsTotal,taskSlotsAvailable,numRunningTasks,Status.Shuffle.Netty.UsedMemorySegments"
    each = {
        name: {
            one["id"]: int(one["value"]) for one in served.http.get(f"/taskmanagers/{name}/metrics?get={wanted}").json()
        }
        for name in ("task-manager-1", "task-manager-2")
    }
    (tasks,) = served.http.get("/taskmanagers/metrics?get=numRunningTasks&agg=sum,max").json()
    (some,) = served.http.get("/taskmanagers/metrics?get=taskSlotsTotal&agg=sum&taskmanagers=task-manager-2").json()

    assert sum(one["numRunningTasks"] for one in each.values()) == tasks["sum"] == 3
    assert tasks["max"] == max(one["numRunningTasks"] for one in each.values())
    assert some == {"id": "taskSlotsTotal", "sum": 2}
    assert "numRunningTasks" in ids(served.http.get("/taskmanagers/metrics").json())
    assert served.http.get("/taskmanagers/metrics?get=a&taskmanagers=nobody").status_code == 404
    assert served.http.get("/taskmanagers/nobody/metrics").status_code == 404


def test_network_buffers_are_counted_if_they_are_limited() -> None:
    own = TaskManagerInfo(task_manager=TaskManagerId("tm"), slots=2, free=1)
    metrics = TaskIOMetrics(input_queue_length=3, output_queue_length=2)
    attempt = AttemptDetails(attempt=None, attempt_number=0, state=ExecutionState.RUNNING, metrics=metrics)
    running = [SubtaskDetails(subtask=0, current=attempt)]

    limited = task_manager_metrics(own, NetworkSettings(network_buffers=8, network_memory_bytes=800), running)
    without = task_manager_metrics(own, NetworkSettings(), running)

    assert limited["Status.Shuffle.Netty.AvailableMemorySegments"] == 3
    assert limited["Status.Shuffle.Netty.TotalMemory"] == 800
    assert without.keys() == {
        "taskSlotsTotal",
        "taskSlotsAvailable",
        "numRunningTasks",
        "Status.Shuffle.Netty.UsedMemorySegments",
    }


@pytest.fixture
def working_thread(served: Served) -> Iterator[str]:
    """A thread that works for an attempt of the job, named as by a data plane. Yields the attempt's TaskManager."""
    (subtask,) = served.gateway.vertex(
        served.job.job_id, served.gateway.graph(served.job.job_id).vertices[0].vertex_id
    )[1]
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name=f"{subtask.current.attempt} stages", daemon=True)
    thread.start()
    assert subtask.current.task_manager is not None
    yield subtask.current.task_manager
    ended.set()
    thread.join()


def test_thread_dumps_of_task_managers_contain_the_threads_of_their_attempts(
    served: Served, working_thread: str
) -> None:
    def dumped(path: str) -> list[str]:
        return [each["threadName"] for each in served.http.get(f"{path}/thread-dump").json()["threadInfos"]]

    other = {"task-manager-1": "task-manager-2", "task-manager-2": "task-manager-1"}[working_thread]
    (of_attempt,) = dumped(f"/taskmanagers/{working_thread}")

    assert of_attempt.endswith(" stages")
    assert dumped(f"/taskmanagers/{other}") == []
    assert {"MainThread", "flykka-rest", of_attempt} <= set(dumped("/jobmanager"))
    assert served.http.get("/taskmanagers/nobody/thread-dump").status_code == 404


@pytest.mark.slow
def test_a_requested_flame_graph_contains_the_threads_of_the_vertex(served: Served, working_thread: str) -> None:
    path = f"{JOB_PATH}/vertices/source/flamegraph"
    first = served.http.get(path).json()
    while "data" not in (response := served.http.get(f"{path}?type=off_cpu&subtaskindex=0").json()):
        assert response == first == {"endTimestamp": -3}

    names = set()
    nodes = [response["data"]]
    while nodes:
        node = nodes.pop()
        names.add(node["name"].rpartition(":")[0] or node["name"])
        nodes += node["children"]
    assert {"root", "threading.wait", "threading._bootstrap"} <= names
    assert served.http.get(f"{path}?type=half").status_code == 400
    assert served.http.get(f"{path}?subtaskindex=1").status_code == 404
    assert served.http.get(f"{JOB_PATH}/vertices/nothing/flamegraph").status_code == 404


def test_job_manager_and_task_managers_serve_the_log_of_the_process(served: Served) -> None:
    logging.getLogger("flykka.tests").warning("something is odd")

    for one in ("/jobmanager", "/taskmanagers/task-manager-1"):
        log = served.http.get(f"{one}/log")
        (listed, *_) = served.http.get(f"/v1{one}/logs").json()["logs"]
        assert log.headers["content-type"] == "text/plain; charset=UTF-8"
        assert log.text.endswith("flykka.tests: something is odd\n")
        assert (listed["name"], listed["size"]) == ("flykka.log", len(log.text))
        assert served.http.get(f"{one}/logs/flykka.log").text == log.text
    for path in ("log", "logs", "stdout", "logs/flykka.log"):
        assert served.http.get(f"/taskmanagers/nobody/{path}").status_code == 404


def test_only_files_written_by_log_handlers_can_be_read(served: Served, tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "app.log")
    logger = logging.getLogger("tests.flykka.rest.processes")
    logger.addHandler(handler)
    try:
        logger.warning("written")
        response = served.http.get("/jobmanager/logs/app.log")
    finally:
        logger.removeHandler(handler)
        handler.close()

    assert response.text == "written\n"
    for name in ("app.log", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "nothing"):
        assert served.http.get(f"/jobmanager/logs/{name}").status_code == 404


def test_stdout_is_served_only_if_it_is_redirected_to_a_file(served: Served, tmp_path: Path) -> None:
    before = os.dup(1)
    try:
        with (tmp_path / "out").open("wb") as file:
            os.dup2(file.fileno(), 1)
        os.write(1, b"hello\n")
        response = served.http.get("/jobmanager/stdout")
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        of_a_pipe = served.http.get("/taskmanagers/task-manager-1/stdout")
    finally:
        os.dup2(before, 1)
        for each in (before, reading, writing):
            os.close(each)

    assert response.text == "hello\n"
    assert (of_a_pipe.status_code, of_a_pipe.json()["errors"]) == (404, ["File not found."])
