"""Messages for other jobs, ended attempts and unknown checkpoints have no effect; nor have duplicate, reordered and
late ones.
"""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.events import CoordinatorEffect, CoordinatorEvent
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    OperatorCoordinatorsSnapshotted,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    CheckpointTimedOut,
    CoordinatedTaskStateChanged,
    FinalCheckpointRetryDue,
    PeriodicTriggerDue,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    Coordination,
    acknowledgement,
    complete_checkpoint,
    planned_task,
    snapshot,
    two_tasks,
)

FOREIGN = JobId("another job")
DEAD = ExecutionAttemptId("former attempt")


def decline_message(attempt: str, checkpoint_id: int, job: JobId = JOB) -> DeclineCheckpoint:
    return DeclineCheckpoint(job_id=job, attempt=ExecutionAttemptId(attempt), checkpoint_id=checkpoint_id)


def only_ignored(made: list[CoordinatorEffect]) -> bool:
    return [type(effect) for effect in made] == [Ignore]


@pytest.mark.parametrize(
    "message",
    [
        acknowledgement("source", 1, job=FOREIGN),
        acknowledgement("source", 1, snapshot(exclusive=["of another job"], shared=["x"]), job=FOREIGN),
        decline_message("source", 1, FOREIGN),
        OperatorCoordinatorsSnapshotted(job_id=FOREIGN, checkpoint_id=1, states=()),
        OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=()),
        acknowledgement("source", 99),
        acknowledgement(DEAD, 1),
        decline_message("source", 99),
        CheckpointTimedOut(checkpoint_id=99),
        CoordinatedTaskStateChanged(job_id=JOB, attempt=DEAD, state=ExecutionState.FAILED),
        PeriodicTriggerDue(),
        FinalCheckpointRetryDue(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_about_unknown_checkpoints_or_tasks_are_ignored(message: CoordinatorEvent) -> None:
    world = two_tasks()
    world.trigger()

    made = world.handle(message)

    assert only_ignored(made)
    assert world.machine.pending[1].awaited == {"source", "sink"}


def test_state_of_a_foreign_job_is_not_ours_to_delete() -> None:
    world = two_tasks()
    world.trigger()

    world.handle(acknowledgement("source", 1, snapshot(exclusive=["theirs"]), job=FOREIGN))

    assert world.disposed() == []


def test_state_of_a_dead_attempt_is_deleted() -> None:
    world = two_tasks()
    world.trigger()

    world.acknowledge(DEAD, 1, snapshot(exclusive=["lost"], shared=["x"]))

    assert sorted(world.disposed()) == ["lost", "x"]
    assert world.machine.pending[1].awaited == {"source", "sink"}


def test_state_that_a_dead_attempt_shares_with_the_living_is_kept() -> None:
    world = two_tasks()
    complete_checkpoint(world, 1, shared=["x"])
    world.trigger()

    world.acknowledge(DEAD, 2, snapshot(exclusive=["lost"], shared=["x"]))

    assert world.disposed() == ["lost"]


def test_a_duplicate_acknowledgement_counts_once_with_its_first_state() -> None:
    world = two_tasks()
    world.trigger()

    made = [world.acknowledge("source", 1, snapshot(exclusive=["s"])) for _ in range(3)]
    world.acknowledge("sink", 1)
    again = world.acknowledge("source", 1, snapshot(exclusive=["s"]))

    assert [only_ignored(each) for each in made] == [False, True, True]
    assert only_ignored(again)
    assert (world.completed(), world.disposed()) == ([1], [])


def test_a_decline_after_the_acknowledgement_still_aborts_the_checkpoint() -> None:
    world = two_tasks(tolerable_failures=9)
    world.trigger()
    world.acknowledge("source", 1, snapshot(exclusive=["s"]))

    world.decline("source", 1)
    late = world.acknowledge("sink", 1, snapshot(exclusive=["t"]))

    assert world.disposed() == ["s", "t"]
    assert isinstance(late[0], Ignore)


def test_late_state_in_parts_is_deleted_part_by_part_and_once() -> None:
    world = two_tasks(tolerable_failures=9)
    world.trigger()
    world.decline("source", 1)

    for part in ("channels", "chain", "channels"):
        world.acknowledge("sink", 1, snapshot(exclusive=[part]))

    assert world.disposed() == ["channels", "chain"]


def test_an_answer_that_arrives_before_the_tasks_are_notified_counts() -> None:
    world = two_tasks(operator_coordinators=True)
    world.trigger()

    world.acknowledge("source", 1)
    world.acknowledge("sink", 1)
    early = world.completed()
    world.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=()))

    assert (early, world.completed()) == ([], [1])


def test_messages_of_earlier_attempts_reach_no_new_checkpoint() -> None:
    world = two_tasks(tolerable_failures=0)
    world.trigger()
    world.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    world.handle(events.TasksChanged(tasks=(planned_task("source 2"), planned_task("sink 2", is_source=False))))
    world.trigger()

    world.acknowledge("source", 1, snapshot(exclusive=["s"]))
    world.decline("sink", 1)
    world.acknowledge("source", 2)
    world.handle(CheckpointTimedOut(checkpoint_id=1))

    assert world.machine.pending[2].awaited == {"source 2", "sink 2"}
    assert world.effects(CheckpointFailuresExceeded) == []
    assert world.disposed() == ["s"]


def test_a_finished_task_is_not_notified_of_an_abort_that_others_get() -> None:
    world = Coordination(planned_task("a"), planned_task("b"), tolerable_failures=9)
    world.trigger()
    world.set_state("a", ExecutionState.FAILED)

    world.decline("b", 1)

    assert [told.attempt for told in world.effects(NotifyCheckpointAborted)] == ["b"]


def test_a_forgotten_checkpoint_is_distinguished_from_a_completed_one() -> None:
    world = two_tasks()
    for checkpoint_id in range(1, 20):
        complete_checkpoint(world, checkpoint_id)

    forgotten = world.acknowledge("source", 1, snapshot(exclusive=["old"]))
    latest = world.acknowledge("source", 19, snapshot(exclusive=["doubled"]))

    assert isinstance(forgotten[0], Ignore)
    assert only_ignored(latest)
    assert "old" in world.disposed()
    assert "doubled" not in world.disposed()
