"""Of several requests for a checkpoint, some start at once, some wait and some are dropped."""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint, for_savepoint
from flykka.actors.machines.checkpoint.request_decider import (
    CheckpointLoad,
    CheckpointRequestDecider,
    CheckpointTriggerRequest,
)
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason

IDLE, BUSY = CheckpointLoad(pending=0), CheckpointLoad(pending=0, is_triggering=True)
FULL = CheckpointLoad(pending=1)
TOO_MANY = CheckpointDeclineReason.TOO_MANY_CHECKPOINT_REQUESTS


def request(
    number: int, properties: CheckpointProperties | None = None, *, periodic: bool = False, at: int = 0
) -> CheckpointTriggerRequest:
    return CheckpointTriggerRequest(
        properties=properties or for_checkpoint(), timestamp_ms=at, number=number, is_periodic=periodic
    )


def decider(*, max_queued: int = 10, min_pause_ms: int = 0) -> CheckpointRequestDecider:
    return CheckpointRequestDecider(max_concurrent=1, min_pause_ms=min_pause_ms, max_queued=max_queued)


def test_requests_are_ordered_by_savepoint_forced_user_and_age() -> None:
    queue = decider()
    expected = [
        request(0, for_savepoint()),
        request(1, for_savepoint(forced=False)),
        request(2, for_checkpoint(forced=True)),
        request(3, at=5),
        request(4, at=6),
        request(5, at=6),
        request(6, periodic=True),
    ]

    for each in reversed(expected):
        queue.offer(each, BUSY, 10)
    order = [queue.poll(IDLE, 10).chosen for _ in expected]

    assert order == expected


def test_a_full_queue_drops_its_last_request() -> None:
    queue = decider(max_queued=2)
    tick, other_tick, users = request(0, periodic=True), request(1, periodic=True), request(2)
    queue.offer(tick, BUSY, 0)
    queue.offer(other_tick, BUSY, 0)

    decision = queue.offer(users, BUSY, 0)

    assert decision.dropped == ((other_tick, TOO_MANY),)
    assert queue.queued == (users, tick)


def test_a_queue_full_of_user_requests_drops_further_requests() -> None:
    queue = decider(max_queued=1)
    queue.offer(request(0), BUSY, 0)
    savepoint = request(1, for_savepoint())

    decision = queue.offer(savepoint, BUSY, 0)

    assert decision.dropped == ((savepoint, TOO_MANY),)


def test_only_a_forced_checkpoint_starts_if_too_many_are_pending() -> None:
    queue = decider()
    waiting, forced = request(0), request(1, for_savepoint())
    held = queue.offer(waiting, FULL, 0)

    decision = queue.offer(forced, FULL, 0)

    assert held.chosen is None
    assert decision.chosen == forced
    assert queue.poll(IDLE, 0).chosen == waiting


def test_not_even_a_forced_checkpoint_starts_during_too_many_deletions() -> None:
    queue = decider()
    forced = request(0, for_savepoint())

    held = queue.offer(forced, CheckpointLoad(pending=0, cleaning=2), 0)
    freed = queue.poll(CheckpointLoad(pending=0, cleaning=1), 0)

    assert (held.chosen, freed.chosen) == (None, forced)


def test_a_tick_within_the_minimum_pause_is_dropped_and_rescheduled() -> None:
    queue = decider(min_pause_ms=100)
    queue.completed(1_000)
    tick = request(0, periodic=True)

    decision = queue.offer(tick, IDLE, 1_030)

    assert decision.dropped == ((tick, CheckpointDeclineReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS),)
    assert decision.retry_ms == 70
    assert queue.offer(request(1, periodic=True), IDLE, 1_100).chosen is not None


def test_limits_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="at a time"):
        CheckpointRequestDecider(max_concurrent=0, min_pause_ms=0)
    with pytest.raises(ValueError, match="wait"):
        CheckpointRequestDecider(max_concurrent=1, min_pause_ms=0, max_queued=0)
