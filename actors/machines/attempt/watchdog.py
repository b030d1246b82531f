"""Detects stages that make no progress, from observations of the work of an attempt.

Progress means that a Spark task has ended or a Spark job has begun. While a stage runs one long task it shows no
progress, so the timeout must be longer than any single task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flykka.messages.attempt.answers import WorkProgress
from flykka.messages.monitoring.explanation import StageProgress
from flykka.messages.wire.failure import SerializedThrowable

_OBSERVATIONS_PER_TIMEOUT = 4
_MIN_INTERVAL_MS = 50
_MAX_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    """The last observation of a command's work. `progress_ms` is the time of its last progress."""

    mark: tuple[int, int, int]
    since_ms: int
    progress_ms: int


class StageWatchdog:
    def __init__(self, timeout_ms: int | None) -> None:
        """Without a timeout the watchdog only observes."""
        self._timeout_ms = timeout_ms
        self._observations: dict[int, _Observation] = {}

    @property
    def interval_ms(self) -> int | None:
        """Milliseconds between two observations; `None` without a timeout."""
        if self._timeout_ms is None:
            return None
        return min(max(self._timeout_ms // _OBSERVATIONS_PER_TIMEOUT, _MIN_INTERVAL_MS), _MAX_INTERVAL_MS)

    def observe(self, works: Sequence[WorkProgress], now: int) -> tuple[StageProgress, ...]:
        """Record the progress of the work at `now` (ms), and return it, the oldest work first."""
        self._observations = {work.piece: self._next(work, now) for work in works}
        stages = (_progress(work, self._observations[work.piece]) for work in works)
        return tuple(sorted(stages, key=lambda stage: stage.since_ms))

    def stalled(self, stages: Sequence[StageProgress], now: int) -> SerializedThrowable | None:
        if self._timeout_ms is None:
            return None
        for stage in stages:
            stalled_ms = now - (stage.since_ms if stage.progress_ms is None else stage.progress_ms)
            if stalled_ms >= self._timeout_ms:
                return _failure(stage, stalled_ms, self._timeout_ms)
        return None

    def _next(self, work: WorkProgress, now: int) -> _Observation:
        mark = (work.jobs, work.tasks, work.tasks_done)
        before = self._observations.get(work.piece)
        if before is None:
            since_ms = now - work.age_ms
            return _Observation(mark=mark, since_ms=since_ms, progress_ms=now if work.tasks_done else since_ms)
        return before if before.mark == mark else replace(before, mark=mark, progress_ms=now)


def _progress(work: WorkProgress, observed: _Observation) -> StageProgress:
    return StageProgress(
        what=work.what,
        since_ms=observed.since_ms,
        tasks=work.tasks,
        tasks_done=work.tasks_done,
        tasks_active=work.tasks_active,
        tasks_failed=work.tasks_failed,
        progress_ms=observed.progress_ms,
    )


def _failure(stage: StageProgress, stalled_ms: int, timeout_ms: int) -> SerializedThrowable:
    if stage.tasks:
        failures = f", {stage.tasks_failed} have failed" if stage.tasks_failed else ""
        reason = f"{stage.tasks_done} of {stage.tasks} Spark tasks are done, {stage.tasks_active} run{failures}"
    else:
        reason = "it has started no Spark job: code in the driver is running"
    text = (
        f"{stage.what} has made no progress for {stalled_ms / 1000:.1f} s (the stage timeout is"
        f" {timeout_ms / 1000:g} s): {reason}"
    )
    return SerializedThrowable(type_name="StageTimeoutError", message=text, stack_trace=text)
