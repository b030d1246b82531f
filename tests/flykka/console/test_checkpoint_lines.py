"""The successful checkpoints of a whole day are summarised in a few lines."""

from __future__ import annotations

from itertools import pairwise

from flykka.console.event_lines import LONGEST_PAUSE_MS, CheckpointLine, CheckpointLines
from tests.flykka.console.pictures import checkpoint_completed

SIZE = "2.0 KiB, 512 B of it new"


def every(interval_ms: int, count: int) -> list[CheckpointLine]:
    lines = CheckpointLines()
    printed = (lines.completed(checkpoint_completed(number, number * interval_ms)) for number in range(1, count + 1))
    return [line for line in printed if line is not None]


def test_the_intervals_between_lines_double_from_one_minute() -> None:
    lines = every(10_000, count=60)

    assert lines == [
        CheckpointLine(10_000, f"checkpoint 1 completed in 58 ms: {SIZE}"),
        CheckpointLine(70_000, f"checkpoints 2-7 completed, median 58 ms; the last: {SIZE}"),
        CheckpointLine(190_000, f"checkpoints 8-19 completed, median 58 ms; the last: {SIZE}"),
        CheckpointLine(430_000, f"checkpoints 20-43 completed, median 58 ms; the last: {SIZE}"),
    ]


def test_a_day_of_checkpoints_prints_about_thirty_lines() -> None:
    lines = every(10_000, count=8_640)

    pauses = [later.timestamp_ms - line.timestamp_ms for line, later in pairwise(lines)]
    assert len(lines) == 29
    assert max(pauses) == LONGEST_PAUSE_MS


def test_checkpoints_rarer_than_the_line_interval_have_one_line_each() -> None:
    lines = every(2 * LONGEST_PAUSE_MS, count=3)

    assert [line.text.partition(" in ")[0] for line in lines] == [f"checkpoint {n} completed" for n in (1, 2, 3)]


def test_the_median_covers_the_checkpoints_of_the_line() -> None:
    lines = CheckpointLines()
    for number, duration_ms in enumerate((9_000, 10, 30, 500), start=1):
        lines.completed(checkpoint_completed(number, number, duration_ms))

    line = lines.interrupted()

    assert line == CheckpointLine(4, f"checkpoints 2-4 completed, median 30 ms; the last: {SIZE}")


def test_another_event_flushes_pending_checkpoints_and_restarts_the_intervals() -> None:
    lines = CheckpointLines()
    lines.completed(checkpoint_completed(1, 0))
    lines.completed(checkpoint_completed(2, 10))

    printed = [lines.interrupted(), lines.interrupted(), lines.completed(checkpoint_completed(3, 20))]

    assert printed == [
        CheckpointLine(10, f"checkpoint 2 completed in 58 ms: {SIZE}"),
        None,
        CheckpointLine(20, f"checkpoint 3 completed in 58 ms: {SIZE}"),
    ]
