"""The life of an attempt on its TaskManager."""

import pytest

from flykka.actors.machines.attempt.attempt_life import AttemptLife
from flykka.actors.machines.attempt.effects import EndAttempt, TaskEffect
from flykka.actors.machines.attempt.task_cancellation import INTERVAL_MS
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.messages.attempt.answers import ChainClosed
from flykka.messages.attempt.commands import CancelWork, CloseChain
from flykka.messages.graph.job_graph import TaskCancellationSettings
from flykka.messages.tasks.task import CancellationDue, ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId

ATTEMPT = ExecutionAttemptId("job_vertex_0_0")
BOOM = SerializedThrowable(type_name="ValueError", message="boom")


def running() -> AttemptLife:
    life = AttemptLife(ATTEMPT)
    life.deploy(TaskCancellationSettings())
    life.run()
    return life


def report(state: ExecutionState, failure: SerializedThrowable | None = None) -> Tell[Role]:
    reached = TaskExecutionState(attempt=ATTEMPT, state=state, failure=failure)
    return Tell(to=Role.JOB_MASTER, message=UpdateTaskExecutionState(state=reached))


def test_running_is_reported_when_the_bridge_is_ready() -> None:
    life = AttemptLife(ATTEMPT)
    life.deploy(TaskCancellationSettings())

    effects = life.run()

    assert effects == [report(ExecutionState.RUNNING)]
    assert life.is_running


@pytest.mark.parametrize(
    ("end", "cancel", "reported"),
    [
        (lambda life: life.finish(), False, report(ExecutionState.FINISHED)),
        (lambda life: life.cancel(), True, report(ExecutionState.CANCELED)),
        (lambda life: life.fail(BOOM), True, report(ExecutionState.FAILED, BOOM)),
    ],
)
def test_an_end_closes_the_bridge_first_and_is_reported_when_it_is_closed(end, cancel, reported) -> None:
    life = running()

    closing: list[TaskEffect] = end(life)
    closing += life.close()
    closed = life.chain_closed(ChainClosed())

    cancelled = [Tell(to=Role.BRIDGE, message=CancelWork())] if cancel else []
    watched = [StartTimer(key="cancellation", delay_ms=INTERVAL_MS, message=CancellationDue())] if cancel else []
    assert closing == [*cancelled, Tell(to=Role.BRIDGE, message=CloseChain(cancel=cancel)), *watched]
    assert closed == [reported, EndAttempt()]
    assert not life.is_running


def test_the_first_reason_to_end_counts() -> None:
    life = running()
    life.fail(BOOM)

    late = life.cancel()

    assert late == [Ignore(reason="the attempt is already on its way to FAILED")]
    assert life.chain_closed(ChainClosed())[0] == report(ExecutionState.FAILED, BOOM)


def test_a_bridge_that_dies_fails_the_attempt() -> None:
    life = running()

    effects = life.bridge_lost(BOOM)

    assert effects == [report(ExecutionState.FAILED, BOOM), EndAttempt()]


def test_a_bridge_that_dies_while_closing_is_closed() -> None:
    life = running()
    life.cancel()

    effects = life.bridge_lost(BOOM)

    assert effects == [report(ExecutionState.CANCELED), EndAttempt()]


def test_an_attempt_cancelled_while_it_restores_never_runs() -> None:
    life = AttemptLife(ATTEMPT)
    life.deploy(TaskCancellationSettings())
    life.cancel()

    effects = life.run()

    assert effects == [Ignore(reason="the attempt is on its way to CANCELED")]
    assert life.state is ExecutionState.CANCELING


@pytest.mark.parametrize(
    ("end", "reported"),
    [
        (lambda life: life.cancel(), report(ExecutionState.CANCELED)),
        (lambda life: life.fail(BOOM), report(ExecutionState.FAILED, BOOM)),
    ],
)
def test_an_attempt_has_not_finished_before_its_bridge_has_closed(end, reported) -> None:
    life = running()
    life.finish()

    closing: list[TaskEffect] = end(life)
    closed = life.chain_closed(ChainClosed())

    cancelled = [Tell(to=Role.BRIDGE, message=CancelWork()), Tell(to=Role.BRIDGE, message=CloseChain(cancel=True))]
    assert closing == [*cancelled, StartTimer(key="cancellation", delay_ms=INTERVAL_MS, message=CancellationDue())]
    assert closed == [reported, EndAttempt()]


def test_a_chain_that_closes_already_is_cancelled_and_not_closed_again() -> None:
    life = running()
    life.finish()
    life.close()

    cancelled = life.cancel()

    assert cancelled == [
        Tell(to=Role.BRIDGE, message=CancelWork()),
        StartTimer(key="cancellation", delay_ms=INTERVAL_MS, message=CancellationDue()),
    ]
    assert life.chain_closed(ChainClosed()) == [report(ExecutionState.CANCELED), EndAttempt()]


@pytest.mark.parametrize(
    ("end", "reported"),
    [
        (lambda life: life.finish(), report(ExecutionState.FAILED, BOOM)),
        (lambda life: life.cancel(), report(ExecutionState.CANCELED)),
    ],
)
def test_functions_that_fail_at_the_end_fail_an_attempt_that_would_have_finished(end, reported) -> None:
    life = running()
    end(life)

    assert life.chain_closed(ChainClosed(failure=BOOM)) == [reported, EndAttempt()]
