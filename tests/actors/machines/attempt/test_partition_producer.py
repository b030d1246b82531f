"""What the state of a producer means for who did not find its partition."""

from __future__ import annotations

import pytest

from flykka.actors.machines.attempt.events import StartTask
from flykka.actors.machines.attempt.partition_producer import (
    PRODUCER_DISPOSED_ERROR,
    CancelSelf,
    Wait,
    consequence,
)
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.task import ExecutionState, PartitionProducerState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, ResultPartitionId
from tests.actors.machines.attempt.attempt_machine import Harness, descriptor

E = ExecutionState
EXPECTED = {
    E.CREATED: SerializedThrowable,
    E.SCHEDULED: Wait,
    E.DEPLOYING: Wait,
    E.RUNNING: Wait,
    E.FINISHED: Wait,
    E.CANCELING: CancelSelf,
    E.CANCELED: CancelSelf,
    E.FAILED: CancelSelf,
    E.RECONCILING: SerializedThrowable,
}


def answer(state: ExecutionState | None = None, failure: str | None = None) -> PartitionProducerState:
    return PartitionProducerState(
        attempt=ExecutionAttemptId("job_v_0_0"),
        partition_id=ResultPartitionId("job_u_0_0:0"),
        state=state,
        failure=None if failure is None else SerializedThrowable(type_name=failure, message="why"),
    )


@pytest.mark.parametrize("state", ExecutionState)
def test_a_producer_is_waited_for_unless_it_has_failed_or_cannot_be_there(state: ExecutionState) -> None:
    assert isinstance(consequence(answer(state)), EXPECTED[state])


def test_the_failure_of_another_is_not_this_attempts() -> None:
    assert isinstance(consequence(answer(failure=PRODUCER_DISPOSED_ERROR)), CancelSelf)


def test_a_producer_that_nobody_knows_fails_the_attempt() -> None:
    assert consequence(answer(failure="PartitionProducerUnknownError")) == SerializedThrowable(
        type_name="PartitionProducerUnknownError", message="why"
    )


@pytest.mark.parametrize("events", [(StartTask(),), (StartTask(), ChainOpened())], ids=["DEPLOYING", "RUNNING"])
def test_a_producer_that_has_failed_cancels_who_reads_it_or_is_about_to(
    events: tuple[StartTask | ChainOpened],
) -> None:
    task = Harness(descriptor(OperatorKind.STATELESS, channels=1))

    task.feed(*events, answer(E.FAILED))

    assert task.machine.life.state is E.CANCELING


def test_an_attempt_that_is_ending_does_not_care_for_producers() -> None:
    task = Harness(descriptor(OperatorKind.STATELESS, channels=1))

    task.feed(StartTask(), answer(E.CREATED), answer(E.FAILED))

    assert task.machine.life.state is E.DEPLOYING, "it fails, and is not cancelled"
