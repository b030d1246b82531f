"""A job over time: throughput, lag, and rows that are read again after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.messages.checkpointing.checkpoint import CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointTriggered,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.control.job import ExecutionStateChanged, JobRestored, JobResultSuccess, JobStatus, MetricsReported
from flykka.messages.monitoring.job_details import Deploying, JobDetails, StatusTimestamp
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.ids import attempt_id
from flykka.messages.wire.message import Message
from tests.flykka.client.one_job import GRAPH, JOB, SOURCE, WINDOWS, checkpoint_completed, metrics, status

RUNNING, RESTARTING = JobStatus.RUNNING, JobStatus.RESTARTING


def source_metrics(rows_in: int, number: int = 0, watermark_ms: int | None = None) -> MetricsReported:
    counted = TaskIOMetrics(rows_in=rows_in, watermark_ms=watermark_ms)
    attempt = attempt_id(JOB, SOURCE, 0, number)
    return MetricsReported(job_id=JOB, attempt=attempt, task_name="flights", metrics=counted)


def details_after_messages(*heard: tuple[int, Message]) -> JobDetails:
    overview = JobReadModel(GRAPH)
    for at, message in heard:
        overview.on_message(message, at)
    return overview.details(heard[-1][0])


def test_rows_since_the_last_checkpoint_count_as_reread_after_a_restart() -> None:
    before = (
        (1_000, source_metrics(100)),
        (2_000, source_metrics(250)),
        (2_400, checkpoint_completed(1, at=2_400)),
        (3_000, source_metrics(400)),
    )

    running = details_after_messages(*before)
    restarted = details_after_messages(*before, (4_000, source_metrics(60, number=1)))

    assert running.vertices[0].rows_read_again == 0
    # The checkpoint was triggered at 2,100, so it has at least 250 rows.
    assert restarted.vertices[0].rows_read_again == 150
    assert restarted.vertices[0].rows_in == 460


def test_without_a_checkpoint_all_rows_are_reread_after_each_restart() -> None:
    details = details_after_messages(
        (1_000, source_metrics(100)), (2_000, source_metrics(70, number=1)), (3_000, source_metrics(30, number=2))
    )

    assert details.vertices[0].rows_read_again == 170


def test_a_savepoint_does_not_reduce_the_rows_reread_after_a_restart() -> None:
    taken = replace(checkpoint_completed(1, at=2_000), is_retained=False)

    details = details_after_messages(
        (1_000, source_metrics(100)), (2_000, taken), (3_000, source_metrics(10, number=1))
    )

    assert details.vertices[0].rows_read_again == 100


def test_a_restart_counts_no_published_row_twice_and_drops_staged_rows() -> None:
    before = (1_000, metrics(rows_published=300, rows_staged=40))

    running = details_after_messages(before)
    restarted = details_after_messages(
        before, (2_000, metrics(number=1)), (3_000, metrics(number=1, rows_published=60, rows_staged=7))
    )

    assert (running.vertices[1].rows_published, running.vertices[1].rows_staged) == (300, 40)
    assert (restarted.vertices[1].rows_published, restarted.vertices[1].rows_staged) == (360, 7)


def test_throughput_includes_all_source_rows_since_the_start_of_the_job() -> None:
    begun = status(JobStatus.RUNNING, at=1_000)

    details = details_after_messages(
        (1_000, begun), (1_500, source_metrics(50)), (2_500, source_metrics(250)), (3_000, metrics(999))
    )

    assert details.throughput.values == (50.0, 200.0)


def test_late_reports_of_a_replaced_attempt_are_not_counted() -> None:
    begun = status(JobStatus.RUNNING)

    details = details_after_messages(
        (0, begun), (100, source_metrics(50)), (200, source_metrics(10, number=1)), (300, source_metrics(90))
    )

    assert details.throughput.values == (60.0,)


def test_the_lag_is_the_maximum_over_vertices_and_ends_with_event_time() -> None:
    begun = status(JobStatus.RUNNING)
    first = ((500, source_metrics(1, watermark_ms=400)), (1_500, source_metrics(2, watermark_ms=1_000)))

    running = details_after_messages((0, begun), *first)
    ended = details_after_messages((0, begun), *first, (2_500, source_metrics(3, watermark_ms=WATERMARK_MAX)))

    assert running.watermark_lag.values == (100.0, 500.0)
    assert ended.watermark_lag.values == (100.0, 500.0, None)


def test_the_total_time_of_a_status_excludes_the_current_period() -> None:
    overview = JobReadModel(GRAPH)
    for now, then in ((0, RUNNING), (50, RESTARTING), (70, JobStatus.CREATED), (75, RUNNING), (90, RESTARTING)):
        overview.on_message(status(then, at=now), now)

    assert overview.details(95).timestamps == (
        StatusTimestamp(status=JobStatus.CREATED, at_ms=70, total_ms=5),
        StatusTimestamp(status=RUNNING, at_ms=75, total_ms=65),
        StatusTimestamp(status=RESTARTING, at_ms=90, total_ms=20),
    )


def test_a_deployment_lasts_from_the_first_to_the_last_task() -> None:
    overview = JobReadModel(GRAPH)

    def deployment_after(subtask: int, state: ExecutionState, at_ms: int) -> Deploying:
        attempt = attempt_id(JOB, WINDOWS, subtask, 0)
        overview.on_message(
            ExecutionStateChanged(job_id=JOB, attempt=attempt, task_name="windows", state=state, timestamp_ms=at_ms),
            at_ms,
        )
        return overview.details(at_ms).deploying

    assert deployment_after(0, ExecutionState.DEPLOYING, 10) == Deploying(since_ms=10)
    assert deployment_after(1, ExecutionState.DEPLOYING, 12) == Deploying(since_ms=10)
    assert deployment_after(0, ExecutionState.RUNNING, 15) == Deploying(since_ms=10)
    assert deployment_after(1, ExecutionState.FAILED, 17) == Deploying(total_ms=7)
    assert deployment_after(0, ExecutionState.CANCELED, 18) == Deploying(total_ms=7)


@pytest.mark.parametrize("end", ["restart", "another JobMaster", "result"])
def test_a_deployment_ends_even_if_its_end_is_not_reported(end: str) -> None:
    overview = JobReadModel(GRAPH)
    attempt = attempt_id(JOB, WINDOWS, 0, 0)
    deploying = ExecutionStateChanged(
        job_id=JOB, attempt=attempt, task_name="windows", state=ExecutionState.DEPLOYING, timestamp_ms=10
    )
    overview.on_message(deploying, 10)

    match end:
        case "restart":
            overview.on_message(status(JobStatus.CREATED, at=30), 30)
        case "another JobMaster":
            overview.on_new_job_master(30)
        case _:
            overview.on_message(JobResultSuccess(job_id=JOB), 30)

    assert overview.details(40).deploying == Deploying(total_ms=20)


def test_only_a_restore_from_a_checkpoint_has_a_restore_time() -> None:
    overview = JobReadModel(GRAPH)
    overview.on_message(JobRestored(job_id=JOB, checkpoint_id=None, timestamp_ms=5), 5)
    fresh = overview.details(6).restored_ms
    overview.on_message(JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=7), 7)

    assert (fresh, overview.details(8).restored_ms) == (None, 7)


def test_a_subtask_has_the_metrics_of_the_last_completed_checkpoint() -> None:
    overview = JobReadModel(GRAPH)

    def acknowledged(checkpoint_id: int, alignment_ms: int) -> None:
        begun = CheckpointTriggered(job_id=JOB, checkpoint_id=checkpoint_id, timestamp_ms=0, num_subtasks=3)
        overview.on_message(begun, 0)
        metrics = CheckpointMetrics(alignment_ms=alignment_ms)
        subtask = SubtaskCheckpointStatistics(vertex_id=WINDOWS, subtask=1, ack_ms=5, metrics=metrics)
        overview.on_message(SubtasksAcknowledged(job_id=JOB, checkpoint_id=checkpoint_id, subtasks=(subtask,)), 5)

    def checkpoint_metrics() -> list[CheckpointMetrics | None]:
        return [each.last_checkpoint for each in overview.subtasks(WINDOWS, 9).subtasks]

    before = checkpoint_metrics()
    acknowledged(1, 10)
    overview.on_message(checkpoint_completed(1), 6)
    acknowledged(2, 20)

    assert before == [None, None]
    assert checkpoint_metrics() == [None, CheckpointMetrics(alignment_ms=10)]
