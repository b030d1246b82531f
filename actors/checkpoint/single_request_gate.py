"""How requests were decided over before they were queued by precedence: triggerCheckpoint in Flink up to 1.10.

A request that finds too many pending is declined, and the clockwork stands still until one of them ends: then it asks
again at once. Until then every other request is declined as well, unless it is forced.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from flykka.actors.checkpoint.request_decider import (
    CheckpointLoad,
    CheckpointTriggerRequest,
    MinimumPause,
    RequestDecision,
)
from flykka.messages.checkpoint import CheckpointDeclineReason


class SingleRequestGate:
    """Remembers that one request waits, and who comes while another one is on its way."""

    def __init__(self, *, max_concurrent: int, min_pause_ms: int) -> None:
        if max_concurrent < 1:
            raise ValueError(f"at least one checkpoint has to be allowed at a time, not {max_concurrent}")
        self._max_concurrent = max_concurrent
        self._pause = MinimumPause(min_pause_ms)
        self._is_queued = False
        self._behind: deque[CheckpointTriggerRequest] = deque()

    def offer(self, request: CheckpointTriggerRequest, load: CheckpointLoad, now: int) -> RequestDecision:
        """Requests do not overtake each other."""
        if load.is_triggering:
            self._behind.append(request)
            return RequestDecision()
        return self._decide(request, load, now)

    def poll(self, load: CheckpointLoad, now: int) -> RequestDecision:
        """Whoever came meanwhile is decided over, and the clockwork goes on where there is room again."""
        if load.is_triggering:
            return RequestDecision()
        dropped: tuple[tuple[CheckpointTriggerRequest, CheckpointDeclineReason], ...] = ()
        while self._behind:
            decision = self._decide(self._behind.popleft(), load, now)
            dropped += decision.dropped
            if decision.chosen is not None or decision.retry_ms is not None or decision.parks:
                return replace(decision, dropped=dropped)
        if dropped:
            return RequestDecision(dropped=dropped)
        if self._is_queued and load.pending < self._max_concurrent:
            self._is_queued = False
            return RequestDecision(retry_ms=0)
        return RequestDecision()

    def confirm(self, request: CheckpointTriggerRequest, load: CheckpointLoad, now: int) -> RequestDecision:
        """Decide again: the world went on while the id was drawn."""
        return self._decide(request, load, now)

    def abort_all(self) -> tuple[CheckpointTriggerRequest, ...]:
        """Forget that a request is queued. Those behind the one on its way are decided over behind it."""
        self._is_queued = False
        return ()

    def completed(self, now: int) -> None:
        """The pause begins."""
        self._pause.completed(now)

    def _decide(self, request: CheckpointTriggerRequest, load: CheckpointLoad, now: int) -> RequestDecision:
        if request.properties.forced:
            return RequestDecision(chosen=request)
        if self._is_queued:
            return RequestDecision(dropped=((request, CheckpointDeclineReason.ALREADY_QUEUED),))
        if load.pending >= self._max_concurrent:
            self._is_queued = True
            too_many = CheckpointDeclineReason.TOO_MANY_CONCURRENT_CHECKPOINTS
            return RequestDecision(dropped=((request, too_many),), parks=True)
        pause_ms = self._pause.remaining_ms(now)
        if pause_ms > 0:
            too_early = CheckpointDeclineReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
            return RequestDecision(dropped=((request, too_early),), retry_ms=pause_ms)
        return RequestDecision(chosen=request)
