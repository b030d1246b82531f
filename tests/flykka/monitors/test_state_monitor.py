"""Jobs, execution attempts and tasks follow their state-transition tables."""

from __future__ import annotations

import pytest

from flykka.actors.machines.states import EXECUTION_MOVES, JOB_MOVES, TASK_MOVES
from flykka.messages.attempt.answers import ChainClosed
from flykka.messages.control.job import ExecutionStateChanged, JobStatus, JobStatusChanged, RegisterJobClient
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.ref import Ref
from flykka.monitors.states import StateMonitor
from flykka.runtime.signals import DeathWatchNotification
from flykka.runtime.trace.records import Killed, Turn
from tests.flykka.monitors.turns import CLIENT, JOB, JOB_MASTER, TASK, TASK_MANAGER, attempt, turn, violations_of

E = ExecutionState
DUE = JobRestartDue(version=1)


def job_turn(*statuses: JobStatus, to: Ref = CLIENT) -> Turn:
    changes = (JobStatusChanged(job_id=JOB, status=status, timestamp_ms=0) for status in statuses)
    return turn(JOB_MASTER, DUE, *((to, change) for change in changes))


def execution_turn(*states: ExecutionState, number: int = 0) -> Turn:
    changes = (
        ExecutionStateChanged(job_id=JOB, attempt=attempt(0, number), task_name="map", state=state, timestamp_ms=0)
        for state in states
    )
    return turn(JOB_MASTER, DUE, *((CLIENT, change) for change in changes))


def task_turn(*states: ExecutionState) -> Turn:
    updates = (UpdateTaskExecutionState(state=TaskExecutionState(attempt=attempt(), state=state)) for state in states)
    return turn(TASK, ChainClosed(), *((JOB_MASTER, update) for update in updates))


@pytest.mark.parametrize("status", JOB_MOVES[JobStatus.RUNNING])
def test_a_job_may_make_the_transitions_of_its_table(status: JobStatus) -> None:
    assert violations_of(StateMonitor(), job_turn(JobStatus.RUNNING), job_turn(status)) == []


def test_a_job_must_not_make_other_transitions() -> None:
    violations = violations_of(
        StateMonitor(), job_turn(JobStatus.RUNNING, JobStatus.FINISHED), job_turn(JobStatus.RUNNING)
    )

    assert violations == ["job job moves from FINISHED to RUNNING"]


def test_every_listener_receives_every_transition() -> None:
    run = [
        job_turn(JobStatus.RUNNING),
        job_turn(JobStatus.RUNNING, to=TASK_MANAGER),
        job_turn(JobStatus.FINISHED, to=TASK_MANAGER),
    ]

    assert violations_of(StateMonitor(), *run) == []


def test_the_turn_of_a_killed_actor_may_follow_its_kill() -> None:
    killed = Killed(sequence=2, now_ms=0, ref=JOB_MASTER)
    news = turn(TASK_MANAGER, DeathWatchNotification(ref=JOB_MASTER))

    assert violations_of(StateMonitor(), job_turn(JobStatus.RUNNING), killed, news, job_turn(JobStatus.FINISHED)) == []


@pytest.mark.parametrize("state", EXECUTION_MOVES[E.RUNNING])
def test_an_attempt_may_make_the_transitions_of_its_table(state: ExecutionState) -> None:
    assert violations_of(StateMonitor(), execution_turn(E.SCHEDULED, E.DEPLOYING, E.RUNNING, state)) == []


def test_an_attempt_must_not_make_other_transitions() -> None:
    violations = violations_of(
        StateMonitor(), execution_turn(E.SCHEDULED, E.RUNNING), execution_turn(E.CANCELED, E.FINISHED)
    )

    assert violations == ["job_map_0_0 moves from SCHEDULED to RUNNING", "job_map_0_0 moves from CANCELED to FINISHED"]


def test_a_replaced_attempt_must_not_change_its_state() -> None:
    violations = violations_of(
        StateMonitor(),
        execution_turn(E.SCHEDULED, E.CANCELED),
        execution_turn(E.SCHEDULED, number=1),
        execution_turn(E.FAILED),
    )

    assert violations == ["job_map_0_0 moves to FAILED, but job_map_0_1 has replaced it"]


@pytest.mark.parametrize("state", TASK_MOVES[E.RUNNING])
def test_a_task_need_not_report_every_state(state: ExecutionState) -> None:
    assert violations_of(StateMonitor(), task_turn(E.RUNNING), task_turn(state)) == []
    assert violations_of(StateMonitor(), task_turn(E.CANCELED)) == []


def test_an_ended_task_must_not_run_again() -> None:
    violations = violations_of(StateMonitor(), task_turn(E.FAILED), task_turn(E.RUNNING))

    assert violations == ["job_map_0_0 moves from FAILED to RUNNING"]


def test_the_first_state_of_a_partial_run_is_accepted() -> None:
    run = [job_turn(JobStatus.FINISHED), execution_turn(E.RUNNING, E.FINISHED), task_turn(E.CANCELED)]

    assert violations_of(StateMonitor(is_whole=False), *run) == []


def test_ids_of_another_form_are_ignored() -> None:
    update = TaskExecutionState(attempt=ExecutionAttemptId("x"), state=E.FAILED)
    reports = [(JOB_MASTER, UpdateTaskExecutionState(state=update))]

    assert violations_of(StateMonitor(), turn(TASK, ChainClosed(), *reports)) == []


def test_a_late_listener_receives_the_current_states() -> None:
    register = RegisterJobClient(job_id=JOB, client=CLIENT)
    running = JobStatusChanged(job_id=JOB, status=JobStatus.FAILING, timestamp_ms=0)
    runs = ExecutionStateChanged(job_id=JOB, attempt=attempt(), task_name="map", state=E.RUNNING, timestamp_ms=0)

    notifying = turn(JOB_MASTER, register, (CLIENT, running), (CLIENT, runs))

    assert violations_of(StateMonitor(), notifying) == []


def test_a_job_manager_may_report_for_an_ended_job_master() -> None:
    restarting = JobStatusChanged(job_id=JOB, status=JobStatus.RESTARTING, timestamp_ms=0)

    assert violations_of(StateMonitor(), turn(Ref("/user/job-manager", 1), DUE, (CLIENT, restarting))) == []
