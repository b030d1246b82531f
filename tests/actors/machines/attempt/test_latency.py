"""Latency markers are sent by sources, forwarded with the rows, and measured at every task."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.attempt.stages import HISTORY_SIZE, LatencyStats
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.graph.job_graph import FiringMode, OperatorKind
from flykka.messages.tasks.exchange import LatencyMarker, PartitionRequest
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.task import LatencyMarkerDue, LatencyStatistics, MetricsDue
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    CONSUMER,
    OUT,
    SOURCE,
    Harness,
    barrier,
    batch,
    descriptor,
    down,
    finished,
    metrics,
    splits,
    window,
)

INTERVAL_MS = 500


def tracked() -> Harness:
    deployed = descriptor(OperatorKind.SOURCE, outputs=1)
    task = Harness(replace(deployed, latency_tracking_interval_ms=INTERVAL_MS))
    request = PartitionRequest(partition_id=OUT, subpartition=0, credit=8, consumer=CONSUMER)
    task.feed(StartTask(), ChainOpened(), request)
    return task


def marker(marked_ms: int, subtask: int = 0) -> LatencyMarker:
    return LatencyMarker(marked_ms=marked_ms, operator_id=SOURCE, subtask=subtask)


def timers(effects: list[TaskEffect]) -> list[int]:
    return [effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "latency-marker"]


def test_a_source_sends_markers_only_if_latency_is_tracked() -> None:
    with_interval = Harness(replace(descriptor(OperatorKind.SOURCE), latency_tracking_interval_ms=INTERVAL_MS))
    without = Harness(descriptor(OperatorKind.SOURCE))

    assert timers(with_interval.feed(StartTask(), ChainOpened())) == [INTERVAL_MS]
    assert timers(without.feed(StartTask(), ChainOpened())) == []


def test_a_latency_marker_is_sent_at_each_interval() -> None:
    task = tracked()

    effects = task.feed(LatencyMarkerDue())

    assert (down(effects), timers(effects)) == ([marker(1000)], [INTERVAL_MS])


def test_a_marker_does_not_overtake_the_rows_before_it() -> None:
    task = tracked()
    task.feed(splits("a"), LatencyMarkerDue())
    task.now += 70

    effects = task.feed(finished(0, "rows"))

    assert down(effects) == [batch("rows"), marker(1000)]
    assert metrics(task.feed(MetricsDue())).latencies[0].max_ms == 70


def test_no_latency_marker_is_sent_after_the_last_row() -> None:
    task = tracked()
    task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    effects = task.feed(LatencyMarkerDue())

    assert (down(effects), timers(effects)) == ([], [])


def test_a_task_reports_the_latency_from_each_source_subtask() -> None:
    task = window(FiringMode.ON_WATERMARK)

    for latency_ms in (10, 30, 20):
        task.arrive(0, marker(task.now - latency_ms))
    task.arrive(0, marker(task.now - 5, subtask=1))

    assert metrics(task.feed(MetricsDue())).latencies == (
        LatencyStatistics(
            operator_id=SOURCE, subtask=0, count=3, min_ms=10, max_ms=30, median_ms=20, p95_ms=20, p99_ms=20
        ),
        LatencyStatistics(operator_id=SOURCE, subtask=1, count=1, min_ms=5, max_ms=5, median_ms=5, p95_ms=5, p99_ms=5),
    )


def test_a_latency_marker_is_not_aligned_between_channels() -> None:
    task = window(FiringMode.ON_WATERMARK, channels=2)

    task.arrive(1, marker(task.now - 3))

    assert metrics(task.feed(MetricsDue())).latencies[0].count == 1


def test_a_latency_marker_waits_during_an_alignment_like_rows() -> None:
    task = window(FiringMode.ON_WATERMARK, channels=2)

    task.arrive(0, barrier(1), marker(task.now))

    assert metrics(task.feed(MetricsDue())).latencies == ()


def test_the_latency_history_keeps_only_the_latest_markers() -> None:
    stats = LatencyStats()

    for number in range(HISTORY_SIZE + 10):
        stats.report_latency(marker(0), now=number)

    (statistics,) = stats.statistics()
    assert (statistics.count, statistics.min_ms, statistics.max_ms) == (HISTORY_SIZE, 10, HISTORY_SIZE + 9)
    assert (statistics.median_ms, statistics.p99_ms) == (73, 135)


def test_a_clock_set_back_yields_no_negative_latency() -> None:
    stats = LatencyStats()

    stats.report_latency(marker(100), now=90)

    assert stats.statistics()[0].min_ms == 0
