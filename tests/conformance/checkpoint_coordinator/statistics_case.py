"""Area 01, components `stats_...`: counts, history, tracker and summary of checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flykka.actors.machines.checkpoint.plan import PlannedTask
from flykka.actors.machines.checkpoint.statistics import (
    CheckpointStats,
    CheckpointStatsCounts,
    CheckpointStatsTracker,
    CompletedCheckpointStatsSummary,
)
from flykka.actors.machines.checkpoint.subtask_statistics import MinMaxAvg
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from tests.actors.machines.checkpoint.coordinating import task
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

FIGURES = {
    "state_size": "size_bytes",
    "duration": "duration_ms",
    "checkpointed_size": "incremental_bytes",
    "processed_data": "processed_bytes",
    "persisted_data": "persisted_bytes",
    # What waited while barriers were aligned; with credits it waits where it is, and is persisted if it is overtaken.
    "alignment_buffered": "persisted_bytes",
}
"""The figures of a checkpoint, and what they are called here."""


def run_counts(case: Case) -> None:
    """Run one case of `stats_counts`."""
    only_known_words("given", case["given"], {"component"})
    counts = frozen = CheckpointStatsCounts()
    columns: Sequence[str] = case["expect"].get("columns", ())
    after_each = []
    for step in case["steps"]:
        match step:
            case "SNAPSHOT":
                frozen = counts
                continue
            case "restored":
                counts = counts.with_restored()
            case "in_progress":
                counts = counts.with_in_progress()
            case "completed":
                counts = counts.with_completed()
            case "failed":
                counts = counts.with_failed()
            case _:
                raise UnknownWordError(step)
        assert counts.in_progress >= 0
        after_each.append([getattr(counts, column) for column in columns])

    for word, wanted in case["expect"].items():
        match word:
            case "after_each":
                assert after_each == wanted
            case "snapshot":
                assert {column: getattr(frozen, column) for column in wanted} == wanted
            case "counts":
                assert {column: getattr(counts, column) for column in wanted} == wanted
            case "columns" | "in_progress_never_negative":
                pass
            case _:
                raise UnknownWordError(word)


def run_tracker(case: Case) -> None:
    """Run one case of `stats_history` or `stats_tracker`."""
    given = case["given"]
    only_known_words("given", given, {"component", "size", "history", "subtasks"})
    tracker = _Tracker(given.get("size", given.get("history", 10)), given.get("subtasks", 1))
    for step in case["steps"]:
        tracker.do(step)
    tracker.check(case["expect"])


class _Tracker:
    def __init__(self, size: int, subtasks: int) -> None:
        self._tracker = CheckpointStatsTracker(size)
        self._tasks: list[PlannedTask] = [
            task("v", subtask=subtask, parallelism=subtasks) for subtask in range(subtasks)
        ]
        self._replaced = False

    def do(self, step: list[Any]) -> None:
        tracker = self._tracker
        wants = step[-1] if isinstance(step[-1], dict) else {}
        match step[:-1] if wants else step:
            case ["in_progress" | "pending", int(number), *kind] if kind in ([], ["checkpoint"], ["savepoint"]):
                is_savepoint = kind == ["savepoint"]
                tracker.report_pending(number, 0, is_savepoint=is_savepoint, tasks=self._tasks)
            case ["completed" | "complete", int(number)]:
                self._replaced = number in tracker.history
                tracker.report_completed(number, 1)
            case ["failed" | "fail", int(number)]:
                self._replaced = number in tracker.history
                tracker.report_failed(number, 1, CheckpointDeclineReason.CHECKPOINT_DECLINED)
            case ["restored", int(number)]:
                tracker.report_restored(number)
            case _:
                raise UnknownWordError(step)
        self.check(wants)

    def check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word, value) == value, word

    def _shows(self, word: str, value: Any) -> Any:
        tracker = self._tracker
        match word:
            case "replaced":
                return self._replaced
            case "listed":
                return [[stats.checkpoint_id, stats.status.value] for stats in tracker.history.listed()]
            case "lookup":
                return {number: tracker.lookup(int(number)) is not None for number in value}
            case "counts":
                return {column: getattr(tracker.counts, column) for column in value}
            case "summary_samples":
                return tracker.summary.duration_ms.count
            case "latest_restored":
                return tracker.latest_restored_id
            case "latest_completed":
                return _id(tracker.latest_completed)
            case "latest_savepoint":
                return _id(tracker.latest_savepoint)
            case "latest_failed":
                return _id(tracker.latest_failed)
            case _:
                raise UnknownWordError(word)


def _id(stats: CheckpointStats | None) -> int | None:
    return None if stats is None else stats.checkpoint_id


def run_summary(case: Case) -> None:
    """Run one case of `stats_summary`."""
    only_known_words("given", case["given"], {"component"})
    summary = CompletedCheckpointStatsSummary()
    for step in case["steps"]:
        match step:
            case ["ten_checkpoints", {"i": "0..9", **figures}]:
                for number in range(10):
                    summary = summary.with_completed(_stats(number, figures))
            case _:
                raise UnknownWordError(step)

    for word, value in case["expect"].items():
        assert _summed(summary, word, value) == value, word


def _summed(summary: CompletedCheckpointStatsSummary, word: str, value: Any) -> Any:
    if word == "count":
        return summary.duration_ms.count
    if word not in FIGURES:
        raise UnknownWordError(word)
    values: MinMaxAvg = getattr(summary, FIGURES[word])
    return [values.least, values.greatest, values.average][: len(value)]


def _stats(number: int, figures: dict[Any, Any]) -> CheckpointStats:
    only_known_words("figures", figures, {"trigger_ts", "ack_ts", *FIGURES})
    begun, ended = (_number(figures[word], number) for word in ("trigger_ts", "ack_ts"))
    sizes: Any = {FIGURES[word]: _number(text, number) for word, text in figures.items() if word in FIGURES}
    return CheckpointStats(checkpoint_id=number, trigger_ms=begun, duration_ms=ended - begun, **sizes)


def _number(text: int | str, i: int) -> int:
    """A figure of a case: a number, or one that grows with `i`."""
    return text if isinstance(text, int) else int(text.removesuffix("+i")) + i
