"""Decides which stage makes no progress, from what is seen of the stages at work. Pure: looking is `progress.py`.

Progress is a task of Spark's that has ended, or a Spark job that has begun. So a stage of one long task seems to stand
still while that runs: the time that is allowed must be longer than any one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flykka.messages.attempt.work import WorkProgress
from flykka.messages.monitoring.explanation import StageProgress
from flykka.messages.wire.failure import SerializedThrowable

_LOOKS_PER_TIMEOUT = 4
_LOOK_AT_LEAST_MS = 50
_LOOK_AT_MOST_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A piece of work as it was seen last: `progress_ms` is when it had come further than before."""

    mark: tuple[int, int, int]
    since_ms: int
    progress_ms: int


class StageWatchdog:
    """Watches the progress of the work of one attempt."""

    def __init__(self, timeout_ms: int | None) -> None:
        """Nothing is failed where `timeout_ms` is None: then it only remembers."""
        self._timeout_ms = timeout_ms
        self._seen: dict[int, _Seen] = {}

    @property
    def look_interval_ms(self) -> int | None:
        """Milliseconds between two looks; None where no attempt is to be failed."""
        if self._timeout_ms is None:
            return None
        return min(max(self._timeout_ms // _LOOKS_PER_TIMEOUT, _LOOK_AT_LEAST_MS), _LOOK_AT_MOST_MS)

    def see(self, works: Sequence[WorkProgress], now: int) -> tuple[StageProgress, ...]:
        """Take in what is at work at `now` (ms); the same with times, the oldest first."""
        self._seen = {work.piece: self._next(work, now) for work in works}
        told = (_told(work, self._seen[work.piece]) for work in works)
        return tuple(sorted(told, key=lambda stage: stage.since_ms))

    def stalled(self, stages: Sequence[StageProgress], now: int) -> SerializedThrowable | None:
        """The failure of the attempt, where one of what `see` has told has stood still for too long."""
        if self._timeout_ms is None:
            return None
        for stage in stages:
            standing_ms = now - (stage.since_ms if stage.progress_ms is None else stage.progress_ms)
            if standing_ms >= self._timeout_ms:
                return _failure(stage, standing_ms, self._timeout_ms)
        return None

    def _next(self, work: WorkProgress, now: int) -> _Seen:
        mark = (work.jobs, work.tasks, work.tasks_done)
        before = self._seen.get(work.piece)
        if before is None:
            since_ms = now - work.age_ms
            return _Seen(mark=mark, since_ms=since_ms, progress_ms=now if work.tasks_done else since_ms)
        return before if before.mark == mark else replace(before, mark=mark, progress_ms=now)


def _told(work: WorkProgress, seen: _Seen) -> StageProgress:
    return StageProgress(
        what=work.what,
        since_ms=seen.since_ms,
        tasks=work.tasks,
        tasks_done=work.tasks_done,
        tasks_active=work.tasks_active,
        tasks_failed=work.tasks_failed,
        progress_ms=seen.progress_ms,
    )


def _failure(stage: StageProgress, standing_ms: int, timeout_ms: int) -> SerializedThrowable:
    if stage.tasks:
        failed = f", {stage.tasks_failed} have failed" if stage.tasks_failed else ""
        stands = f"{stage.tasks_done} of {stage.tasks} Spark tasks are done, {stage.tasks_active} run{failed}"
    else:
        stands = "no Spark job of it has begun: it waits in code of the driver"
    text = (
        f"{stage.what} has made no progress for {standing_ms / 1000:.1f} s (the stage timeout is"
        f" {timeout_ms / 1000:g} s): {stands}"
    )
    return SerializedThrowable(type_name="StageTimeoutError", message=text, stack_trace=text)
