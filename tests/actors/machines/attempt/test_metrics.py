"""Busy, back-pressured and idle time of an attempt add up to its run time."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.attempt.events import StartTask
from flykka.actors.machines.attempt.stages import Activity, TaskMeter
from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.exchange.result_partition import FLOATING_BUFFERS
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
)
from flykka.messages.attempt.commands import StagedOutput
from flykka.messages.graph.job_graph import FiringMode, OperatorKind
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.exchange import Watermark
from flykka.messages.tasks.task import CancelTask, MetricsDue, ReportTaskMetrics, TaskIOMetrics
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    SINK,
    Harness,
    barrier,
    batch,
    complete,
    descriptor,
    durable,
    finished,
    metrics,
    source,
    splits,
    trigger,
    window,
)

THIRTY_ROWS = StagedOutput(operator_id=SINK, names=("a",), rows=30)


def times(reported: TaskIOMetrics) -> tuple[int, int, int]:
    return reported.busy_ms, reported.back_pressured_ms, reported.idle_ms


def unread() -> Harness:
    task = Harness(descriptor(OperatorKind.SOURCE, outputs=1))
    task.feed(StartTask(), ChainOpened())
    return task


def test_the_metrics_of_an_attempt_are_reported_when_due() -> None:
    task = source()
    task.feed(splits("a"), finished(0, "rows", event_time_max=1_000))

    reported = metrics(task.feed(MetricsDue()))

    assert (reported.batches_in, reported.batches_out, reported.watermark_ms) == (1, 1, 899)


def test_rows_emitted_while_a_snapshot_is_written_are_counted() -> None:
    task = source()
    task.feed(splits("a"), trigger(1), finished(0), finished(1))

    reported = metrics(task.feed(CommitPrepared(checkpoint_id=1, rows_out=7)))

    assert reported.rows_out == 7


def test_a_snapshot_without_rows_causes_no_metrics_report() -> None:
    task = source()

    effects = task.feed(trigger(1), finished(0), durable(1))

    messages = [effect.message for effect in effects if isinstance(effect, Tell) and effect.to is Role.JOB_MASTER]
    assert not [message for message in messages if isinstance(message, ReportTaskMetrics)]


def test_function_counters_survive_a_stage_without_rows() -> None:
    task = source()
    counted = (AccumulatorSnapshot(name="broken", type=AccumulatorType.LONG_COUNTER, count=3),)
    task.feed(splits("a"), replace(finished(0, "rows"), accumulators=counted))

    effects = task.feed(trigger(1), finished(1), MetricsDue())

    messages = [effect.message for effect in effects if isinstance(effect, Tell) and effect.to is Role.JOB_MASTER]
    assert [each.accumulators for each in messages if isinstance(each, ReportTaskMetrics)] == [counted]


def test_published_and_pending_rows_of_sinks_are_counted_separately() -> None:
    task = source()
    task.feed(splits("a"), StageResult(stage=0, staged=(THIRTY_ROWS,)))
    prepared = CommitPrepared(checkpoint_id=1, rows_staged=10)
    task.feed(trigger(1), finished(1), prepared, SnapshotWritten(checkpoint_id=1), complete(1))
    task.feed(splits("b"), StageResult(stage=2, staged=(replace(THIRTY_ROWS, rows=2),)))

    before = metrics(task.feed(MetricsDue()))
    task.feed(CheckpointCommitted(checkpoint_id=1))
    after = metrics(task.feed(MetricsDue()))

    assert (before.rows_published, before.rows_staged) == (0, 42)
    assert (after.rows_published, after.rows_staged) == (40, 2)


def test_immediately_visible_rows_are_not_counted_as_pending() -> None:
    task = source()
    task.feed(splits("a"), StageResult(stage=0, staged=(replace(THIRTY_ROWS, names=()),)))

    reported = metrics(task.feed(MetricsDue()))

    assert (reported.rows_published, reported.rows_staged) == (30, 0)


def test_output_published_during_cancellation_is_counted() -> None:
    task = source()
    task.feed(splits("a"), StageResult(stage=0, staged=(THIRTY_ROWS,)))
    task.feed(trigger(1), finished(1), durable(1), complete(1))

    task.feed(CancelTask(attempt=ATTEMPT))
    task.feed(CheckpointCommitted(checkpoint_id=1))
    ended = metrics(task.feed(ChainClosed()))

    assert (ended.rows_published, ended.rows_staged) == (30, 0)


def test_sink_counts_are_zero_if_the_bridge_reports_none() -> None:
    task = source()

    task.feed(
        splits("a"), finished(0, "rows"), trigger(1), finished(1), durable(1), CheckpointCommitted(checkpoint_id=1)
    )
    reported = metrics(task.feed(MetricsDue()))

    assert (reported.rows_published, reported.rows_staged) == (0, 0)


def test_an_attempt_is_busy_during_a_stage_and_idle_without_input() -> None:
    task = source()

    task.now += 30
    task.feed(splits("a"))
    task.now += 500
    task.feed(finished(0))
    task.now += 7

    assert times(metrics(task.feed(MetricsDue()))) == (500, 0, 37)


def test_concurrent_stages_are_not_counted_twice_as_busy_time() -> None:
    task = source()

    task.feed(splits("a", "b"))
    task.now += 100
    task.feed(finished(0))
    task.now += 100
    task.feed(finished(1))

    assert times(metrics(task.feed(MetricsDue()))) == (200, 0, 0)


def test_an_attempt_with_input_and_a_full_output_is_back_pressured() -> None:
    task = unread()
    full = range(1 + FLOATING_BUFFERS)
    task.feed(splits(*(f"file-{number}" for number in full)))
    for stage in full:
        task.feed(finished(stage, f"batch-{stage}"))
    task.now += 10

    without_input = metrics(task.feed(MetricsDue(), splits("more")))
    task.now += 400
    with_input = metrics(task.feed(MetricsDue()))

    assert times(without_input) == (0, 0, 10)
    assert times(with_input) == (0, 400, 10)


def test_batches_that_wait_for_a_reader_are_counted_as_output_queue() -> None:
    task = unread()
    task.feed(splits("a"), finished(0, "rows"))

    assert metrics(task.feed(MetricsDue())).output_queue_length == 1


def test_unprocessed_batches_are_counted_as_input_queue() -> None:
    task = window(FiringMode.ON_WATERMARK)
    task.arrive(0, batch("a"), batch("b"))
    both = metrics(task.feed(MetricsDue()))

    task.feed(finished(0))

    assert both.input_queue_length == 2
    assert metrics(task.feed(MetricsDue())).input_queue_length == 1


def test_only_a_running_attempt_accounts_time() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE))

    task.feed(StartTask())
    task.now += 1_000
    task.feed(ChainOpened())
    task.now += 5
    task.feed(CancelTask(attempt=ATTEMPT))
    task.now += 1_000

    assert times(metrics(task.feed(ChainClosed()))) == (0, 0, 5)


def test_windows_firing_on_checkpoints_have_no_watermark_before_the_first_one() -> None:
    task = window(FiringMode.ON_CHECKPOINT)

    task.arrive(0, batch("rows"), barrier(1))
    before = task.feed(finished(0), finished(1), durable(1), MetricsDue())
    task.arrive(0, Watermark(timestamp_ms=899), barrier(2))
    after = task.feed(finished(2), durable(2), MetricsDue())

    assert (metrics(before).watermark_ms, metrics(after).watermark_ms) == (None, 899)


@given(st.lists(st.tuples(st.sampled_from(Activity), st.integers(0, 1_000))))
def test_activity_times_add_up_to_the_run_time(spent: list[tuple[Activity, int]]) -> None:
    meter, now = TaskMeter(), 0

    for activity, for_ms in spent:
        meter.activity = activity
        now += for_ms
        meter.on_tick(now)

    running = sum(for_ms for activity, for_ms in spent if activity is not Activity.NOT_RUNNING)
    assert sum(times(meter.report(ATTEMPT).metrics)) == running
