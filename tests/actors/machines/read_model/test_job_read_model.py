"""The details of a job that the REST API returns, folded from the events of the job's actors."""

from __future__ import annotations

import pytest

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.actors.machines.read_model.vertex_read_model import aggregate_state
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.job import (
    CheckpointAborted,
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    MetricsReported,
)
from flykka.messages.monitoring.job_details import (
    CHECKPOINT_HISTORY,
    CheckpointStatistics,
    JobDetails,
    JobVertexDetails,
    Restart,
    TimeShares,
)
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.task import EventTimeHold, ExecutionState, TaskIOMetrics
from flykka.messages.wire.ids import attempt_id
from flykka.messages.wire.message import Message
from tests.actors.machines.read_model.job_events import details_after, execution_changed
from tests.flykka.client.one_job import BOOM, GRAPH, JOB, KEPT, WINDOWS, checkpoint_completed, metrics, status


def windows_vertex(details: JobDetails) -> JobVertexDetails:
    return details.vertices[1]


def test_the_queues_of_a_vertex_are_summed_over_its_running_subtasks() -> None:
    waiting = TaskIOMetrics(input_queue_length=2, output_queue_length=5)
    reported = [
        MetricsReported(job_id=JOB, attempt=attempt_id(JOB, WINDOWS, subtask, 0), task_name="windows", metrics=waiting)
        for subtask in range(2)
    ]

    running = windows_vertex(
        details_after(*(execution_changed(ExecutionState.RUNNING, subtask) for subtask in range(2)), *reported)
    )

    assert (running.input_queue_length, running.output_queue_length) == (4, 10)


def test_unread_and_unassigned_files_count_as_waiting() -> None:
    reported = [
        MetricsReported(
            job_id=JOB,
            attempt=attempt_id(JOB, WINDOWS, subtask, 0),
            task_name="windows",
            metrics=TaskIOMetrics(files_unread=subtask + 1),
            files_unassigned=100,
        )
        for subtask in range(2)
    ]

    running = details_after(*(execution_changed(ExecutionState.RUNNING, subtask) for subtask in range(2)), *reported)
    ended = details_after(*reported, *(execution_changed(ExecutionState.FINISHED, subtask) for subtask in range(2)))

    assert (running.files_waiting, ended.files_waiting) == (103, 0)


def test_a_vertex_names_the_source_that_holds_back_event_time_longest() -> None:
    holds = [EventTimeHold(subtask=subtask, since_ms=0, watermark_ms=9 - subtask) for subtask in range(2)]
    reported = [
        MetricsReported(
            job_id=JOB,
            attempt=attempt_id(JOB, WINDOWS, hold.subtask, 0),
            task_name="windows",
            metrics=TaskIOMetrics(held_back_by=hold),
        )
        for hold in holds
    ]

    running = details_after(*(execution_changed(ExecutionState.RUNNING, subtask) for subtask in range(2)), *reported)

    assert windows_vertex(running).held_back_by == holds[1]


def test_the_plan_is_available_before_the_first_event() -> None:
    details = details_after(now=5_000)

    assert (details.name, details.status, details.started_ms, details.duration_ms) == (
        "delays",
        JobStatus.CREATED,
        None,
        0,
    )
    assert [(each.name, each.parallelism, each.state) for each in details.vertices] == [
        ("flights", 1, ExecutionState.CREATED),
        ("means -> output", 2, ExecutionState.CREATED),
    ]
    assert [(each.sources, each.sinks) for each in details.vertices] == [(("flights",), ()), ((), ("output",))]


def test_the_duration_of_a_running_job_grows_until_now() -> None:
    details = details_after(status(JobStatus.RUNNING, at=1_000), now=4_500)

    assert (details.status, details.started_ms, details.duration_ms) == (JobStatus.RUNNING, 1_000, 3_500)


@pytest.mark.parametrize(
    "last",
    [status(JobStatus.FINISHED, at=3_000), JobResultSuccess(job_id=JOB)],
    ids=["the status", "the result"],
)
def test_the_duration_of_an_ended_job_is_constant(last: Message) -> None:
    details = details_after(status(JobStatus.RUNNING, at=1_000), last, at=3_000, now=60_000)

    assert (details.status, details.duration_ms) == (JobStatus.FINISHED, 2_000)


def test_a_job_fails_even_if_its_result_cannot_be_reported() -> None:
    details = details_after(
        status(JobStatus.RUNNING), JobResultFailure(job_id=JOB, cause=BOOM, status=JobStatus.FAILED), at=700, now=900
    )

    assert (details.status, details.duration_ms, details.last_failure) == (JobStatus.FAILED, 700, BOOM)


