"""Metrics of jobs under Flink's names: of one job, and aggregated over several."""

from __future__ import annotations

from tests.flykka.rest.conftest import JOB, JOB_PATH, Served


def test_a_job_lists_its_metrics_and_returns_the_requested_ones(served: Served) -> None:
    listed = [each["id"] for each in served.http.get(f"{JOB_PATH}/metrics").json()]
    answer = served.http.get(f"/v1{JOB_PATH}/metrics?get=numRestarts,nothing,lastCheckpointSize").json()

    assert {"uptime", "fullRestarts", "totalNumberOfCheckpoints", "runningTimeTotal"} <= set(listed)
    assert answer == [{"id": "numRestarts", "value": "0"}, {"id": "lastCheckpointSize", "value": "-1"}]


def test_metrics_over_the_jobs_are_aggregated(served: Served) -> None:
    listed = [each["id"] for each in served.http.get("/jobs/metrics").json()]
    (every,) = served.http.get("/jobs/metrics?get=numRestarts,nothing").json()
    (some,) = served.http.get(f"/jobs/metrics?get=numberOfFailedCheckpoints&agg=max,sum&jobs={JOB}").json()

    assert "numRestarts" in listed
    assert every == {"id": "numRestarts", "min": 0, "max": 0, "avg": 0, "sum": 0, "skew": 0}
    assert some == {"id": "numberOfFailedCheckpoints", "max": 0, "sum": 0}


def test_unknown_jobs_and_aggregates_are_refused(served: Served) -> None:
    assert served.http.get(f"/jobs/metrics?get=uptime&jobs={'f' * 32}").status_code == 404
    assert served.http.get("/jobs/metrics?get=uptime&agg=mode").status_code == 400
    assert served.http.get(f"/jobs/{'f' * 32}/metrics").status_code == 404
