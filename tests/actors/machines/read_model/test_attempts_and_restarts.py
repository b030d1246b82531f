"""The attempts of each subtask with the times of their states, the restarts of regions, and the job in the overview."""

from __future__ import annotations

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.actors.machines.read_model.vertex_read_model import MAX_ATTEMPTS
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    ExceptionHistoryEntry,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.monitoring.job_details import Restart, SubtaskDetails
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId, attempt_id
from flykka.messages.wire.message import Message
from tests.actors.machines.read_model.job_events import details_after, execution_changed
from tests.flykka.client.one_job import BOOM, GRAPH, JOB, WINDOWS, metrics, status


def region_failed(outcome: FailureOutcome, times: int = 1) -> ExceptionHistoryChanged:
    entry = RootExceptionHistoryEntry(
        number=1,
        root=ExceptionHistoryEntry(cause=BOOM, timestamp_ms=10),
        outcome=outcome,
        restarted_tasks=("means (1/2)",),
        times=times,
    )
    return ExceptionHistoryChanged(job_id=JOB, entry=entry)


def test_repeated_reports_of_a_region_restart_count_once() -> None:
    details = details_after(
        status(JobStatus.RUNNING),
        region_failed(FailureOutcome.UNDECIDED),
        region_failed(FailureOutcome.RESTARTING),
        region_failed(FailureOutcome.RESTARTING),
        region_failed(FailureOutcome.RESTARTED),
        at=10,
    )

    assert details.restarts == (Restart(at_ms=10, cause=BOOM),)


def test_each_region_restart_after_the_same_failure_counts() -> None:
    again = (region_failed(outcome, times=2) for outcome in (FailureOutcome.UNDECIDED, FailureOutcome.RESTARTING))

    assert (
        details_after(status(JobStatus.RUNNING), region_failed(FailureOutcome.RESTARTING), *again).number_of_restarts
        == 2
    )


def test_a_global_restart_is_not_counted_as_a_region_restart() -> None:
    details = details_after(
        status(JobStatus.FAILING),
        region_failed(FailureOutcome.RESTARTING),
        status(JobStatus.RESTARTING),
        status(JobStatus.RUNNING),
        region_failed(FailureOutcome.RESTARTED),
    )

    assert details.number_of_restarts == 1


def subtask_of_windows(*messages: Message, subtask: int = 0) -> SubtaskDetails:
    model = JobReadModel(GRAPH)
    for message in messages:
        model.on_message(message, 0)
    return model.subtasks(WINDOWS, 0).subtasks[subtask]


def test_an_attempt_has_the_time_of_each_state() -> None:
    subtask = subtask_of_windows(
        execution_changed(ExecutionState.SCHEDULED, at=1),
        execution_changed(ExecutionState.DEPLOYING, at=2),
        execution_changed(ExecutionState.RUNNING, at=3),
        metrics(rows_in=7),
    )

    assert subtask.current.attempt == attempt_id(JOB, WINDOWS, 0, 0)
    assert [(each.state.value, each.at_ms) for each in subtask.current.timestamps] == [
        ("SCHEDULED", 1),
        ("DEPLOYING", 2),
        ("RUNNING", 3),
    ]
    assert subtask.current.metrics.rows_in == 7
    assert subtask.earlier == ()


def test_the_last_earlier_attempts_are_retained() -> None:
    states = [execution_changed(ExecutionState.RUNNING, number=number, at=number) for number in range(MAX_ATTEMPTS + 3)]

    subtask = subtask_of_windows(*states)

    assert subtask.current.attempt_number == MAX_ATTEMPTS + 2
    assert [each.attempt_number for each in subtask.earlier] == list(range(2, MAX_ATTEMPTS + 2))


def test_an_unknown_vertex_has_no_details() -> None:
    assert JobReadModel(GRAPH).subtasks(JobVertexId("other"), 0).vertex is None


def test_a_job_overview_has_subtask_counts_by_state_and_the_last_change() -> None:
    model = JobReadModel(GRAPH)
    model.on_message(status(JobStatus.RUNNING, at=1_000), 1_000)
    model.on_message(execution_changed(ExecutionState.RUNNING), 1_500)

    listed = model.overview(4_000)

    assert (listed.name, listed.status, listed.started_ms, listed.ended_ms) == ("delays", "RUNNING", 1_000, None)
    assert (listed.duration_ms, listed.last_modification_ms) == (3_000, 1_500)
    assert {each.state: each.count for each in listed.subtask_counts} == {
        ExecutionState.CREATED: 2,
        ExecutionState.RUNNING: 1,
    }