@pytest.mark.parametrize(
    "last",
    [
        JobResultSuccess(job_id=JOB, checkpoint_path=KEPT),
        JobResultFailure(job_id=JOB, cause=BOOM, checkpoint_path=KEPT),
    ],
    ids=["stopped", "failed"],
)
def test_the_retained_checkpoint_is_reported_with_the_end(last: Message) -> None:
    assert details_after(status(JobStatus.RUNNING)).kept_checkpoint is None
    assert details_after(status(JobStatus.RUNNING), last).kept_checkpoint == KEPT


def test_a_restart_is_retained_with_its_cause() -> None:
    details = details_after(
        status(JobStatus.RUNNING, at=0),
        status(JobStatus.FAILING, at=5_000, cause=BOOM),
        status(JobStatus.RESTARTING, at=5_100),
        status(JobStatus.CREATED, at=6_100),
        JobRestored(job_id=JOB, checkpoint_id=3, timestamp_ms=6_200),
        now=7_000,
    )

    assert details.restarts == (Restart(at_ms=5_100, cause=BOOM),)
    assert details.number_of_restarts == 1
    assert (details.restored_checkpoint, details.last_failure, details.duration_ms) == (3, BOOM, 7_000)


def test_the_last_restarts_are_retained_and_all_are_counted() -> None:
    details = details_after(*(status(JobStatus.RESTARTING, at=second * 1_000) for second in range(5_000)))

    assert [restart.at_ms for restart in details.restarts] == [second * 1_000 for second in range(4_990, 5_000)]
    assert details.number_of_restarts == 5_000


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ({}, ExecutionState.CREATED),
        ({ExecutionState.SCHEDULED: 1, ExecutionState.DEPLOYING: 1}, ExecutionState.CREATED),
        ({ExecutionState.DEPLOYING: 1, ExecutionState.RUNNING: 1}, ExecutionState.RUNNING),
        ({ExecutionState.FINISHED: 1, ExecutionState.DEPLOYING: 1}, ExecutionState.RUNNING),
        ({ExecutionState.FINISHED: 2}, ExecutionState.FINISHED),
        ({ExecutionState.RUNNING: 1, ExecutionState.CANCELED: 1}, ExecutionState.CANCELED),
        ({ExecutionState.CANCELED: 1, ExecutionState.CANCELING: 1}, ExecutionState.CANCELING),
        ({ExecutionState.CANCELING: 1, ExecutionState.FAILED: 1}, ExecutionState.FAILED),
    ],
)
def test_one_union_state_is_restored_by_all_subtasks_as_in_flink(
    states: dict[ExecutionState, int], shown: ExecutionState
) -> None:
    assert aggregate_state(states) is shown


def test_subtasks_are_counted_by_state() -> None:
    details = details_after(
        execution_changed(ExecutionState.RUNNING, subtask=0), execution_changed(ExecutionState.DEPLOYING, subtask=1)
    )

    assert windows_vertex(details).subtasks == {ExecutionState.RUNNING: 1, ExecutionState.DEPLOYING: 1}
    assert windows_vertex(details).state is ExecutionState.RUNNING


def test_a_restarted_job_waits_for_its_new_attempts_and_ignores_old_ones() -> None:
    overview = JobReadModel(GRAPH)
    for message in (
        execution_changed(ExecutionState.FAILED),
        status(JobStatus.CREATED),
        execution_changed(ExecutionState.SCHEDULED, number=1),
        execution_changed(ExecutionState.CANCELED, number=0),
    ):
        overview.on_message(message, 0)

    assert windows_vertex(overview.details(0)).subtasks == {ExecutionState.SCHEDULED: 1, ExecutionState.CREATED: 1}


def test_rows_are_summed_over_all_subtasks_and_attempts() -> None:
    details = details_after(
        metrics(100, rows_out=10, late_rows=1, subtask=0),
        metrics(60, rows_out=6, late_rows=2, subtask=1),
        metrics(7, rows_out=1, subtask=0, number=1),
        metrics(999, subtask=0, number=0),
    )

    assert (windows_vertex(details).rows_in, windows_vertex(details).rows_out, windows_vertex(details).late_rows) == (
        167,
        17,
        3,
    )


def test_rates_are_averaged_over_the_last_seconds_of_running_subtasks() -> None:
    overview = JobReadModel(GRAPH)
    for subtask in (0, 1):
        overview.on_message(execution_changed(ExecutionState.RUNNING, subtask=subtask, at=0), 0)
    for second in range(1, 21):
        overview.on_message(metrics(100 * second, rows_out=10 * second, subtask=0), 1_000 * second)
    overview.on_message(metrics(50, subtask=1), 10_000)

    shown = windows_vertex(overview.details(20_000))

    assert (shown.rows_in_per_second, shown.rows_out_per_second) == (105.0, 10.0)


