"""Decides which requested checkpoint begins now, which one waits, and which one is dropped.

Mirrors Flink's CheckpointRequestDecider (since 1.11). This module triggers nothing and reads no clock.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason

MAX_QUEUED_REQUESTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTriggerRequest:
    """A request for a checkpoint, by the scheduler (`is_periodic`) or by the client that waits for `request_id`.

    `number` grows with every request and orders the requests of one millisecond.
    """

    properties: CheckpointProperties
    timestamp_ms: int
    number: int
    is_periodic: bool = False
    request_id: str | None = None

    @property
    def precedence(self) -> tuple[bool, bool, bool, int, int]:
        """The sort key of requests: savepoints first, then forced requests, then non-periodic ones, then older ones."""
        properties = self.properties
        return (
            not properties.is_savepoint,
            not properties.forced,
            self.is_periodic,
            self.timestamp_ms,
            self.number,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLoad:
    """The current load: pending checkpoints, deletions, and whether a checkpoint is being triggered."""

    pending: int
    cleaning: int = 0
    is_triggering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDecision:
    """A decision: the request that begins, the dropped requests with reasons, and when the scheduler tries again."""

    chosen: CheckpointTriggerRequest | None = None
    dropped: tuple[tuple[CheckpointTriggerRequest, CheckpointDeclineReason], ...] = ()
    retry_ms: int | None = None


class MinimumPause:
    def __init__(self, min_pause_ms: int) -> None:
        self._min_pause_ms = min_pause_ms
        self._last_completion_ms: int | None = None

    def completed(self, now: int) -> None:
        self._last_completion_ms = now

    def remaining_ms(self, now: int) -> int:
        if self._last_completion_ms is None:
            return 0
        return max(0, self._last_completion_ms + self._min_pause_ms - now)


class CheckpointRequestDecider:
    """A bounded priority queue. If full, it drops its last request, or the new request if all others are from users."""

    def __init__(self, *, max_concurrent: int, min_pause_ms: int, max_queued: int = MAX_QUEUED_REQUESTS) -> None:
        if max_concurrent < 1:
            raise ValueError(f"at least one checkpoint has to be allowed at a time, not {max_concurrent}")
        if max_queued < 1:
            raise ValueError(f"at least one request has to be allowed to wait, not {max_queued}")
        self._max_concurrent = max_concurrent
        self._max_queued = max_queued
        self._pause = MinimumPause(min_pause_ms)
        self._queued: list[CheckpointTriggerRequest] = []

    @property
    def queued(self) -> Sequence[CheckpointTriggerRequest]:
        return tuple(self._queued)

    def offer(self, request: CheckpointTriggerRequest, load: CheckpointLoad, now: int) -> RequestDecision:
        too_many = CheckpointDeclineReason.TOO_MANY_CHECKPOINT_REQUESTS
        is_full = len(self._queued) >= self._max_queued
        if is_full and not self._queued[-1].is_periodic:
            return RequestDecision(dropped=((request, too_many),))
        insort(self._queued, request, key=lambda queued: queued.precedence)
        dropped = ((self._queued.pop(), too_many),) if is_full else ()
        decision = self.poll(load, now)
        return RequestDecision(
            chosen=decision.chosen, dropped=(*dropped, *decision.dropped), retry_ms=decision.retry_ms
        )

    def poll(self, load: CheckpointLoad, now: int) -> RequestDecision:
        if load.is_triggering or not self._queued or load.cleaning > self._max_concurrent:
            return RequestDecision()
        first = self._queued[0]
        if load.pending >= self._max_concurrent and not first.properties.forced:
            return RequestDecision()
        del self._queued[0]
        pause_ms = self._pause.remaining_ms(now)
        if first.is_periodic and not first.properties.forced and pause_ms > 0:
            too_early = CheckpointDeclineReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
            return RequestDecision(dropped=((first, too_early),), retry_ms=pause_ms)
        return RequestDecision(chosen=first)

    def abort_all(self) -> tuple[CheckpointTriggerRequest, ...]:
        queued, self._queued = tuple(self._queued), []
        return queued

    def completed(self, now: int) -> None:
        self._pause.completed(now)
