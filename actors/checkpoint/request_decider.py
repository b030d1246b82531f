"""Whether a requested checkpoint may begin now, and the one request that may wait for its turn.

Mirrors the checks at the head of Flink's CheckpointCoordinator.triggerCheckpoint (1.3 to 1.10); newer versions call
the part CheckpointRequestDecider.
"""

from __future__ import annotations

from flykka.actors.checkpoint.properties import CheckpointProperties
from flykka.messages.checkpoint import CheckpointDeclineReason


class CheckpointRequestDecider:
    """Knows the limits, the last completion, and whether a request is queued."""

    def __init__(self, *, max_concurrent: int, min_pause_ms: int) -> None:
        if max_concurrent < 1:
            raise ValueError(f"at least one checkpoint has to be allowed at a time, not {max_concurrent}")
        self._max_concurrent = max_concurrent
        self._min_pause_ms = min_pause_ms
        self._last_completion_ms: int | None = None
        self._queued = False

    def decide(self, properties: CheckpointProperties, now: int, *, pending: int) -> CheckpointDeclineReason | None:
        """Why the request is declined, None where it is not. One that finds too many pending is queued."""
        if properties.is_forced:
            return None
        if self._queued:
            return CheckpointDeclineReason.ALREADY_QUEUED
        if pending >= self._max_concurrent:
            self._queued = True
            return CheckpointDeclineReason.TOO_MANY_CONCURRENT_CHECKPOINTS
        if self.remaining_pause_ms(now) > 0:
            return CheckpointDeclineReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
        return None

    def remaining_pause_ms(self, now: int) -> int:
        """How long the pause after the last completed checkpoint still lasts."""
        if self._last_completion_ms is None:
            return 0
        return max(0, self._last_completion_ms + self._min_pause_ms - now)

    def completed(self, now: int) -> None:
        """A checkpoint has completed: the pause begins."""
        self._last_completion_ms = now

    def take_queued(self) -> bool:
        """Whether a request was queued; it is not any more."""
        queued, self._queued = self._queued, False
        return queued
