"""Metrics are text that Prometheus reads, with Flink's names and labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsCounts,
    CheckpointStatsSnapshot,
    CheckpointStatsStatus,
    CompletedCheckpointStatsSummary,
    StatsSummary,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.job_details import (
    AttemptDetails,
    JobVertexDetails,
    StatusTimestamp,
    SubtaskDetails,
    TimeShares,
)
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.ids import JobVertexId, TaskManagerId
from flykka.metrics.measured import Measured, of_job, of_vertex
from flykka.metrics.prometheus import text_of
from tests.rest.conftest import JOB, Served


def test_what_is_scraped_is_read_by_prometheus_own_parser(served: Served) -> None:
    answer = served.http.get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    (running,) = families["flink_jobmanager_numRunningJobs"].samples
    rows = families["flink_taskmanager_job_task_numRecordsIn"].samples
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert running.value == 1
    assert {family.type for family in families.values()} == {"gauge"}
    assert {(sample.labels["task_name"], sample.labels["subtask_index"]) for sample in rows} == {
        ("source", "0"),
        ("sink", "0"),
        ("sink", "1"),
    }
    assert all(sample.labels["job_name"] == "a <job>" for sample in rows)


def test_a_name_with_quotes_is_escaped() -> None:
    text = text_of([Measured("jobmanager_job", "uptime", {"job_name": 'a "b"\n\\c'}, 7)])

    ((sample,),) = (family.samples for family in text_string_to_metric_families(text))
    assert sample.labels == {"job_name": 'a "b"\n\\c'}


def test_a_restarting_job_has_no_uptime(served: Served) -> None:
    running = replace(
        served.job.details, status=JobStatus.RUNNING, timestamps=(StatusTimestamp(status=JobStatus.RUNNING, at_ms=100),)
    )
    restarting = replace(
        running,
        status=JobStatus.RESTARTING,
        timestamps=(*running.timestamps, StatusTimestamp(status=JobStatus.RESTARTING, at_ms=400)),
        number_of_restarts=1,
    )

    assert _values(of_job(running, _checkpoints(), "host", 600))["uptime"] == 500
    values = _values(of_job(restarting, _checkpoints(), "host", 600))
    assert (values["uptime"], values["restartingTime"], values["numRestarts"]) == (-1, 200, 1)
    assert (values["lastCheckpointDuration"], values["lastCheckpointSize"], values["lastCheckpointFullSize"]) == (
        30,
        7,
        9,
    )


def test_a_subtask_is_measured_with_its_attempt_and_its_task_manager(served: Served) -> None:
    metrics = TaskIOMetrics(rows_in=5, watermark_ms=1_000, rows_staged=2, rows_published=3)
    attempt = AttemptDetails(
        attempt=None,
        attempt_number=2,
        state=ExecutionState.RUNNING,
        task_manager=TaskManagerId("task-manager-1"),
        metrics=metrics,
    )
    shares = TimeShares(busy=0.5, back_pressured=0.25, idle=0.25)
    vertex = JobVertexDetails(
        vertex_id=JobVertexId("v"),
        name="counts",
        parallelism=1,
        sources=(),
        sinks=(),
        state=ExecutionState.RUNNING,
        subtask_counts=(),
    )
    subtask = SubtaskDetails(subtask=0, current=attempt, shares=shares)

    measured = list(of_vertex(served.job.details, vertex, [subtask], "host", 4_000))

    values = _values(measured)
    assert (values["busyTimeMsPerSecond"], values["backPressuredTimeMsPerSecond"]) == (500, 250)
    assert (values["watermarkLag"], values["pendingCommittables"], values["totalCommittables"]) == (3_000, 2, 5)
    assert measured[0].labels["tm_id"] == "task-manager-1"
    assert measured[0].labels["task_attempt_num"] == "2"


def _values(measured: Iterable[Measured]) -> dict[str, float]:
    return {each.name: each.value for each in measured}


def _checkpoints() -> CheckpointStatsSnapshot:
    nothing = StatsSummary(minimum=0, maximum=0, average=0)
    last = CheckpointStatistics(
        checkpoint_id=4,
        status=CheckpointStatsStatus.COMPLETED,
        duration_ms=30,
        size_bytes=9,
        incremental_bytes=7,
    )
    return CheckpointStatsSnapshot(
        job_id=JOB,
        counts=CheckpointStatsCounts(total=4, completed=4),
        summary=CompletedCheckpointStatsSummary(
            duration_ms=nothing,
            size_bytes=nothing,
            incremental_bytes=nothing,
            processed_bytes=nothing,
            persisted_bytes=nothing,
        ),
        history=(),
        latest_completed=last,
    )
