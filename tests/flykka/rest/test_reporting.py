"""Reports are sent at an interval until the end of the cluster, even if sending fails."""

from __future__ import annotations

import logging
from queue import Queue

import pytest

from flykka.diagnosis.job_queries import ClusterQueries
from flykka.errors import ConfigurationError
from flykka.metrics.measured import Distribution, Measured, Value
from flykka.metrics.reporting import LogReporter, Reporting, line_of
from tests.flykka.api.without_spark import without_spark
from tests.flykka.rest.conftest import Served

PATIENCE_SECONDS = 20.0
FOR_EVER_MS = 3_600_000


class RecordingReporter:
    """Records the requests to it, and raises while `reachable` is False."""

    target = "nowhere"

    def __init__(self, *, reachable: bool = True) -> None:
        self.reachable = reachable
        self.requests: Queue[str] = Queue()

    def report(self, queries: ClusterQueries, now_ms: int) -> None:
        self.requests.put(f"report at {now_ms}")
        if not self.reachable:
            raise ConnectionError("nobody is there")

    def close(self) -> None:
        self.requests.put("close")

    def wait(self, number: int) -> list[str]:
        return [self.requests.get(timeout=PATIENCE_SECONDS) for _ in range(number)]


def reporting(served: Served, reporter: RecordingReporter, interval_ms: int) -> Reporting:
    made = Reporting(reporter, interval_ms, served.gateway, lambda: 7)
    made.start()
    return made


def test_the_last_report_is_sent_at_close(served: Served) -> None:
    reporter = RecordingReporter()

    reporting(served, reporter, FOR_EVER_MS).close()

    assert reporter.wait(2) == ["report at 7", "close"]
    assert reporter.requests.empty()


def test_reports_are_sent_at_the_interval(served: Served) -> None:
    reporter = RecordingReporter()
    made = reporting(served, reporter, 1)

    assert reporter.wait(3) == ["report at 7"] * 3
    made.close()


def test_a_failing_report_and_its_recovery_are_each_logged_once(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    reporter = RecordingReporter(reachable=False)
    with caplog.at_level(logging.WARNING, "flykka.metrics"):
        made = reporting(served, reporter, 1)
        reporter.wait(3)
        reporter.reachable = True
        while reporter.wait(1) and len(caplog.messages) < 2:
            pass
        made.close()

    assert caplog.messages == [
        "metrics could not be reported to nowhere; retrying every 0.001 s: nobody is there",
        "metrics are reported to nowhere again",
    ]


def test_close_does_not_wait_for_an_unreachable_receiver(served: Served) -> None:
    reporter = RecordingReporter(reachable=False)
    made = reporting(served, reporter, 1)
    reporter.wait(1)

    made.stop()
    made.close()

    requests = reporter.wait(reporter.requests.qsize())
    assert requests[-1] == "close"


def test_a_logged_metric_line_has_a_subject_labels_and_values() -> None:
    values: dict[str, Value] = {"uptime": 5, "share": 0.25, "bytes": Distribution((1, 3), (1, 1))}

    assert line_of(Measured("jobmanager_job", {"job_name": "a 'b'"}, values)) == (
        "jobmanager_job[job_name=\"a 'b'\"]: uptime=5, share=0.250, bytes_count=2, bytes_min=1, bytes_max=3,"
        " bytes_mean=2, bytes_stddev=1, bytes_median=1, bytes_p75=3, bytes_p90=3, bytes_p95=3, bytes_p98=3,"
        " bytes_p99=3, bytes_p999=3"
    )


def test_the_log_has_lines_for_cluster_jobs_and_subtasks(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flykka.metrics"):
        LogReporter().report(served.gateway, 7_000)

    begins = [line.partition("[")[0] for line in caplog.messages]
    of_subtask = ["taskmanager_job_task", "taskmanager_job_task_operator"]
    assert begins == ["jobmanager", "jobmanager_job", *of_subtask * 3]


def test_metrics_are_not_collected_if_metric_logging_is_disabled(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "flykka.metrics"):
        LogReporter().report(None, 7_000)  # type: ignore[arg-type]


@pytest.mark.parametrize("interval", ["0s", "soon"])
def test_an_interval_must_be_a_duration(interval: str) -> None:
    with pytest.raises(ConfigurationError, match="metric_log_interval: the length of time"):
        without_spark().enable_metric_log(interval)
