"""Decides when failed checkpoints fail the job.

Mirrors Flink's CheckpointFailureManager: what the cluster or the coordinator itself gave up is not counted, one
checkpoint counts once, a success resets the count, and the job fails when more fail in a row than are tolerable.
"""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason

COUNTED = frozenset(
    {
        CheckpointDeclineReason.CHECKPOINT_DECLINED,
        CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION,
        CheckpointDeclineReason.EXPIRED,
        CheckpointDeclineReason.IO_EXCEPTION,
        CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""The reasons that tell of a checkpoint that should have succeeded: those that Flink counts since 1.16."""


class CheckpointFailureManager:
    """Counts failures in a row."""

    def __init__(self, tolerable: int) -> None:
        if tolerable < 0:
            raise ValueError(f"the number of tolerable failures is 0 or more, not {tolerable}")
        self._tolerable = tolerable
        self._failed: set[int] = set()
        self._last_succeeded: int | None = None

    def fail(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> bool:
        """Take note of a failure; whether it is one too many. The count is then reset.

        One that fails after a newer one has succeeded says nothing about how things are now.
        """
        is_overtaken = self._last_succeeded is not None and checkpoint_id <= self._last_succeeded
        if reason in COUNTED and not is_overtaken:
            self._failed.add(checkpoint_id)
        if len(self._failed) <= self._tolerable:
            return False
        self._failed.clear()
        return True

    def succeed(self, checkpoint_id: int) -> None:
        """A checkpoint has completed."""
        if self._last_succeeded is None or checkpoint_id > self._last_succeeded:
            self._last_succeeded = checkpoint_id
            self._failed.clear()
