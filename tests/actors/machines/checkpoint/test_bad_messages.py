"""Messages for other jobs, ended attempts and unknown checkpoints have no effect. The same holds for duplicate,
reordered and late messages.
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
    harness = two_tasks()
    harness.trigger()

    made = harness.handle(message)

    assert only_ignored(made)
    assert harness.machine.pending[1].awaited == {"source", "sink"}


def test_state_of_a_foreign_job_is_not_deleted() -> None:
    harness = two_tasks()
    harness.trigger()

    harness.handle(acknowledgement("source", 1, snapshot(exclusive=["theirs"]), job=FOREIGN))

    assert harness.disposed() == []


def test_state_of_an_ended_attempt_is_deleted() -> None:
    harness = two_tasks()
    harness.trigger()

    harness.acknowledge(DEAD, 1, snapshot(exclusive=["lost"], shared=["x"]))

    assert sorted(harness.disposed()) == ["lost", "x"]
    assert harness.machine.pending[1].awaited == {"source", "sink"}


def test_state_that_an_ended_attempt_shares_with_a_live_one_is_kept() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1, shared=["x"])
    harness.trigger()

    harness.acknowledge(DEAD, 2, snapshot(exclusive=["lost"], shared=["x"]))

    assert harness.disposed() == ["lost"]


def test_a_duplicate_acknowledgement_counts_once_with_its_first_state() -> None:
    harness = two_tasks()
    harness.trigger()

    made = [harness.acknowledge("source", 1, snapshot(exclusive=["s"])) for _ in range(3)]
    harness.acknowledge("sink", 1)
    again = harness.acknowledge("source", 1, snapshot(exclusive=["s"]))

    assert [only_ignored(each) for each in made] == [False, True, True]
    assert only_ignored(again)
    assert (harness.completed(), harness.disposed()) == ([1], [])


def test_a_decline_after_an_acknowledgement_aborts_the_checkpoint() -> None:
    harness = two_tasks(tolerable_failures=9)
    harness.trigger()
    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))

    harness.decline("source", 1)
    late = harness.acknowledge("sink", 1, snapshot(exclusive=["t"]))

    assert harness.disposed() == ["s", "t"]
    assert isinstance(late[0], Ignore)


def test_late_state_reported_in_parts_is_deleted_part_by_part_and_once() -> None:
    harness = two_tasks(tolerable_failures=9)
    harness.trigger()
    harness.decline("source", 1)

    for part in ("channels", "chain", "channels"):
        harness.acknowledge("sink", 1, snapshot(exclusive=[part]))

    assert harness.disposed() == ["channels", "chain"]


def test_an_acknowledgement_before_the_tasks_are_notified_counts() -> None:
    harness = two_tasks(operator_coordinators=True)
    harness.trigger()

    harness.acknowledge("source", 1)
    harness.acknowledge("sink", 1)
    early = harness.completed()
    harness.handle(OperatorCoordinatorsSnapshotted(job_id=JOB, checkpoint_id=1, states=()))

    assert (early, harness.completed()) == ([], [1])


def test_messages_of_earlier_attempts_do_not_affect_a_new_checkpoint() -> None:
    harness = two_tasks(tolerable_failures=0)
    harness.trigger()
    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    harness.handle(events.TasksChanged(tasks=(planned_task("source 2"), planned_task("sink 2", is_source=False))))
    harness.trigger()

    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))
    harness.decline("sink", 1)
    harness.acknowledge("source", 2)
    harness.handle(CheckpointTimedOut(checkpoint_id=1))

    assert harness.machine.pending[2].awaited == {"source 2", "sink 2"}
    assert harness.effects(CheckpointFailuresExceeded) == []
    assert harness.disposed() == ["s"]


def test_a_finished_task_is_not_notified_of_an_abort() -> None:
    harness = Coordination(planned_task("a"), planned_task("b"), tolerable_failures=9)
    harness.trigger()
    harness.set_state("a", ExecutionState.FAILED)

    harness.decline("b", 1)

    assert [message.attempt for message in harness.effects(NotifyCheckpointAborted)] == ["b"]


def test_an_unknown_checkpoint_is_distinguished_from_a_completed_one() -> None:
    harness = two_tasks()
    for checkpoint_id in range(1, 20):
        complete_checkpoint(harness, checkpoint_id)

    forgotten = harness.acknowledge("source", 1, snapshot(exclusive=["old"]))
    latest = harness.acknowledge("source", 19, snapshot(exclusive=["doubled"]))

    assert isinstance(forgotten[0], Ignore)
    assert only_ignored(latest)
    assert "old" in harness.disposed()
    assert "doubled" not in harness.disposed()
