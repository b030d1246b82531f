"""The application over REST: the program of this process with its jobs, failures and settings, and its cancellation."""

from __future__ import annotations

import time

from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import FailureRateRestartStrategyConfiguration
from flykka.messages.monitoring.exception_history import ExceptionHistoryEntry, RootExceptionHistoryEntry
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.rest.responses.configuration import job_configuration
from flykka.rest.responses.jobs import application_exceptions
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.rest.conftest import JOB, Served


def application_of(served: Served) -> str:
    (only,) = served.http.get("/applications/overview").json()["applications"]
    return f"/applications/{only['id']}"


def test_an_application_lists_its_jobs_and_times(served: Served) -> None:
    (listed,) = served.http.get("/applications/overview").json()["applications"]

    answer = served.http.get(f"/v1/applications/{listed['id']}").json()

    assert [job["jid"] for job in answer["jobs"]] == [JOB]
    assert sum(listed["jobs"].values()) == 1
    assert (answer["name"], answer["status"], answer["end-time"]) == (listed["name"], "RUNNING", -1)
    assert answer["timestamps"] == {"RUNNING": answer["start-time"]}


def test_another_application_is_not_found(served: Served) -> None:
    for path in ("", "/exceptions", "/jobmanager/config"):
        answer = served.http.get(f"/applications/{'f' * 32}{path}")
        assert (answer.status_code, answer.json()["errors"]) == (404, [f"Application {'f' * 32} not found"])
    assert served.http.post(f"/applications/{'f' * 32}/cancel").status_code == 404


def test_the_cluster_settings_of_an_application_are_those_of_the_job_manager(served: Served) -> None:
    answer = served.http.get(f"{application_of(served)}/jobmanager/config").json()

    assert {"key": "taskmanager.numberOfTaskSlots", "value": "2"} in answer
    assert answer == served.http.get("/jobmanager/config").json()


def test_an_application_without_failures_has_an_empty_list(served: Served) -> None:
    answer = served.http.get(f"{application_of(served)}/exceptions").json()

    assert answer == {"exceptionHistory": {"entries": []}}


def test_failures_of_all_jobs_are_listed_newest_first() -> None:
    def failure_entry(name: str, at_ms: int) -> RootExceptionHistoryEntry:
        cause = SerializedThrowable(type_name=name, message="no")
        return RootExceptionHistoryEntry(number=1, root=ExceptionHistoryEntry(cause=cause, timestamp_ms=at_ms))

    response = application_exceptions([(JobId("a"), failure_entry("Early", 1)), (JobId("b"), failure_entry("Late", 2))])

    assert response["exceptionHistory"]["entries"] == [
        {"exceptionName": "Late", "stacktrace": "Late: no", "timestamp": 2, "jobId": "b"},
        {"exceptionName": "Early", "stacktrace": "Early: no", "timestamp": 1, "jobId": "a"},
    ]


def test_cancelling_an_application_cancels_its_jobs_and_is_idempotent(served: Served) -> None:
    path = f"{application_of(served)}/cancel"

    first = served.http.post(path, json={})
    deadline = time.monotonic() + 20
    while served.http.get(f"/jobs/{JOB}/status").json()["status"] not in (
        JobStatus.CANCELLING.value,
        JobStatus.CANCELED.value,
    ):
        assert time.monotonic() < deadline

    assert (first.status_code, first.json()) == (202, {})
    assert served.http.post(path, json={}).status_code == 202


def test_settings_of_a_job_have_the_names_of_flinks_options() -> None:
    strategy = FailureRateRestartStrategyConfiguration(max_failures=3, interval_ms=60_000, delay_ms=10)

    settings = {each["key"]: each["value"] for each in job_configuration(graph_of(vertex("a", 4), restart=strategy))}

    assert settings["parallelism.default"] == "4"
    assert settings["restart-strategy.type"] == "failure-rate"
    assert settings["restart-strategy.failure-rate.failure-rate-interval"] == "60000 ms"
    assert settings["execution.checkpointing.unaligned.enabled"] == "false"
    assert "metrics.latency.interval" not in settings
