"""Each reason for a tolerable checkpoint failure can occur."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.actors.machines.attempt.events import StartTask, TaskEffect
from flykka.messages.attempt.answers import CommitPrepared
from flykka.messages.attempt.commands import HoldBatches, WriteSnapshot
from flykka.messages.checkpointing.checkpoint import (
    AlignmentType,
    CheckpointDeclineReason,
    CheckpointOptions,
    DeclineCheckpoint,
)
from flykka.messages.control.job import CheckpointAborted
from flykka.messages.graph.job_graph import CheckpointFailureReason, OperatorKind
from flykka.messages.tasks.exchange import CheckpointBarrier
from tests.actors.checkpoint_coordinator.test_master_hooks import Hook
from tests.actors.machines.attempt.attempt_machine import (
    WINDOWS,
    Harness,
    batch,
    descriptor,
    finished,
    source,
    to_job_master,
    trigger,
)
from tests.actors.machines.checkpoint.coordinating import Coordination, planned_task, two_tasks


def reason_of(harness: Coordination) -> CheckpointDeclineReason:
    (aborted,) = harness.effects(CheckpointAborted)
    return aborted.reason


def declined_by_task(effects: list[TaskEffect]) -> CheckpointDeclineReason:
    (declined,) = to_job_master(effects)
    assert isinstance(declined, DeclineCheckpoint)
    harness = two_tasks(tolerable_failures=9)
    harness.trigger()
    harness.decline("sink", 1, declined.reason)
    return reason_of(harness)


def write_fails() -> CheckpointDeclineReason:
    task = source(WINDOWS)
    task.feed(trigger(1), finished(0), CommitPrepared(checkpoint_id=1))
    return declined_by_task(task.refuse(WriteSnapshot, ends_attempt=False))


def batches_are_gone() -> CheckpointDeclineReason:
    task = Harness(descriptor(OperatorKind.STATELESS, channels=2))
    task.feed(StartTask(), WINDOWS)
    task.arrive(0, batch("a"), batch("b"))
    task.arrive(1, batch("c"))
    unaligned = CheckpointOptions(alignment=AlignmentType.UNALIGNED)
    task.arrive(0, CheckpointBarrier(checkpoint_id=1, timestamp_ms=1_000, options=unaligned))
    return declined_by_task(task.refuse(HoldBatches, ends_attempt=False))


def takes_too_long() -> CheckpointDeclineReason:
    harness = two_tasks(timeout_ms=500, tolerable_failures=9)
    harness.trigger()
    harness.advance(500)
    return reason_of(harness)


def metadata_fails() -> CheckpointDeclineReason:
    harness = Coordination(planned_task("a"), tolerable_failures=9)
    harness.storage_fails = True
    harness.trigger()
    harness.acknowledge("a", 1)
    return reason_of(harness)


def hook_raises(raised: Exception) -> CheckpointDeclineReason:
    harness = Coordination(planned_task("a"), hooks=[Hook("hook", raised)], tolerable_failures=9)
    harness.trigger()
    return reason_of(harness)


CASES: dict[CheckpointFailureReason, Callable[[], CheckpointDeclineReason]] = {
    CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION: write_fails,
    CheckpointFailureReason.CHECKPOINT_DECLINED: batches_are_gone,
    CheckpointFailureReason.CHECKPOINT_EXPIRED: takes_too_long,
    CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE: metadata_fails,
    CheckpointFailureReason.IO_EXCEPTION: lambda: hook_raises(OSError("broken pipe")),
    CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE: lambda: hook_raises(ValueError("broken")),
}


@pytest.mark.parametrize("reason", CheckpointFailureReason)
def test_every_tolerable_failure_cause_can_occur(reason: CheckpointFailureReason) -> None:
    occurred = CASES[reason]()

    assert occurred.value in (reason.value, reason.value.removeprefix("CHECKPOINT_"))
