"""Decides when failed checkpoints fail the job.

Mirrors Flink's CheckpointFailureManager. Checkpoints that the cluster or the coordinator aborted are not counted, a
checkpoint is counted once, and a success resets the count. The job fails when more checkpoints fail in a row than are
tolerable. In addition to Flink's single limit, a cause may have its own limit, and its failures are counted separately.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from flykka.actors.machines.restart.repeated_failures import MAX_SIGNATURES
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.graph.job_graph import CheckpointFailureReason, TolerableFailures

COUNTED = frozenset(
    {
        CheckpointDeclineReason.CHECKPOINT_DECLINED,
        CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION,
        CheckpointDeclineReason.EXPIRED,
        CheckpointDeclineReason.IO_EXCEPTION,
        CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""The reasons that count as failures, as in Flink since 1.16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededLimit:
    """The exceeded limit: `tolerable` failures in a row for one `reason`, or (`None`) for all reasons without their own
    limit.
    """

    tolerable: int
    reason: CheckpointFailureReason | None = None

    def __str__(self) -> str:
        if self.reason is None:
            return "more checkpoints failed than are tolerable"
        return f"more checkpoints failed with {self.reason} than are tolerable ({self.tolerable} in a row)"


@dataclass(slots=True)
class _Count:
    limit: ExceededLimit
    failed: set[int] = field(default_factory=set)


class CheckpointFailureManager:
    def __init__(self, tolerable: int, by_reason: Iterable[TolerableFailures] = ()) -> None:
        self._others = _Count(_limit(tolerable))
        self._own = {_declined_with(each.reason): _Count(_limit(each.number, each.reason)) for each in by_reason}
        self._last_succeeded: int | None = None
        self._never_begun = 0
        self._same: dict[Hashable, tuple[int, int]] = {}
        """For each kind of failure, how often it has occurred since the last success, and when it first occurred (ms).
        """

    def repeated(self, failure: CheckpointFailure, now: int) -> CheckpointFailure:
        """Return the failure with the number of equal failures since the last completed checkpoint, itself included."""
        cause = failure.cause and (failure.cause.type_name, without_numbers(failure.cause.message))
        key = (failure.reason, failure.task_name, cause)
        times, since_ms = self._same.pop(key, (0, now))
        self._same[key] = (times + 1, since_ms)
        if len(self._same) > MAX_SIGNATURES:
            del self._same[next(iter(self._same))]
        return replace(failure, times=times + 1, since_ms=since_ms)

    def fail(self, checkpoint_id: int | None, reason: CheckpointDeclineReason) -> ExceededLimit | None:
        """Record a failure. Returns the limit if it is exceeded, and then resets the counts.

        A failure of a checkpoint older than the last success is not counted. A checkpoint that could not begin has no
        id.
        """
        if checkpoint_id is None:
            self._never_begun -= 1
        elif self._last_succeeded is not None and checkpoint_id <= self._last_succeeded:
            return None
        count = self._own.get(reason)
        if count is None and reason not in COUNTED:
            return None
        count = count or self._others
        count.failed.add(self._never_begun if checkpoint_id is None else checkpoint_id)
        if len(count.failed) <= count.limit.tolerable:
            return None
        self._reset()
        return count.limit

    def succeed(self, checkpoint_id: int) -> None:
        if self._last_succeeded is None or checkpoint_id > self._last_succeeded:
            self._last_succeeded = checkpoint_id
            self._reset()
            self._same.clear()

    def _reset(self) -> None:
        for count in (self._others, *self._own.values()):
            count.failed.clear()


def without_numbers(text: str) -> str:
    """Replace numbers and ids, so that equal failures of several checkpoints have equal texts."""
    return re.sub(r"\w*\d\w*", "#", text)


def _limit(tolerable: int, reason: CheckpointFailureReason | None = None) -> ExceededLimit:
    if tolerable < 0:
        raise ValueError(f"the number of tolerable failures is 0 or more, not {tolerable}")
    return ExceededLimit(tolerable=tolerable, reason=reason)


def _declined_with(reason: CheckpointFailureReason) -> CheckpointDeclineReason:
    if reason is CheckpointFailureReason.CHECKPOINT_EXPIRED:
        return CheckpointDeclineReason.EXPIRED
    return CheckpointDeclineReason(reason.value)
