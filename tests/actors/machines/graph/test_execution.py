"""State transitions of an attempt that Flink's own test cases do not cover."""

from __future__ import annotations

import pytest

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.graph.events import ExecutionMoved
from flykka.actors.machines.graph.execution import Execution, LeaveSlot
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.task import CancelTask, ExecutionState, TaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from tests.actors.machines.graph.graphs import failure, slot

ATTEMPT = ExecutionAttemptId("job_v_0_0")


def new_execution() -> Execution:
    return Execution(attempt=ATTEMPT, number=0, vertex_id=JobVertexId("v"), subtask=0, name="v (1/1)", now=0)


def deployed() -> Execution:
    execution = new_execution()
    execution.schedule(now=1)
    execution.assign(slot())
    execution.deploy(now=2)
    return execution


def execution_state(state: ExecutionState) -> TaskExecutionState:
    return TaskExecutionState(attempt=ATTEMPT, state=state)


def test_a_transition_reports_the_previous_state_and_the_task_manager() -> None:
    moved = deployed().update(execution_state(ExecutionState.RUNNING), now=3)

    assert moved == [
        ExecutionMoved(
            attempt=ATTEMPT,
            task_name="v (1/1)",
            previous=ExecutionState.DEPLOYING,
            state=ExecutionState.RUNNING,
            task_manager_id=slot().task_manager_id,
        )
    ]


def test_the_time_of_every_state_is_recorded() -> None:
    execution = deployed()

    assert execution.timestamps == {
        ExecutionState.CREATED: 0,
        ExecutionState.SCHEDULED: 1,
        ExecutionState.DEPLOYING: 2,
    }


def test_an_attempt_without_a_slot_cannot_be_deployed() -> None:
    with pytest.raises(IllegalTransitionError, match="no slot"):
        new_execution().deploy(now=1)


def test_the_initial_state_is_sent_with_the_deployment() -> None:
    execution = new_execution()
    execution.restore = TaskStateSnapshot()
    execution.assign(slot())

    execution.deploy(now=1)

    assert execution.restore is None


def test_cancelling_twice_notifies_the_task_once() -> None:
    execution = deployed()

    first, second = execution.cancel(now=3), execution.cancel(now=4)

    assert first[-1] == Tell(to=slot().task_manager, message=CancelTask(attempt=ATTEMPT))
    assert second == []


def test_an_attempt_cancelled_before_its_deployment_passes_through_canceling() -> None:
    execution = new_execution()

    execution.cancel(now=2)

    assert execution.state is ExecutionState.CANCELED
    assert execution.timestamps[ExecutionState.CANCELING] == execution.timestamps[ExecutionState.CANCELED] == 2


def test_an_attempt_without_a_slot_request_releases_no_slot() -> None:
    assert [type(effect) for effect in new_execution().cancel(now=1)] == [ExecutionMoved]


def test_a_slot_is_released_before_the_end_is_reported() -> None:
    effects = deployed().fail(failure(), now=3)

    assert [type(effect) for effect in effects] == [LeaveSlot, ExecutionMoved]


def test_a_failure_without_a_cause_gets_a_default_one() -> None:
    execution = deployed()

    execution.update(execution_state(ExecutionState.FAILED), now=3)

    assert execution.failure is not None
    assert ATTEMPT in execution.failure.message


@pytest.mark.parametrize("state", [ExecutionState.CREATED, ExecutionState.DEPLOYING, ExecutionState.CANCELING])
def test_a_task_cannot_report_states_that_the_job_master_decides(state: ExecutionState) -> None:
    execution = deployed()

    assert [type(effect) for effect in execution.update(execution_state(state), now=3)] == [Ignore]
    assert execution.state is ExecutionState.DEPLOYING


def test_a_running_report_after_a_cancellation_is_ignored() -> None:
    execution = deployed()
    execution.cancel(now=3)

    assert [type(effect) for effect in execution.update(execution_state(ExecutionState.RUNNING), now=4)] == [Ignore]


def test_a_report_for_an_undeployed_attempt_fails_it() -> None:
    execution = new_execution()
    execution.schedule(now=1)

    execution.update(execution_state(ExecutionState.FINISHED), now=2)

    assert execution.state is ExecutionState.FAILED


def test_an_attempt_that_failed_before_it_had_a_slot_cannot_run() -> None:
    execution = new_execution()
    execution.schedule(now=1)
    execution.fail(failure(), now=2)

    assert [type(effect) for effect in execution.update(execution_state(ExecutionState.RUNNING), now=3)] == [Ignore]
