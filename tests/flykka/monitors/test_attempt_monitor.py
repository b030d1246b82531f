"""At most one attempt of a subtask runs, and reports of ended attempts have no effect."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import CoordinatedTaskStateChanged, RestoreState
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    SubmitTask,
    TaskDeploymentDescriptor,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.attempts import AttemptMonitor
from flykka.runtime.trace.records import Turn
from tests.actors.machines.graph.graphs import vertex
from tests.flykka.monitors.turns import CLIENT, COORDINATOR, JOB, JOB_MASTER, TASK_MANAGER, attempt, turn, violations_of

DUE = JobRestartDue(version=1)


def submit(number: int = 0, restored_id: int | None = None) -> tuple[Ref, Message]:
    descriptor = TaskDeploymentDescriptor(
        job_id=JOB,
        attempt=attempt(0, number),
        attempt_number=number,
        vertex=vertex("map"),
        subtask=0,
        allocation_id=AllocationId("slot"),
        outputs=(),
        inputs=(),
        checkpoint_directory="",
        restored_checkpoint_id=restored_id,
    )
    submitted = SubmitTask(descriptor=descriptor, job_master=JOB_MASTER)
    return TASK_MANAGER, LeaderSessionMessage(leader_session_id=LeaderSessionId("session"), message=submitted)


def state_change(state: ExecutionState, number: int = 0) -> tuple[Ref, Message]:
    return COORDINATOR, CoordinatedTaskStateChanged(job_id=JOB, attempt=attempt(0, number), state=state)


def state_update(state: ExecutionState, number: int, *sends: tuple[Ref, Message]) -> Turn:
    update = TaskExecutionState(attempt=attempt(0, number), state=state)
    return turn(JOB_MASTER, UpdateTaskExecutionState(state=update), *sends)


def state_report(reporter: ExecutionAttemptId, state: ExecutionState) -> tuple[Ref, Message]:
    change = ExecutionStateChanged(job_id=JOB, attempt=reporter, task_name="map", state=state, timestamp_ms=0)
    return CLIENT, change


def test_an_attempt_may_follow_an_ended_one() -> None:
    failed = state_update(
        ExecutionState.FAILED, 0, state_change(ExecutionState.FAILED), state_report(attempt(), ExecutionState.FAILED)
    )

    assert (
        violations_of(AttemptMonitor(), turn(JOB_MASTER, DUE, submit(0)), failed, turn(JOB_MASTER, DUE, submit(1)))
        == []
    )


def test_an_attempt_must_not_be_deployed_while_another_of_its_subtask_runs() -> None:
    violations = violations_of(AttemptMonitor(), turn(JOB_MASTER, DUE, submit(0)), turn(JOB_MASTER, DUE, submit(1)))

    assert violations == ["job_map_0_1 is deployed while job_map_0_0 is running"]


def test_attempt_numbers_must_increase() -> None:
    ended = turn(JOB_MASTER, DUE, state_change(ExecutionState.CANCELED, 1))
    violations = violations_of(
        AttemptMonitor(), turn(JOB_MASTER, DUE, submit(1)), ended, turn(JOB_MASTER, DUE, submit(1))
    )

    assert violations == ["job_map_0_1 is deployed after job_map_0_1: attempt numbers must increase"]


def test_reports_of_an_ended_attempt_must_have_no_effect() -> None:
    ended = turn(JOB_MASTER, DUE, state_change(ExecutionState.CANCELED))
    run = [turn(JOB_MASTER, DUE, submit(0)), ended, turn(JOB_MASTER, DUE, submit(1))]
    cancel = (TASK_MANAGER, CancelTask(attempt=attempt()))

    assert violations_of(AttemptMonitor(), *run, state_update(ExecutionState.FAILED, 0)) == []
    assert violations_of(AttemptMonitor(), *run, state_update(ExecutionState.RUNNING, 0, cancel)) == []
    violations = violations_of(
        AttemptMonitor(),
        *run,
        state_update(ExecutionState.FINISHED, 0, state_report(attempt(), ExecutionState.FINISHED)),
    )
    assert violations == ["the report FINISHED of job_map_0_0, which has ended, causes ExecutionStateChanged"]


def test_an_attempt_must_start_from_the_restored_checkpoint_of_the_job() -> None:
    checkpoint = CompletedCheckpoint(job_id=JOB, checkpoint_id=3, timestamp_ms=0, duration_ms=0, task_states=())
    restored = RestoreState(job_id=JOB, checkpoint=checkpoint)

    assert violations_of(AttemptMonitor(), turn(JOB_MASTER, restored, submit(0, restored_id=3))) == []
    violations = violations_of(AttemptMonitor(), turn(JOB_MASTER, restored, submit(0, restored_id=2)))
    assert violations == ["job_map_0_0 begins from checkpoint 2, but the job was restored from 3"]
