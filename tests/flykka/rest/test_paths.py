"""Every path that Flink's dashboard uses exists with its fields, with and without the version prefix."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flykka.errors import JobExecutionError
from flykka.messages.monitoring.job_details import AttemptDetails, SubtaskDetails
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType, HistogramCount
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import OperatorId
from flykka.rest.responses.metrics import aggregates, values
from tests.flykka.rest.conftest import JOB, JOB_PATH, Served

pytestmark = pytest.mark.slow

PATHS = {
    "/config": {"refresh-interval", "timezone-name", "timezone-offset", "flink-version", "flink-revision", "features"},
    "/overview": {"taskmanagers", "slots-total", "slots-available", "jobs-running", "jobs-finished", "flink-version"},
    "/applications/overview": {"applications"},
    "/jobs": {"jobs"},
    "/jobs/overview": {"jobs"},
    JOB_PATH: {
        "jid",
        "name",
        "state",
        "timestamps",
        "vertices",
        "status-counts",
        "plan",
        "stream-graph",
        "now",
        "schedulerType",
    },
    f"{JOB_PATH}/status": {"status"},
    f"{JOB_PATH}/plan": {"plan"},
    f"{JOB_PATH}/config": {"jid", "name", "execution-config"},
    f"{JOB_PATH}/exceptions": {"exceptionHistory"},
    f"{JOB_PATH}/diagnosis?timeout=500": {"answer", "facts", "attempts", "leftOut"},
    f"{JOB_PATH}/accumulators": {"user-task-accumulators"},
    f"{JOB_PATH}/checkpoints": {"counts", "summary", "latest", "history"},
    f"{JOB_PATH}/checkpoints/config": {"mode", "interval", "timeout", "externalization", "state_backend"},
    f"{JOB_PATH}/vertices/sink": {"id", "name", "parallelism", "maxParallelism", "now", "subtasks", "aggregated"},
    f"{JOB_PATH}/vertices/sink/taskmanagers": {"id", "name", "now", "taskmanagers"},
    f"{JOB_PATH}/vertices/sink/subtasktimes": {"id", "name", "now", "subtasks"},
    f"{JOB_PATH}/vertices/sink/backpressure": {"status", "backpressureLevel", "end-timestamp", "subtasks"},
    f"{JOB_PATH}/vertices/sink/accumulators": {"id", "user-accumulators"},
    f"{JOB_PATH}/vertices/sink/subtasks/accumulators": {"id", "parallelism", "subtasks"},
    "/taskmanagers": {"taskmanagers"},
    "/taskmanagers/task-manager-1": {"id", "slotsNumber", "freeSlots", "hardware", "metrics", "allocatedSlots"},
    "/jobmanager/environment": {"jvm", "classpath"},
    "/jobmanager/logs": {"logs"},
    "/jobmanager/thread-dump": {"threadInfos"},
    "/taskmanagers/task-manager-1/logs": {"logs"},
    "/taskmanagers/task-manager-1/thread-dump": {"threadInfos"},
    f"{JOB_PATH}/jobmanager/environment": {"jvm", "classpath"},
    f"{JOB_PATH}/vertices/sink/flamegraph": {"endTimestamp"},
    f"{JOB_PATH}/vertices/sink/subtasks/0": {"subtask", "status", "attempt", "endpoint", "metrics"},
    f"{JOB_PATH}/vertices/sink/subtasks/0/attempts/0/accumulators": {"subtask", "attempt", "id", "user-accumulators"},
    "/recorder": {"kind", "records", "limit", "notKept", "begins", "ends"},
}
LISTS = [
    f"{JOB_PATH}/vertices/sink/watermarks",
    f"{JOB_PATH}/vertices/sink/metrics",
    f"{JOB_PATH}/vertices/sink/subtasks/metrics",
    "/taskmanagers/task-manager-1/metrics",
    "/jobmanager/config",
    "/jobmanager/metrics",
    "/jobs/metrics",
    f"{JOB_PATH}/metrics",
    f"{JOB_PATH}/jobmanager/config",
    "/taskmanagers/metrics",
]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["", pytest.param("/v1", marks=pytest.mark.long)])
def test_each_path_has_the_fields_that_the_dashboard_reads(served: Served, version: str) -> None:
    for path, fields in PATHS.items():
        answer = served.http.get(version + path)

        assert (path, answer.status_code) == (path, 200)
        assert answer.headers["content-type"] == "application/json; charset=UTF-8"
        assert fields <= answer.json().keys(), path
    for path in LISTS:
        assert isinstance(served.http.get(version + path).json(), list), path


def test_unknown_paths_are_404_in_flinks_format(served: Served) -> None:
    def error(path: str) -> tuple[int, list[str]]:
        answer = served.http.get(path)
        return answer.status_code, answer.json()["errors"]

    other = "f" * 32
    assert error("/nowhere") == (404, [])
    assert error("/jobmanager/logs/nothing") == (404, ["File not found."])
    assert error(f"/jobs/{other}") == (404, [f"Job {other} not found"])
    assert error("/jobs/zz")[0] == 400
    assert error(f"{JOB_PATH}/vertices/nothing") == (404, [f"job {JOB} has no vertex nothing"])
    assert error(f"{JOB_PATH}/checkpoints/details/7") == (404, [f"checkpoint 7 of job {JOB} is not in the history"])
    assert error("/taskmanagers/task-manager-9") == (404, ["there is no TaskManager 'task-manager-9'"])
    assert error(f"{JOB_PATH}/vertices/sink/subtasks/metrics?get=numRecordsIn&agg=mode")[0] == 400


def test_job_details_contain_its_plan_and_its_tasks(served: Served) -> None:
    details = served.http.get(JOB_PATH).json()
    (listed,) = served.http.get("/jobs/overview").json()["jobs"]

    assert details["plan"]["jid"] == listed["jid"] == JOB
    assert [node["id"] for node in details["plan"]["nodes"]] == ["sink", "source"]
    assert details["plan"]["nodes"][0]["inputs"] == [
        {"num": 0, "id": "source", "ship_strategy": "REBALANCE", "exchange": "pipelined_bounded"}
    ]
    assert listed["tasks"]["total"] == 3
    assert listed["end-time"] == -1
    assert (listed["name"], listed["jobType"]) == ("a <job>", "STREAMING")


@pytest.mark.slow
def test_a_diagnosis_has_its_text_in_parts_with_their_vertices(served: Served) -> None:
    text = served.http.get(f"{JOB_PATH}/why?timeout=500").text
    answer = served.http.get(f"{JOB_PATH}/diagnosis?timeout=500").json()

    # The durations in the two texts differ.
    assert text.partition(" for ")[0] == answer["answer"].partition(" for ")[0]
    assert [label for label, _ in answer["facts"]][:2] == ["job", "tasks"]
    assert [(each["name"], each["vertex"]) for each in answer["attempts"]] == [
        ("source (1/1)", "source"),
        ("sink (1/2)", "sink"),
        ("sink (2/2)", "sink"),
    ]
    assert served.http.get(f"{JOB_PATH}/diagnosis?timeout=soon").status_code == 400


def test_a_task_manager_lists_its_tasks_without_its_slots(served: Served) -> None:
    subtasks = [
        subtask
        for vertex in ("source", "sink")
        for subtask in served.http.get(f"{JOB_PATH}/vertices/{vertex}").json()["subtasks"]
    ]
    listed = served.http.get("/taskmanagers").json()["taskmanagers"]

    assert {each["id"]: each["assignedTasks"] for each in listed} == {
        each["id"]: sum(subtask["taskmanager-id"] == each["id"] for subtask in subtasks) for each in listed
    }
    assert sum(each["assignedTasks"] for each in listed) == 3
    for each in listed:
        assert served.http.get(f"/taskmanagers/{each['id']}").json()["assignedTasks"] == each["assignedTasks"]


def test_metrics_of_subtasks_are_values_or_aggregates(served: Served) -> None:
    metrics = f"{JOB_PATH}/vertices/sink"

    each = served.http.get(f"{metrics}/metrics?get=1.numRecordsIn,0.nothing,7.numRecordsIn").json()
    (over,) = served.http.get(f"{metrics}/subtasks/metrics?get=numRecordsIn&agg=min,sum&subtasks=0-1").json()

    assert each == [{"id": "1.numRecordsIn", "value": "0"}]
    assert over == {"id": "numRecordsIn", "min": 0, "sum": 0}


def test_a_subtask_lists_its_metrics_and_returns_the_requested_ones(served: Served) -> None:
    metrics = f"{JOB_PATH}/vertices/sink/subtasks"

    listed = served.http.get(f"{metrics}/1/metrics").json()
    answer = served.http.get(f"{metrics}/1/metrics?get=numRecordsIn,nothing").json()

    assert {"id": "busyTimeMsPerSecond"} in listed
    assert answer == [{"id": "numRecordsIn", "value": "0"}]
    assert served.http.get(f"{metrics}/2/metrics").json() == {"errors": ["vertex sink has no subtask 2"]}


def test_user_metrics_are_prefixed_with_their_operator() -> None:
    counted = AccumulatorSnapshot(
        name="parse: it.bytes",
        type=AccumulatorType.HISTOGRAM,
        counts=(HistogramCount(number=7, count=2),),
        operator_id=OperatorId("o"),
        operator_name="parse: it",
    )
    attempt = AttemptDetails(attempt=None, attempt_number=0, state=ExecutionState.RUNNING)
    subtasks = [SubtaskDetails(subtask=n, current=attempt, accumulators=(counted,) * n) for n in (0, 1)]

    listed = [each["id"] for each in values(subtasks, None)]
    (over,) = aggregates(subtasks, "parse__it.bytes_p99", "min,sum", None)

    assert "1.parse__it.bytes_stddev" in listed
    assert "0.parse__it.bytes_stddev" not in listed
    assert values(subtasks, "1.parse__it.bytes_count,0.parse__it.bytes_count") == [
        {"id": "1.parse__it.bytes_count", "value": "2"}
    ]
    assert over == {"id": "parse__it.bytes_p99", "min": 7, "sum": 7}


@pytest.mark.parametrize("metric", ['hits, 100% "q"', "gr+oup [1].n", "a b:c", "größe🐟\nx", ","])
def test_a_metric_can_be_requested_by_every_listed_name(metric: str) -> None:
    counted = AccumulatorSnapshot(
        name=f"all, rows.{metric}",
        type=AccumulatorType.INT_COUNTER,
        count=3,
        operator_id=OperatorId("o"),
        operator_name="all, rows",
    )
    attempt = AttemptDetails(attempt=None, attempt_number=0, state=ExecutionState.RUNNING)
    subtasks = [SubtaskDetails(subtask=0, current=attempt, accumulators=(counted,))]

    (name,) = [each["id"] for each in values(subtasks, None) if each["id"].startswith("0.all__rows")]

    assert values(subtasks, f"0.numRecordsIn,{name}")[1:] == [{"id": name, "value": "3"}]


def test_unchanged_responses_are_not_sent_again(served: Served) -> None:
    first = served.http.get("/jobmanager/environment")

    again = served.http.get("/jobmanager/environment", headers={"If-None-Match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("path", "name", "length"),
    [
        ("/jobs", "jobs", 1),
        ("/jobs/overview", "jobs", 1),
        ("/taskmanagers", "taskmanagers", 2),
        (f"{JOB_PATH}/vertices/sink", "subtasks", 2),
        (f"{JOB_PATH}/vertices/sink/subtasktimes", "subtasks", 2),
        (f"{JOB_PATH}/vertices/sink/backpressure", "subtasks", 2),
        (f"{JOB_PATH}/vertices/sink/subtasks/accumulators", "subtasks", 2),
    ],
)
def test_a_part_of_a_long_list_can_be_requested(served: Served, path: str, name: str, length: int) -> None:
    whole = served.http.get(path).json()
    first, rest, beyond = (
        served.http.get(path, params=params).json()
        for params in ({"limit": 1}, {"offset": 1}, {"offset": 7, "limit": 3})
    )

    assert "total" not in whole
    assert [len(each[name]) for each in (whole, first, rest, beyond)] == [length, 1, length - 1, 0]
    assert {first["total"], rest["total"], beyond["total"]} == {length}
    assert served.http.get(path, params={"limit": "-1"}).status_code == 400


def test_a_cancelled_job_stays_visible(served: Served) -> None:
    answer = served.http.patch(f"/v1{JOB_PATH}?mode=cancel")

    assert (answer.status_code, answer.json()) == (202, {})
    deadline = time.monotonic() + 20
    while served.http.get(f"{JOB_PATH}/status").json()["status"] not in ("CANCELED", "CANCELLING"):
        assert time.monotonic() < deadline


def test_a_job_is_not_stopped_by_get_or_an_unknown_mode(served: Served) -> None:
    for answer in (
        served.http.get(f"{JOB_PATH}/yarn-stop"),
        served.http.get(f"{JOB_PATH}/yarn-cancel?mode=stop"),
        served.http.patch(f"{JOB_PATH}?mode=stop"),
    ):
        assert answer.status_code == 308
        assert 'POST "jobs/:jobid/stop"' in answer.json()["errors"][0]
    assert served.http.patch(f"{JOB_PATH}?mode=end").status_code == 400
    assert served.http.get(f"{JOB_PATH}/status").json()["status"] in ("CREATED", "RUNNING")


def test_a_cluster_shutdown_notifies_the_clients_of_its_jobs(served: Served) -> None:
    answer = served.http.delete("/v1/cluster")

    assert (answer.status_code, answer.json()) == (200, {})
    with pytest.raises(JobExecutionError, match="its cluster was shut down"):
        served.job.wait(timeout=30)


@pytest.mark.parametrize("path", ["savepoints", "stop"])
def test_a_savepoint_of_another_format_is_refused(served: Served, path: str) -> None:
    refused = served.http.post(f"{JOB_PATH}/{path}", json={"formatType": "OTHER"})
    taken_on = served.http.post(
        f"{JOB_PATH}/{path}", json={"formatType": "NATIVE", "targetDirectory": "/a", "target-directory": "/a"}
    )

    assert refused.json() == {"errors": ["there is no format of savepoints 'OTHER': there are CANONICAL, NATIVE"]}
    assert (refused.status_code, taken_on.status_code) == (400, 202)


def test_a_savepoint_without_a_directory_is_refused(served: Served) -> None:
    answer = served.http.post(f"{JOB_PATH}/savepoints", json={})

    assert answer.status_code == 400
    assert "No savepoint directory configured" in answer.json()["errors"][0]


def test_a_failed_checkpoint_request_completes_with_its_cause(served: Served) -> None:
    path = f"{JOB_PATH}/checkpoints"
    refused = served.http.post(path, json={"checkpointType": "BIG"})
    begun = served.http.post(path, json={"checkpointType": "FULL"})
    deadline = time.monotonic() + 20
    while (found := served.http.get(f"{path}/{begun.json()['request-id']}").json())["status"]["id"] != "COMPLETED":
        assert time.monotonic() < deadline

    assert (refused.status_code, begun.status_code) == (400, 202)
    assert refused.json()["errors"] == ["unknown checkpoint type 'BIG': use one of CONFIGURED, FULL, INCREMENTAL"]
    assert "not all required tasks are currently running" in found["operation"]["failureCause"]["stack-trace"]
    assert served.http.post("/jobs/" + "f" * 32 + "/checkpoints").status_code == 404


def test_a_failed_operation_completes_with_its_cause(served: Served, tmp_path: Path) -> None:
    trigger, file = "ab" * 16, tmp_path / "file"
    file.touch()
    body = {"targetDirectory": str(file), "triggerId": trigger}
    for _ in range(2):
        answer = served.http.post(f"{JOB_PATH}/stop", json=body)
        assert (answer.status_code, answer.json()) == (202, {"request-id": trigger})
    deadline = time.monotonic() + 20
    while (found := served.http.get(f"{JOB_PATH}/savepoints/{trigger}").json())["status"]["id"] != "COMPLETED":
        assert time.monotonic() < deadline

    assert "cannot be" in found["operation"]["failure-cause"]["stack-trace"]
    assert served.http.get(f"{JOB_PATH}/savepoints/{'cd' * 16}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "/data/savepoint-0123/../../etc", "savepoint"])
def test_only_savepoints_can_be_disposed(served: Served, path: str) -> None:
    request = served.http.post("/savepoint-disposal", json={"savepoint-path": path}).json()["request-id"]
    deadline = time.monotonic() + 20
    while (found := served.http.get(f"/savepoint-disposal/{request}").json())["status"]["id"] != "COMPLETED":
        assert time.monotonic() < deadline

    assert found["operation"]["failure-cause"]["class"] == "RestError"


def test_the_openapi_description_lists_every_path(served: Served) -> None:
    described = served.http.get("/openapi.json").json()

    assert described["openapi"].startswith("3.1")
    assert "/jobs/{jobid}/checkpoints/details/{checkpointid}" in described["paths"]
    assert set(described["paths"]["/jobs/{jobid}"]) == {"get", "patch"}
