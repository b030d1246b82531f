"""A source that is too far ahead of its alignment group in event time pauses until its bound is raised."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.actors.machines.effects import StartTimer
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.attempt.commands import ReadSplits
from flykka.messages.graph.job_graph import OperatorKind, WatermarkAlignment
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN, CheckpointBarrier, WatermarkStatus
from flykka.messages.tasks.source import AlignWatermark, NoMoreSplits, ReportedWatermark
from flykka.messages.tasks.task import IdleDue, WatermarkReportDue
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    SOURCE,
    Harness,
    descriptor,
    down,
    finished,
    source,
    splits,
    to_bridge,
    to_job_master,
    trigger,
)

ALIGNMENT = WatermarkAlignment(group="g", max_drift_ms=10, update_interval_ms=100)
DUE = WatermarkReportDue()
NO_MORE = NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE)


def reader(**vertex: Any) -> Harness:
    return source(watermark_alignment=ALIGNMENT, watermark_delay_ms=0, **vertex)


def reported_event_times(effects: list[TaskEffect]) -> list[int]:
    return [each.watermark_ms for each in to_job_master(effects) if isinstance(each, ReportedWatermark)]


def timers(effects: list[TaskEffect]) -> list[int]:
    return [
        effect.delay_ms for effect in effects if isinstance(effect, StartTimer) and effect.key == "watermark-report"
    ]


def read(effects: list[TaskEffect]) -> list[str]:
    commands = [each for each in to_bridge(effects) if isinstance(each, ReadSplits)]
    return [split.split_id for command in commands for split in command.splits]


def align_watermark(max_watermark_ms: int) -> AlignWatermark:
    return AlignWatermark(attempt=ATTEMPT, max_watermark_ms=max_watermark_ms)


def ahead() -> Harness:
    """Return a reader that has read up to event time 1,000 with a bound of 500, and has two unread splits."""
    task = reader()
    task.feed(splits("a"), finished(0, event_time_max=1_001), align_watermark(500), splits("b", "c"))
    return task


def test_an_aligned_source_reports_its_event_time_at_start_and_on_change() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE, watermark_alignment=ALIGNMENT, watermark_delay_ms=0))

    started = task.feed(StartTask(), ChainOpened())
    unchanged = task.feed(DUE)
    task.feed(splits("a"), finished(0, event_time_max=1_001))
    moved = task.feed(DUE)

    assert (reported_event_times(started), timers(started)) == ([WATERMARK_MIN], [100])
    assert (reported_event_times(unchanged), timers(unchanged)) == ([], [100])
    assert (reported_event_times(moved), timers(moved)) == ([1_000], [100])


def test_a_source_without_an_alignment_group_reports_no_event_time() -> None:
    task = Harness(descriptor(OperatorKind.SOURCE, watermark_delay_ms=0))

    assert reported_event_times(task.feed(StartTask(), ChainOpened())) == []


def test_an_aligned_source_reads_while_it_has_no_bound() -> None:
    task = reader()
    task.feed(splits("a"), finished(0, event_time_max=1_001))

    assert read(task.feed(splits("b"))) == ["b"]


def test_a_source_too_far_ahead_resumes_when_its_group_catches_up() -> None:
    task = ahead()

    assert read(task.feed(DUE)) == []
    assert read(task.feed(align_watermark(999))) == []
    assert read(task.feed(align_watermark(1_000))) == ["b", "c"]


def test_a_source_paused_for_alignment_takes_part_in_checkpoints() -> None:
    task = ahead()

    effects = task.feed(trigger(1), finished(1))

    assert [each.checkpoint_id for each in down(effects) if isinstance(each, CheckpointBarrier)] == [1]


def test_a_source_paused_for_alignment_names_the_slowest_source() -> None:
    task = ahead()

    assert task.machine.explain(task.now).waits_for_group == "g"
    task.feed(align_watermark(1_000))
    assert task.machine.explain(task.now).waits_for_group is None


def test_a_source_paused_for_alignment_is_not_idle() -> None:
    task = reader(idle_timeout_ms=50)
    task.feed(splits("a"), finished(0, event_time_max=1_001), align_watermark(500), splits("b"))

    task.now += 1_000
    due = task.feed(IdleDue())

    assert [each for each in down(due) if isinstance(each, WatermarkStatus)] == []


def test_an_aligned_source_reports_once_that_it_has_read_everything() -> None:
    task = ahead()

    ended = task.feed(align_watermark(2_000), finished(1), finished(2), NO_MORE)
    after = task.feed(DUE)

    assert reported_event_times(ended) == [WATERMARK_MAX]
    assert (reported_event_times(after), timers(after)) == ([], [])
