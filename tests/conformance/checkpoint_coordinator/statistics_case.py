"""Area 01, components `stats_...`: counts, history, tracker and summary of checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flykka.actors.machines.read_model.checkpoint_stats_tracker import CheckpointStatsTracker
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointTriggered,
    StatsSummary,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobRestored
from flykka.messages.wire.ids import JobId, JobVertexId
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

JOB = JobId("job")
V = JobVertexId("v")

FIGURES = {
    "state_size": "size_bytes",
    "duration": "duration_ms",
    "checkpointed_size": "incremental_bytes",
    "processed_data": "processed_bytes",
    "persisted_data": "persisted_bytes",
    # Data that waited for the alignment. With credits this data waits at the sender, and is persisted if it is
    # overtaken.
    "alignment_buffered": "persisted_bytes",
}


def run_counts(case: Case) -> None:
    """Run one case of `stats_counts`. The oldest checkpoint in progress ends first; if there is none, an unknown
    checkpoint ends.
    """
    only_known_words("given", case["given"], {"component"})
    tracker = CheckpointStatsTracker({})
    frozen = tracker.counts
    columns: Sequence[str] = case["expect"].get("columns", ())
    after_each = []
    for number, step in enumerate(case["steps"], start=1):
        oldest = next((stats.checkpoint_id for stats in tracker.in_progress), number)
        match step:
            case "SNAPSHOT":
                frozen = tracker.counts
                continue
            case "restored":
                tracker.on_message(JobRestored(job_id=JOB, checkpoint_id=number, timestamp_ms=0))
            case "in_progress":
                tracker.on_message(_triggered(number))
            case "completed":
                tracker.on_message(_completed(oldest))
            case "failed":
                tracker.on_message(_aborted(oldest))
            case _:
                raise UnknownWordError(step)
        assert tracker.counts.in_progress >= 0
        after_each.append([getattr(tracker.counts, column) for column in columns])

    for word, wanted in case["expect"].items():
        match word:
            case "after_each":
                assert after_each == wanted
            case "snapshot":
                assert {column: getattr(frozen, column) for column in wanted} == wanted
            case "counts":
                assert {column: getattr(tracker.counts, column) for column in wanted} == wanted
            case "columns" | "in_progress_never_negative":
                pass
            case _:
                raise UnknownWordError(word)


def run_tracker(case: Case) -> None:
    given = case["given"]
    only_known_words("given", given, {"component", "size", "history", "subtasks"})
    tracker = _Tracker(given.get("size", given.get("history", 10)), given.get("subtasks", 1))
    for step in case["steps"]:
        tracker.do(step)
    tracker.check(case["expect"])


class _Tracker:
    def __init__(self, size: int, subtasks: int) -> None:
        self._tracker = CheckpointStatsTracker({V: subtasks}, size)
        self._subtasks = subtasks
        self._replaced = False

    def do(self, step: list[Any]) -> None:
        tracker = self._tracker
        wants = step[-1] if isinstance(step[-1], dict) else {}
        match step[:-1] if wants else step:
            case ["in_progress" | "pending", int(number), *kind] if kind in ([], ["checkpoint"], ["savepoint"]):
                is_savepoint = kind == ["savepoint"]
                tracker.on_message(_triggered(number, is_savepoint=is_savepoint, num_subtasks=self._subtasks))
            case ["completed" | "complete", int(number)]:
                self._replaced = number in self._listed()
                tracker.on_message(_completed(number))
            case ["failed" | "fail", int(number)]:
                self._replaced = number in self._listed()
                tracker.on_message(_aborted(number))
            case ["restored", int(number)]:
                tracker.on_message(JobRestored(job_id=JOB, checkpoint_id=number, timestamp_ms=0))
            case _:
                raise UnknownWordError(step)
        self.check(wants)

    def check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word, value) == value, word

    def _listed(self) -> list[int]:
        return [stats.checkpoint_id for stats in self._tracker.snapshot(JOB).history]

    def _shows(self, word: str, value: Any) -> Any:
        tracker = self._tracker
        match word:
            case "replaced":
                return self._replaced
            case "listed":
                return [[stats.checkpoint_id, stats.status.value] for stats in tracker.snapshot(JOB).history]
            case "lookup":
                return {number: tracker.lookup(int(number)) is not None for number in value}
            case "counts":
                return {column: getattr(tracker.counts, column) for column in value}
            case "summary_samples":
                return tracker.counts.completed
            case "latest_restored":
                return tracker.latest_restored
            case "latest_completed":
                return _id(tracker.latest_completed)
            case "latest_savepoint":
                return _id(tracker.latest_savepoint)
            case "latest_failed":
                return _id(tracker.latest_failed)
            case _:
                raise UnknownWordError(word)


def _id(stats: CheckpointStatistics | None) -> int | None:
    return None if stats is None else stats.checkpoint_id


def run_summary(case: Case) -> None:
    only_known_words("given", case["given"], {"component"})
    tracker = CheckpointStatsTracker({V: 1})
    for step in case["steps"]:
        match step:
            case ["ten_checkpoints", {"i": "0..9", **figures}]:
                for number in range(10):
                    _complete(tracker, number, figures)
            case _:
                raise UnknownWordError(step)

    for word, value in case["expect"].items():
        assert _summed(tracker, word, value) == value, word


def _summed(tracker: CheckpointStatsTracker, word: str, value: Any) -> Any:
    if word == "count":
        return tracker.counts.completed
    if word not in FIGURES:
        raise UnknownWordError(word)
    values: StatsSummary = getattr(tracker.snapshot(JOB).summary, FIGURES[word])
    return [values.minimum, values.maximum, values.average][: len(value)]


def _complete(tracker: CheckpointStatsTracker, number: int, figures: dict[Any, Any]) -> None:
    only_known_words("figures", figures, {"trigger_ts", "ack_ts", *FIGURES})
    begun, ended = (_number(figures[word], number) for word in ("trigger_ts", "ack_ts"))
    sizes = {FIGURES[word]: _number(text, number) for word, text in figures.items() if word in FIGURES}
    metrics = CheckpointMetrics(
        size_bytes=sizes.get("size_bytes", 0),
        incremental_bytes=sizes.get("incremental_bytes", 0),
        bytes_processed_during_alignment=sizes.get("processed_bytes", 0),
        bytes_persisted_during_alignment=sizes.get("persisted_bytes", 0),
    )
    acknowledged = SubtaskCheckpointStatistics(vertex_id=V, subtask=0, ack_ms=ended, metrics=metrics)
    tracker.on_message(_triggered(number, timestamp_ms=begun))
    tracker.on_message(SubtasksAcknowledged(job_id=JOB, checkpoint_id=number, subtasks=(acknowledged,)))
    tracker.on_message(
        CheckpointCompleted(
            job_id=JOB,
            checkpoint_id=number,
            duration_ms=ended - begun,
            size_bytes=metrics.size_bytes,
            incremental_bytes=metrics.incremental_bytes,
            path="",
            timestamp_ms=ended,
        )
    )


def _triggered(
    number: int, timestamp_ms: int = 0, *, is_savepoint: bool = False, num_subtasks: int = 1
) -> CheckpointTriggered:
    return CheckpointTriggered(
        job_id=JOB,
        checkpoint_id=number,
        timestamp_ms=timestamp_ms,
        num_subtasks=num_subtasks,
        is_savepoint=is_savepoint,
    )


def _completed(number: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        job_id=JOB, checkpoint_id=number, duration_ms=1, size_bytes=0, incremental_bytes=0, path="", timestamp_ms=1
    )


def _aborted(number: int) -> CheckpointAborted:
    reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
    return CheckpointAborted(job_id=JOB, checkpoint_id=number, reason=reason, timestamp_ms=1)


def _number(text: int | str, i: int) -> int:
    return text if isinstance(text, int) else int(text.removesuffix("+i")) + i
