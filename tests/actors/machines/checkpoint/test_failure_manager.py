"""Failed checkpoints are counted by cause, and each cause has its own limit."""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.failure_manager import CheckpointFailureManager
from flykka.actors.machines.checkpoint.properties import for_savepoint
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason as Declined
from flykka.messages.control.checkpoint_coordination import CheckpointFailuresExceeded, StartCheckpointScheduler
from flykka.messages.graph.job_graph import (
    UNLIMITED_TOLERABLE_FAILURES,
    CheckpointFailureReason,
    TolerableFailures,
)
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    Coordination,
    complete_checkpoint,
    planned_task,
    two_tasks,
)


def tolerating(reason: CheckpointFailureReason, number: int) -> tuple[TolerableFailures, ...]:
    return (TolerableFailures(reason=reason, number=number),)


def causes_of_exceeded_failures(harness: Coordination) -> list[str]:
    return [failed.cause.message for failed in harness.effects(CheckpointFailuresExceeded)]


def test_a_cause_with_its_own_limit_is_counted_separately() -> None:
    manager = CheckpointFailureManager(1, tolerating(CheckpointFailureReason.CHECKPOINT_EXPIRED, 2))

    alternating = [Declined.EXPIRED, Declined.CHECKPOINT_DECLINED, Declined.EXPIRED, Declined.EXPIRED]
    exceeded = [manager.fail(number, reason) for number, reason in enumerate(alternating, start=1)]

    assert [limit and (limit.reason, limit.tolerable) for limit in exceeded] == [
        None,
        None,
        None,
        (CheckpointFailureReason.CHECKPOINT_EXPIRED, 2),
    ]


def test_a_success_resets_the_consecutive_failures_of_every_cause() -> None:
    manager = CheckpointFailureManager(0, tolerating(CheckpointFailureReason.CHECKPOINT_EXPIRED, 1))
    manager.fail(1, Declined.EXPIRED)
    manager.succeed(2)

    assert manager.fail(3, Declined.EXPIRED) is None
    assert manager.fail(4, Declined.EXPIRED) is not None


@pytest.mark.parametrize("reason", [each for each in CheckpointFailureReason if "TRIGGER" not in each])
def test_a_cause_without_a_limit_never_fails_the_job(reason: CheckpointFailureReason) -> None:
    manager = CheckpointFailureManager(0, tolerating(reason, UNLIMITED_TOLERABLE_FAILURES))
    declined = Declined.EXPIRED if reason is CheckpointFailureReason.CHECKPOINT_EXPIRED else Declined(reason.value)

    survived = [manager.fail(number, declined) for number in range(1, 100)]

    assert survived == [None] * 99
    other = Declined.EXPIRED if declined is Declined.IO_EXCEPTION else Declined.IO_EXCEPTION
    assert manager.fail(100, other) is not None


def test_the_error_names_the_cause_its_limit_and_the_last_failure() -> None:
    declined = tolerating(CheckpointFailureReason.CHECKPOINT_DECLINED, 1)
    harness = two_tasks(tolerable_failures=0, tolerable_by_reason=declined)

    for checkpoint_id in (1, 2):
        harness.trigger()
        harness.decline("sink", checkpoint_id)

    assert causes_of_exceeded_failures(harness) == [
        "more checkpoints failed with CHECKPOINT_DECLINED than are tolerable (1 in a row), the last one 2 with"
        " CHECKPOINT_DECLINED at sink"
    ]


def test_a_job_may_tolerate_unwritable_metadata() -> None:
    unlimited = tolerating(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, UNLIMITED_TOLERABLE_FAILURES)
    harness = two_tasks(tolerable_by_reason=unlimited)
    harness.storage_fails = True

    for checkpoint_id in (1, 2, 3):
        complete_checkpoint(harness, checkpoint_id)

    assert causes_of_exceeded_failures(harness) == []


def test_missing_checkpoint_ids_fail_the_job_if_configured_except_for_savepoints() -> None:
    trigger = tolerating(CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, 1)
    harness = Coordination(planned_task("a"), max_concurrent=1, interval_ms=100, tolerable_by_reason=trigger)
    harness.counter_fails = True

    for _ in range(3):
        harness.trigger(for_savepoint("there"))
    survived = causes_of_exceeded_failures(harness)
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    harness.advance(250)

    assert survived == []
    assert len(harness.effects(events.TriggerDeclined)) == 5
    assert causes_of_exceeded_failures(harness) == [
        "more checkpoints failed with TRIGGER_CHECKPOINT_FAILURE than are tolerable (1 in a row), the last one before"
        " it had an id, with TRIGGER_CHECKPOINT_FAILURE: StoreUnavailableError: its id could not be drawn, 5 times"
        " in a row: the store cannot be reached"
    ]
