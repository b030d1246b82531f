"""What the state of a producer means for who did not find its partition."""

from __future__ import annotations

import pytest

from flykka.actors.execution.partition_producer import (
    PRODUCER_DISPOSED_ERROR,
    CancelSelf,
    Wait,
    consequence,
)
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ExecutionAttemptId, ResultPartitionId
from flykka.messages.task import ExecutionState, PartitionProducerState

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
