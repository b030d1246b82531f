"""Master hooks are triggered before the tasks, and their state is restored before the job starts."""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.coordinator import CheckpointCoordinatorMachine
from flykka.actors.machines.checkpoint.events import CoordinatorEffect
from flykka.actors.machines.checkpoint.pending import CoordinatedJob
from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CheckpointFailure,
    MasterState,
    NotifyCheckpointAborted,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    CheckpointIds,
    CheckpointsRecovered,
    MasterHookFailed,
    MasterHookRestoreFailed,
    MasterHooksRestored,
    MasterHooksTriggered,
    MetadataRead,
    RequestRestoreState,
    RestoreState,
    RestoreStateFailed,
    StopCheckpointing,
)
from flykka.messages.control.job import CheckpointAborted, JobStatus
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    acknowledgement,
    completed_checkpoint,
    planned_task,
    settings,
)

STATE = MasterState(identifier="a", data=b"state")
BROKEN = SerializedThrowable(type_name="ValueError", message="broken")


class Hooked:
    """A machine with master hooks that complete when the test says so."""

    def __init__(self, *hooks: str, **changed: Any) -> None:
        self.machine = CheckpointCoordinatorMachine(
            CoordinatedJob(job_id=JOB), settings(**changed), operator_coordinators=False, master_hooks=hooks
        )
        self.handle(CheckpointsRecovered(ids=CheckpointIds(first=1, count=8)))
        self.handle(events.TasksChanged(tasks=(planned_task("source"),)))

    def handle(self, event: Any) -> list[CoordinatorEffect]:
        made = self.machine.handle(event, 0)
        self.machine.check()
        return made

    def trigger(self, checkpoint_id: int = 1) -> list[CoordinatorEffect]:
        self.handle(events.TriggerRequested(properties=_checkpoint()))
        return self.handle(events.CheckpointIdDrawn(checkpoint_id=checkpoint_id))


def _checkpoint() -> CheckpointProperties:
    return for_checkpoint()


def test_tasks_are_triggered_after_the_hooks_have_run() -> None:
    job = Hooked("a")

    began = job.trigger()
    hooked = job.handle(MasterHooksTriggered(checkpoint_id=1, states=(STATE,)))
    acknowledged = job.handle(acknowledgement("source", 1))

    assert events.TriggerMasterHooks(checkpoint_id=1, timestamp_ms=0) in began
    assert not [effect for effect in began if isinstance(effect, TriggerCheckpoint)]
    assert [type(effect) for effect in hooked] == [TriggerCheckpoint]
    [write] = [effect for effect in acknowledged if isinstance(effect, events.WriteMetadata)]
    assert write.checkpoint.master_states == (STATE,)


def test_a_failing_hook_aborts_the_checkpoint_but_not_the_job() -> None:
    job = Hooked("a")
    job.trigger()

    made = job.handle(MasterHookFailed(checkpoint_id=1, cause=BROKEN))

    (aborted,) = (each for each in made if isinstance(each, CheckpointAborted))
    failure = CheckpointFailure(
        reason=CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE, cause=BROKEN, times=1, since_ms=0
    )
    assert (aborted.reason, aborted.failure) == (failure.reason, failure)
    assert not [effect for effect in made if isinstance(effect, CheckpointFailuresExceeded | NotifyCheckpointAborted)]


@pytest.mark.parametrize(
    "late", [MasterHooksTriggered(checkpoint_id=1), MasterHookFailed(checkpoint_id=1, cause=BROKEN)]
)
def test_late_or_duplicate_results_of_hooks_are_ignored(late: Any) -> None:
    job = Hooked("a")
    job.trigger()
    job.handle(MasterHooksTriggered(checkpoint_id=1))

    again = job.handle(late)
    unknown = job.handle(MasterHooksTriggered(checkpoint_id=99))
    nobody = job.handle(MasterHooksRestored(version=3))

    assert [type(effect) for effect in [*again, *unknown, *nobody]] == [Ignore] * 3


def test_the_next_request_waits_for_the_hooks() -> None:
    job = Hooked("a")
    job.trigger()

    waiting = job.handle(events.TriggerRequested(properties=_checkpoint()))
    released = job.handle(MasterHooksTriggered(checkpoint_id=1))

    assert waiting == []
    assert events.DrawCheckpointId() in released


def test_the_hooks_restore_before_the_tasks_get_their_state() -> None:
    job = Hooked("a", "b")
    checkpoint = completed_checkpoint(13, master_states=(STATE,))

    asked = job.handle(MetadataRead(version=1, checkpoint=checkpoint))
    answered = job.handle(MasterHooksRestored(version=1))

    assert asked[-1] == events.RestoreMasterHooks(version=1, checkpoint_id=13, states=(("a", b"state"), ("b", None)))
    assert answered == [RestoreState(job_id=JOB, version=1, checkpoint=checkpoint)]


def test_master_hooks_are_reset_if_there_is_no_checkpoint() -> None:
    job = Hooked("a")

    made = job.handle(RequestRestoreState(job_id=JOB, version=1))

    assert made[-1] == events.RestoreMasterHooks(version=1, checkpoint_id=None, states=(("a", None),))


def test_master_hooks_are_not_restored_without_state_in_the_checkpoint() -> None:
    job = Hooked("a")
    checkpoint = completed_checkpoint(13)

    made = job.handle(MetadataRead(version=1, checkpoint=checkpoint))

    assert made[-1] == RestoreState(job_id=JOB, version=1, checkpoint=checkpoint)


def test_state_of_a_removed_hook_prevents_a_restore_unless_allowed() -> None:
    strict, lenient = Hooked("b"), Hooked("b")
    checkpoint = completed_checkpoint(13, master_states=(STATE,))

    refused = strict.handle(MetadataRead(version=1, checkpoint=checkpoint))
    allowed = lenient.handle(MetadataRead(version=1, checkpoint=checkpoint, allow_non_restored_state=True))

    assert isinstance(refused[-1], RestoreStateFailed)
    assert refused[-1].cause.message.startswith("checkpoint 13 holds state of the master hooks a, and the job has no")
    assert allowed[-1] == events.RestoreMasterHooks(version=1, checkpoint_id=13, states=(("b", None),))


def test_a_hook_that_cannot_restore_prevents_the_start_of_the_job() -> None:
    job = Hooked("a")
    job.handle(RequestRestoreState(job_id=JOB, version=1))

    made = job.handle(MasterHookRestoreFailed(version=1, cause=BROKEN))

    assert made == [RestoreStateFailed(job_id=JOB, version=1, cause=BROKEN)]


def test_master_hooks_are_closed_when_the_job_has_ended() -> None:
    job = Hooked("a")

    made = job.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.CANCELED))

    assert events.CloseMasterHooks() in made
