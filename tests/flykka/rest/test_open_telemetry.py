"""Metrics, checkpoints and restarts as a receiver of OpenTelemetry's protocol reads them."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from pyspark.sql import SparkSession

from flykka import FileSink, StreamExecutionEnvironment
from flykka.errors import ProgramError
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpointing.statistics import CheckpointStatistics, CheckpointStatsStatus
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.metrics.measured import Distribution, Measured
from flykka.metrics.open_telemetry import BOUNDS, OpenTelemetryReporter, OtlpError, Span, SpanLog, metrics_of
from tests.flykka.api.without_spark import without_spark
from tests.flykka.rest.conftest import JOB, Served
from tests.flykka.rest.receiver import Receiver, attributes

pytestmark = pytest.mark.slow

COMPLETED = CheckpointStatistics(
    checkpoint_id=1, status=CheckpointStatsStatus.COMPLETED, ended_ms=1_030, duration_ms=30, size_bytes=9
)
FAILED = CheckpointStatistics(
    checkpoint_id=2,
    status=CheckpointStatsStatus.FAILED,
    ended_ms=3_000,
    duration_ms=500,
    is_savepoint=True,
    reason=CheckpointDeclineReason.EXPIRED,
)
FAILURE = RootExceptionHistoryEntry(
    number=1,
    root=ExceptionHistoryEntry(
        cause=SerializedThrowable(type_name="OSError", message="no disk"), timestamp_ms=50, task_name="source"
    ),
    outcome=FailureOutcome.RESTARTED,
    restarted_ms=80,
    restored_checkpoint=1,
)


def test_metrics_have_the_names_and_labels_of_prometheus(served: Served) -> None:
    with Receiver() as receiver:
        reporter = OpenTelemetryReporter(receiver.endpoint + "/")
        reporter.report(served.gateway, 7_000)
        reporter.close()

        restarts = receiver.values()["flink.jobmanager.job.numRestarts"].gauge.data_points
        rows = receiver.values()["flink.taskmanager.job.task.numRecordsIn"].gauge.data_points
        resource = attributes(list(receiver.metrics[0].resource_metrics[0].resource.attributes))

    assert [(point.as_int, point.time_unix_nano) for point in restarts] == [(0, 7_000_000_000)]
    assert attributes(list(restarts[0].attributes))["job_name"] == "a <job>"
    assert len(rows) == 3
    assert resource["service.name"] == "flykka"


def test_a_histogram_is_exported_in_the_open_telemetry_format() -> None:
    distribution = Distribution((-1, 5, 6, 10_001), (1, 2, 3, 4))

    (metric,) = metrics_of([Measured("jobmanager_job", {"job_name": "j"}, {"bytes": distribution})], 1)

    (point,) = metric.data.data_points
    assert isinstance(point, HistogramDataPoint)
    expected = {**dict.fromkeys(BOUNDS, 0), 0: 1, 5: 2, 10: 3}
    assert list(point.bucket_counts) == [*expected.values(), 4]
    assert (point.count, point.sum, point.min, point.max) == (10, 40_031, -1, 10_001)


def test_each_checkpoint_and_each_restart_is_reported_as_one_span(served: Served) -> None:
    log, details = SpanLog(), replace(served.job.details, checkpoints=(COMPLETED, FAILED), exceptions=(FAILURE,))

    completed, failed, restart = log.new(details)

    job = {"job_id": JOB, "job_name": "a <job>"}
    assert (completed.name, completed.start_ms, completed.end_ms) == ("Checkpoint", 1_000, 1_030)
    assert (failed.start_ms, failed.end_ms) == (2_500, 3_000)
    assert failed.attributes["failureReason"] == CheckpointDeclineReason.EXPIRED
    assert (completed.attributes["checkpointType"], failed.attributes["checkpointType"]) == ("Checkpoint", "Savepoint")
    assert restart == Span(
        "Restart",
        50,
        80,
        {**job, "failure": "no disk", "failures": 1, "task_name": "source", "restoredCheckpointId": 1},
    )
    assert list(log.new(details)) == []


def test_a_repeated_failure_is_another_span_only_after_its_restart(served: Served) -> None:
    log, details = SpanLog(), replace(served.job.details, exceptions=(FAILURE,))
    waiting = replace(FAILURE, outcome=FailureOutcome.RESTARTING, times=2, last_timestamp_ms=90)
    again = replace(waiting, outcome=FailureOutcome.RESTARTED, restarted_ms=95)

    updates = [list(log.new(replace(details, exceptions=(each,)))) for each in (FAILURE, waiting, again)]

    assert [[(span.start_ms, span.end_ms) for span in spans] for spans in updates] == [[(50, 80)], [], [(90, 95)]]


def test_a_checkpoint_that_ends_after_a_later_one_is_reported(served: Served) -> None:
    log, details = SpanLog(), served.job.details
    in_progress = replace(COMPLETED, status=CheckpointStatsStatus.IN_PROGRESS)

    first = list(log.new(replace(details, checkpoints=(FAILED,), checkpoints_in_progress=(in_progress,))))
    both = list(log.new(replace(details, checkpoints=(COMPLETED, FAILED))))

    assert first == []
    assert [span.attributes["checkpointId"] for span in both] == [1, 2]


def test_refused_data_is_sent_again_and_the_reason_is_logged_once(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver(status=404) as receiver, caplog.at_level(logging.WARNING):
        reporter = OpenTelemetryReporter(receiver.endpoint)
        with pytest.raises(OtlpError, match=r"no OTLP receiver has accepted them \(.*404.*\)"):
            reporter.report(served.gateway, 7_000)
        receiver.status = 200
        reporter.report(served.gateway, 8_000)
        reporter.close()

        assert len(receiver.metrics) == 1
    assert caplog.records == []


@pytest.mark.parametrize("endpoint", ["localhost:4318", "http://", "ftp://localhost"])
def test_an_endpoint_must_be_a_url(endpoint: str) -> None:
    with pytest.raises(
        ProgramError, match=r"is not the URL of an OTLP receiver over HTTP, such as http://localhost:4318"
    ):
        without_spark().enable_open_telemetry(endpoint)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.integration
def test_a_job_is_reported_up_to_its_end_with_its_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    with Receiver() as receiver:
        with StreamExecutionEnvironment.get_execution_environment() as env:
            # With this interval the only report is the final report.
            env.enable_open_telemetry(receiver.endpoint, interval="1h").enable_checkpointing("50ms")
            env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
            numbers = env.from_dataframe(spark.range(0, 50, 1, 5), uid="numbers", partitions_per_batch=1)
            numbers.sink_to(FileSink.parquet(str(tmp_path / "out"))).uid("out")
            result = env.execute("numbers")
            with pytest.raises(ProgramError, match="metrics are reported from the first job on"):
                env.enable_metric_log()

        assert {attributes(list(span.attributes))["job_id"] for span in receiver.spans()} == {result.job_id}
        assert {span.name for span in receiver.spans()} == {"Checkpoint"}
        assert receiver.values()["flink.jobmanager.numRunningJobs"].gauge.data_points[0].as_int == 0
