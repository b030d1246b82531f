"""Every cause of failed checkpoints that a job can tolerate by itself can occur."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.actors.machines.bridge.effects import HoldBatches, PrepareCommit, WriteSnapshot
from flykka.actors.machines.task.events import StartTask
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, DeclineCheckpoint, TriggerCheckpoint
from flykka.messages.control.job import CheckpointAborted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.graph.tolerable_failures import CheckpointFailureReason
from flykka.messages.tasks.bridge import CommitPrepared
from flykka.messages.tasks.stage import BridgeOpened, HoldInFlight, SnapshotFailed
from flykka.messages.wire.ids import BatchId
from tests.actors.machines.bridge.attempt_machine import SINKS, STATELESS, Harness, snapshot, told
from tests.actors.machines.checkpoint.coordinating import Coordination, task, two_tasks
from tests.actors.machines.task import task_machine
from tests.actors.test_master_hooks import Hook


def reason_of(world: Coordination) -> CheckpointDeclineReason:
    (aborted,) = world.effects(CheckpointAborted)
    return aborted.reason


def declined_by_task(failed: SnapshotFailed) -> CheckpointDeclineReason:
    """The reason that a coordinator gets when the bridge of a task reports this."""
    source = task_machine.Harness(task_machine.descriptor(OperatorKind.SOURCE))
    trigger = TriggerCheckpoint(
        job_id=task_machine.JOB, attempt=task_machine.ATTEMPT, checkpoint_id=1, timestamp_ms=1_000
    )
    source.feed(StartTask(), BridgeOpened(), trigger)
    (declined,) = task_machine.to_job_master(source.feed(failed))
    assert isinstance(declined, DeclineCheckpoint)
    world = two_tasks(tolerable_failures=9)
    world.trigger()
    world.decline("sink", 1, declined.reason)
    return reason_of(world)


def write_fails() -> CheckpointDeclineReason:
    attempt = Harness(SINKS)
    attempt.stage_output()
    attempt.feed(snapshot(1, checkpoint_id=1))
    attempt.answer(PrepareCommit, CommitPrepared())
    (failed,) = told(attempt.refuse(WriteSnapshot, ends_attempt=False))
    assert isinstance(failed, SnapshotFailed)
    return declined_by_task(failed)


def batches_are_gone() -> CheckpointDeclineReason:
    attempt = Harness(STATELESS)
    attempt.feed(HoldInFlight(checkpoint_id=1, batch_ids=(BatchId("a"),)))
    (failed,) = told(attempt.refuse(HoldBatches, ends_attempt=False))
    assert isinstance(failed, SnapshotFailed)
    return declined_by_task(failed)


def takes_too_long() -> CheckpointDeclineReason:
    world = two_tasks(timeout_ms=500, tolerable_failures=9)
    world.trigger()
    world.advance(500)
    return reason_of(world)


def metadata_fails() -> CheckpointDeclineReason:
    world = Coordination(task("a"), tolerable_failures=9)
    world.storage_fails = True
    world.trigger()
    world.acknowledge("a", 1)
    return reason_of(world)


def hook_raises(raised: Exception) -> CheckpointDeclineReason:
    world = Coordination(task("a"), hooks=[Hook("hook", raised)], tolerable_failures=9)
    world.trigger()
    return reason_of(world)


CASES: dict[CheckpointFailureReason, Callable[[], CheckpointDeclineReason]] = {
    CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION: write_fails,
    CheckpointFailureReason.CHECKPOINT_DECLINED: batches_are_gone,
    CheckpointFailureReason.CHECKPOINT_EXPIRED: takes_too_long,
    CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE: metadata_fails,
    CheckpointFailureReason.IO_EXCEPTION: lambda: hook_raises(OSError("broken pipe")),
    CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE: lambda: hook_raises(ValueError("broken")),
}


@pytest.mark.parametrize("reason", CheckpointFailureReason)
def test_every_cause_that_can_be_tolerated_can_occur(reason: CheckpointFailureReason) -> None:
    occurred = CASES[reason]()

    assert occurred.value in (reason.value, reason.value.removeprefix("CHECKPOINT_"))
