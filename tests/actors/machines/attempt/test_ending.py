"""States of an attempt on its TaskManager, and the end of the attempt."""

from __future__ import annotations

import pytest

from flykka.actors.machines.attempt.ending import INTERVAL_MS, TIMEOUT_MS, AttemptState, TaskCancellation
from flykka.actors.machines.attempt.events import EndAttempt, StartTask, TaskEffect
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_DISPOSED_ERROR
from flykka.messages.attempt.answers import ChainClosed, ChainOpened
from flykka.messages.attempt.commands import CancelWork, CloseChain, InterruptWork
from flykka.messages.graph.job_graph import OperatorKind, TaskCancellationSettings
from flykka.messages.tasks.task import (
    CancellationDue,
    ExecutionState,
    FatalErrorOccurred,
    PartitionProducerState,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, ResultPartitionId
from tests.actors.machines.attempt.attempt_machine import Harness, descriptor

ATTEMPT = ExecutionAttemptId("job_vertex_0_0")
BOOM = SerializedThrowable(type_name="ValueError", message="boom")


def running() -> AttemptState:
    state = AttemptState(ATTEMPT)
    state.deploy(TaskCancellationSettings())
    state.run()
    return state


def report(state: ExecutionState, failure: SerializedThrowable | None = None) -> Tell[Role]:
    reached = TaskExecutionState(attempt=ATTEMPT, state=state, failure=failure)
    return Tell(to=Role.JOB_MASTER, message=UpdateTaskExecutionState(state=reached))


def test_running_is_reported_when_the_bridge_is_ready() -> None:
    state = AttemptState(ATTEMPT)
    state.deploy(TaskCancellationSettings())

    effects = state.run()

    assert effects == [report(ExecutionState.RUNNING)]
    assert state.is_running


@pytest.mark.parametrize(
    ("end", "cancel", "reported"),
    [
        (lambda state: state.finish(), False, report(ExecutionState.FINISHED)),
        (lambda state: state.cancel(), True, report(ExecutionState.CANCELED)),
        (lambda state: state.fail(BOOM), True, report(ExecutionState.FAILED, BOOM)),
    ],
)
def test_an_ending_attempt_closes_the_bridge_before_it_reports_its_end(end, cancel, reported) -> None:
    state = running()

    closing: list[TaskEffect] = end(state)
    closing += state.close()
    closed = state.chain_closed(ChainClosed())

    cancelled = [Tell(to=Role.BRIDGE, message=CancelWork())] if cancel else []
    watched = [StartTimer(key="cancellation", delay_ms=INTERVAL_MS, message=CancellationDue())] if cancel else []
    assert closing == [*cancelled, Tell(to=Role.BRIDGE, message=CloseChain(cancel=cancel)), *watched]
    assert closed == [reported, EndAttempt()]
    assert not state.is_running


def test_the_first_cause_determines_how_an_attempt_ends() -> None:
    state = running()
    state.fail(BOOM)

    late = state.cancel()

    assert late == [Ignore(reason="the attempt is already ending as FAILED")]
    assert state.chain_closed(ChainClosed())[0] == report(ExecutionState.FAILED, BOOM)


def test_an_attempt_fails_if_its_bridge_is_lost() -> None:
    state = running()

    effects = state.bridge_lost(BOOM)

    assert effects == [report(ExecutionState.FAILED, BOOM), EndAttempt()]


def test_a_bridge_lost_while_closing_counts_as_closed() -> None:
    state = running()
    state.cancel()

    effects = state.bridge_lost(BOOM)

    assert effects == [report(ExecutionState.CANCELED), EndAttempt()]


def test_an_attempt_cancelled_while_restoring_never_runs() -> None:
    state = AttemptState(ATTEMPT)
    state.deploy(TaskCancellationSettings())
    state.cancel()

    effects = state.run()

    assert effects == [Ignore(reason="the attempt is ending as CANCELED")]
    assert state.current is ExecutionState.CANCELING


@pytest.mark.parametrize(
    ("end", "reported"),
    [
        (lambda state: state.cancel(), report(ExecutionState.CANCELED)),
        (lambda state: state.fail(BOOM), report(ExecutionState.FAILED, BOOM)),
    ],
)
def test_an_attempt_is_finished_only_after_its_bridge_has_closed(end, reported) -> None:
    state = running()
    state.finish()

    closing: list[TaskEffect] = end(state)
    closed = state.chain_closed(ChainClosed())

    cancelled = [Tell(to=Role.BRIDGE, message=CancelWork()), Tell(to=Role.BRIDGE, message=CloseChain(cancel=True))]
    assert closing == [*cancelled, StartTimer(key="cancellation", delay_ms=INTERVAL_MS, message=CancellationDue())]
    assert closed == [reported, EndAttempt()]


def test_a_chain_that_is_already_closing_is_cancelled_and_not_closed_again() -> None:
    state = running()
    state.finish()
    state.close()

    cancelled = state.cancel()

    assert cancelled == [
        Tell(to=Role.BRIDGE, message=CancelWork()),
        StartTimer(key="cancellation", delay_ms=INTERVAL_MS, message=CancellationDue()),
    ]
    assert state.chain_closed(ChainClosed()) == [report(ExecutionState.CANCELED), EndAttempt()]


@pytest.mark.parametrize(
    ("end", "reported"),
    [
        (lambda state: state.finish(), report(ExecutionState.FAILED, BOOM)),
        (lambda state: state.cancel(), report(ExecutionState.CANCELED)),
    ],
)
def test_functions_that_fail_in_close_fail_a_finishing_attempt(end, reported) -> None:
    state = running()
    end(state)

    assert state.chain_closed(ChainClosed(failure=BOOM)) == [reported, EndAttempt()]


AGAIN = (Tell(to=Role.BRIDGE, message=CancelWork()), Tell(to=Role.BRIDGE, message=InterruptWork()))


def cancellation(interval_ms: int | None = None, timeout_ms: int | None = None) -> TaskCancellation:
    return TaskCancellation(ATTEMPT, TaskCancellationSettings(interval_ms=interval_ms, timeout_ms=timeout_ms))


def test_the_cancellation_is_repeated_at_each_interval_until_the_timeout() -> None:
    watched = cancellation(interval_ms=20, timeout_ms=50)

    began = watched.start_watchdog(1_000)
    effects = [watched.on_due(1_020), watched.on_due(1_040)]
    (fatal,) = watched.on_due(1_050)

    assert began == [StartTimer(key="cancellation", delay_ms=20, message=CancellationDue())]
    assert effects == [
        [*AGAIN, StartTimer(key="cancellation", delay_ms=20, message=CancellationDue())],
        [*AGAIN, StartTimer(key="cancellation", delay_ms=10, message=CancellationDue())],
    ]
    assert isinstance(fatal, Tell)
    assert isinstance(fatal.message, FatalErrorOccurred)
    assert "job_vertex_0_0 did not end within 50 ms" in fatal.message.cause.message


def test_an_attempt_without_a_cancellation_timeout_waits_forever() -> None:
    watched = cancellation(interval_ms=20, timeout_ms=0)
    watched.start_watchdog(0)

    assert watched.on_due(1_000_000) == [*AGAIN, StartTimer(key="cancellation", delay_ms=20, message=CancellationDue())]


def test_the_cancellation_timeout_starts_at_the_first_cause() -> None:
    watched = cancellation(interval_ms=20, timeout_ms=50)
    watched.start_watchdog(0)

    assert watched.start_watchdog(40) == []
    (fatal,) = watched.on_due(50)
    assert isinstance(fatal, Tell)
    assert isinstance(fatal.message, FatalErrorOccurred)


@pytest.mark.parametrize(
    ("cluster", "job", "expected"),
    [
        ((None, None), (None, None), (INTERVAL_MS, TIMEOUT_MS)),
        ((1, 2), (None, None), (1, 2)),
        ((1, 2), (3, None), (3, 2)),
        ((1, 2), (None, 0), (1, 0)),
    ],
)
def test_job_settings_take_precedence_over_cluster_settings(
    cluster: tuple[int | None, int | None], job: tuple[int | None, int | None], expected: tuple[int, int]
) -> None:
    watched = cancellation(*cluster)

    watched.configure(TaskCancellationSettings(interval_ms=job[0], timeout_ms=job[1]))

    assert (watched.interval_ms, watched.timeout_ms) == expected


E = ExecutionState
WAITS, CANCELS, FAILS = None, E.CANCELED, E.FAILED
PRODUCERS = {
    E.CREATED: FAILS,
    E.SCHEDULED: WAITS,
    E.DEPLOYING: WAITS,
    E.RUNNING: WAITS,
    E.FINISHED: WAITS,
    E.CANCELING: CANCELS,
    E.CANCELED: CANCELS,
    E.FAILED: CANCELS,
    E.RECONCILING: FAILS,
}


def answer(state: ExecutionState | None = None, failure: str | None = None) -> PartitionProducerState:
    return PartitionProducerState(
        attempt=ATTEMPT,
        partition_id=ResultPartitionId("job_u_0_0:0"),
        state=state,
        failure=None if failure is None else SerializedThrowable(type_name=failure, message="why"),
    )


def end_after(producer: PartitionProducerState) -> ExecutionState | None:
    state = running()
    state.on_producer_state(producer)
    return state.ending


@pytest.mark.parametrize("state", ExecutionState)
def test_a_consumer_waits_for_a_producer_unless_it_failed_or_is_unknown(state: ExecutionState) -> None:
    assert end_after(answer(state)) is PRODUCERS[state]


def test_the_failure_of_an_unrelated_attempt_is_ignored() -> None:
    assert end_after(answer(failure=PRODUCER_DISPOSED_ERROR)) is CANCELS


def test_an_unknown_producer_fails_the_attempt() -> None:
    state = running()
    state.on_producer_state(answer(failure="PartitionProducerUnknownError"))

    failure = SerializedThrowable(type_name="PartitionProducerUnknownError", message="why")
    assert state.chain_closed(ChainClosed()) == [report(E.FAILED, failure), EndAttempt()]


@pytest.mark.parametrize("events", [(StartTask(),), (StartTask(), ChainOpened())], ids=["DEPLOYING", "RUNNING"])
def test_a_failed_producer_cancels_a_starting_or_running_consumer(
    events: tuple[StartTask | ChainOpened],
) -> None:
    task = Harness(descriptor(OperatorKind.STATELESS, channels=1))

    task.feed(*events, answer(E.FAILED))

    assert task.machine.state.current is E.CANCELING


def test_an_ending_attempt_ignores_producer_states() -> None:
    task = Harness(descriptor(OperatorKind.STATELESS, channels=1))

    task.feed(StartTask(), answer(E.CREATED), answer(E.FAILED))

    assert task.machine.state.current is E.DEPLOYING, "it fails, and is not cancelled"
