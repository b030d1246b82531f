"""When failed checkpoints fail the job.

Mirrors Flink's CheckpointFailureManager: what the cluster or the coordinator itself gave up is not counted, one
checkpoint counts once, a success begins anew, and the job fails when more fail in a row than are tolerable.
"""

from __future__ import annotations

from flykka.messages.checkpoint import CheckpointDeclineReason

COUNTED = frozenset(
    {
        CheckpointDeclineReason.IO_EXCEPTION,
        CheckpointDeclineReason.CHECKPOINT_DECLINED,
        CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION,
        CheckpointDeclineReason.EXPIRED,
        CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""The reasons that tell of a checkpoint that should have succeeded."""


class CheckpointFailureManager:
    """Counts failures in a row."""

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._counted: set[int] = set()

    def fail(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> bool:
        """Take note of a failure; whether it is one too many. Counting then begins anew."""
        if reason in COUNTED:
            self._counted.add(checkpoint_id)
        if len(self._counted) <= self._tolerable:
            return False
        self._counted.clear()
        return True

    def succeed(self) -> None:
        """A checkpoint has completed."""
        self._counted.clear()
