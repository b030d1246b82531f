"""Accumulators and latencies of a job, folded from the reports of its attempts."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.messages.control.job import ExecutionStateChanged, JobResultSuccess, MetricsReported
from flykka.messages.monitoring.job_details import Latency
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.task import ExecutionState, LatencyStatistics, TaskIOMetrics
from flykka.messages.wire.ids import OperatorId, attempt_id
from tests.actors.machines.read_model.job_events import details_after, execution_changed
from tests.flykka.client.one_job import GRAPH, JOB, WINDOWS


def rows_counter(count: int) -> AccumulatorSnapshot:
    return AccumulatorSnapshot(name="rows", type=AccumulatorType.INT_COUNTER, count=count)


def way(median_ms: int, p99_ms: int = 100) -> LatencyStatistics:
    return LatencyStatistics(
        operator_id="flights",
        subtask=0,
        count=3,
        min_ms=1,
        max_ms=p99_ms,
        median_ms=median_ms,
        p95_ms=p99_ms,
        p99_ms=p99_ms,
    )


def metrics_reported(
    *counted: AccumulatorSnapshot, subtask: int = 0, number: int = 0, latencies: tuple[LatencyStatistics, ...] = ()
) -> MetricsReported:
    return MetricsReported(
        job_id=JOB,
        attempt=attempt_id(JOB, WINDOWS, subtask, number),
        task_name="windows",
        metrics=TaskIOMetrics(latencies=latencies),
        accumulators=counted,
    )


def test_accumulators_of_a_running_job_are_summed_over_its_subtasks() -> None:
    details = details_after(
        metrics_reported(rows_counter(2)),
        metrics_reported(rows_counter(3), subtask=1),
        metrics_reported(rows_counter(4)),
    )

    assert details.accumulators == AccumulatorResults(merged=(rows_counter(7),))


def test_a_new_attempt_counts_from_zero() -> None:
    assert details_after(
        metrics_reported(rows_counter(2)), metrics_reported(rows_counter(1), number=1)
    ).accumulators == AccumulatorResults(merged=(rows_counter(1),))


def test_the_counts_of_a_finished_attempt_are_retained() -> None:
    model = JobReadModel(GRAPH)
    first, second = (execution_changed(ExecutionState.RUNNING, number=number) for number in (0, 1))
    for message in (first, metrics_reported(rows_counter(3)), second, metrics_reported(rows_counter(5), number=1)):
        model.on_message(message, 0)

    subtask = model.subtasks(WINDOWS, 0).subtasks[0]

    assert [each.accumulators for each in subtask.earlier] == [(rows_counter(3),)]
    assert (subtask.current.accumulators, subtask.accumulators) == ((), (rows_counter(5),))


def test_a_late_report_of_an_earlier_attempt_is_ignored() -> None:
    assert details_after(
        metrics_reported(rows_counter(1), number=1), metrics_reported(rows_counter(9))
    ).accumulators.merged == (rows_counter(1),)


def test_the_final_accumulators_of_a_job_do_not_change() -> None:
    final = AccumulatorResults(merged=(rows_counter(8),))

    assert (
        details_after(metrics_reported(rows_counter(2)), JobResultSuccess(job_id=JOB, accumulators=final)).accumulators
        == final
    )


def test_a_meter_has_the_rate_of_the_last_seconds() -> None:
    meter = AccumulatorSnapshot(name="parse.seen", type=AccumulatorType.METER, operator_id=OperatorId("parse"))
    other = replace(meter, operator_id=OperatorId("other"), count=9)
    overview = JobReadModel(GRAPH)
    attempt = attempt_id(JOB, WINDOWS, 0, 0)
    running = ExecutionStateChanged(
        job_id=JOB, attempt=attempt, state=ExecutionState.RUNNING, timestamp_ms=0, task_name="windows"
    )
    overview.on_message(running, 0)

    overview.on_message(metrics_reported(replace(meter, count=10)), 2_000)
    first = overview.subtasks(WINDOWS, 2_000).subtasks[0].accumulators
    for at_ms, count in ((4_000, 20), (8_000, 80)):
        overview.on_message(metrics_reported(replace(meter, count=count), other), at_ms)

    assert first == (replace(meter, count=10, per_second=5),)
    assert overview.subtasks(WINDOWS, 8_000).subtasks[0].accumulators == (
        replace(meter, count=80, per_second=70 / 6),
        replace(other, per_second=9 / 6),
    )


def test_the_latency_of_a_vertex_is_that_of_its_slowest_source() -> None:
    details = details_after(
        metrics_reported(latencies=(way(5), way(20, 70))), metrics_reported(subtask=1, latencies=(way(10),))
    )

    assert [vertex.latency for vertex in details.vertices] == [None, Latency(median_ms=20, p99_ms=70)]