def test_the_rate_is_zero_after_the_window_has_passed() -> None:
    overview = JobReadModel(GRAPH)
    overview.on_message(execution_changed(ExecutionState.RUNNING, at=0), 0)
    for second in range(1, 11):
        overview.on_message(metrics(1_000), 1_000 * second)

    assert windows_vertex(overview.details(10_000)).rows_in_per_second == 0


def test_an_ended_attempt_has_no_rate() -> None:
    running = (execution_changed(ExecutionState.RUNNING), metrics(100), execution_changed(ExecutionState.FINISHED))

    shown = windows_vertex(details_after(*running, at=1_000, now=1_000))

    assert (shown.rows_in, shown.rows_in_per_second, shown.shares) == (100, 0.0, None)


def test_a_first_report_after_a_connection_yields_no_rate() -> None:
    shown = windows_vertex(
        details_after(execution_changed(ExecutionState.RUNNING, at=5), metrics(100), metrics(200), at=5, now=5)
    )

    assert shown.rows_in_per_second == 0


def test_time_shares_are_averaged_over_the_subtasks() -> None:
    overview = JobReadModel(GRAPH)
    for subtask in (0, 1):
        overview.on_message(execution_changed(ExecutionState.RUNNING, subtask=subtask), 0)
    overview.on_message(metrics(busy=500, idle=500, subtask=0), 1_000)
    overview.on_message(metrics(back_pressured=1_000, subtask=1), 1_000)

    assert windows_vertex(overview.details(1_000)).shares == TimeShares(busy=0.25, back_pressured=0.5, idle=0.25)


def test_the_watermark_is_the_minimum_and_its_lag_is_reported() -> None:
    shown = windows_vertex(
        details_after(metrics(watermark_ms=4_000), metrics(watermark_ms=3_000, subtask=1), now=5_000)
    )

    assert (shown.watermark_ms, shown.watermark_lag_ms, shown.event_time_ended) == (3_000, 2_000, False)


def test_a_subtask_without_a_watermark_holds_back_the_vertex() -> None:
    shown = windows_vertex(details_after(metrics(watermark_ms=4_000), metrics(subtask=1), now=5_000))

    assert (shown.watermark_ms, shown.watermark_lag_ms) == (None, None)


def test_no_watermark_is_reported_after_the_end_of_input() -> None:
    ended = (metrics(watermark_ms=WATERMARK_MAX, subtask=subtask) for subtask in (0, 1))

    shown = windows_vertex(details_after(*ended))

    assert (shown.watermark_ms, shown.watermark_lag_ms, shown.event_time_ended) == (None, None, True)


def test_a_limited_number_of_checkpoints_is_listed_but_all_are_counted() -> None:
    aborted = CheckpointAborted(job_id=JOB, checkpoint_id=8, reason=CheckpointDeclineReason.EXPIRED, timestamp_ms=8_000)

    details = details_after(
        *(checkpoint_completed(number, at=number * 1_000) for number in range(1, 8)), aborted, checkpoints=5
    )

    assert [checkpoint.checkpoint_id for checkpoint in details.checkpoints] == [4, 5, 6, 7, 8]
    assert (details.checkpoints_completed, details.checkpoints_failed) == (7, 1)
    assert details.last_completed == CheckpointStatistics(
        checkpoint_id=7,
        status=CheckpointStatsStatus.COMPLETED,
        ended_ms=7_000,
        duration_ms=300,
        size_bytes=2_048,
        incremental_bytes=512,
        path="/checkpoints/chk-7",
        trigger_ms=6_700,
    )
    assert details.checkpoints[-1] == CheckpointStatistics(
        checkpoint_id=8,
        status=CheckpointStatsStatus.FAILED,
        ended_ms=8_000,
        reason=CheckpointDeclineReason.EXPIRED,
        trigger_ms=8_000,
    )


def test_the_last_time_of_each_status_is_listed_in_time_order() -> None:
    details = details_after(
        status(JobStatus.RUNNING, at=1),
        status(JobStatus.RESTARTING, at=2),
        status(JobStatus.RUNNING, at=3),
        JobResultSuccess(job_id=JOB),
        at=4,
    )

    assert [(each.status, each.at_ms) for each in details.timestamps] == [
        (JobStatus.RESTARTING, 2),
        (JobStatus.RUNNING, 3),
        (JobStatus.FINISHED, 4),
    ]


def test_only_the_last_checkpoints_are_retained() -> None:
    details = details_after(*(checkpoint_completed(number, at=number) for number in range(CHECKPOINT_HISTORY + 5)))

    assert len(details.checkpoints) == CHECKPOINT_HISTORY
    assert details.checkpoints_completed == CHECKPOINT_HISTORY + 5
