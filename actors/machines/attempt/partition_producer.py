"""Decides what an attempt does when a partition that it reads is not there: Flink's RemoteChannelStateChecker.

It asks what has become of the producer, and meanwhile waits to ask for the partition again. A producer that is there,
or comes, is waited for. One that has failed or was cancelled, or whose place another attempt has taken, is no fault of
this attempt's: it cancels itself, so that the producer's failure stays the one that is told.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.effects import Role, Tell
from flykka.messages.tasks.task import ExecutionState, PartitionProducerState, RequestPartitionProducerState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, ResultPartitionId

PRODUCER_DISPOSED_ERROR = "PartitionProducerDisposedError"
"""Another attempt has taken the place of the producer."""


class Wait:
    """Ask for the partition again."""


class CancelSelf:
    """The producer's end decides what follows."""


Consequence = Wait | CancelSelf | SerializedThrowable
"""A failure is this attempt's own: the producer cannot be in such a state, or nobody knows it."""


def ask(attempt: ExecutionAttemptId, partition_id: ResultPartitionId) -> list[TaskEffect]:
    """Ask for the state of the producer of a partition that is not there."""
    return [Tell(to=Role.JOB_MASTER, message=RequestPartitionProducerState(attempt=attempt, partition_id=partition_id))]


def consequence(answer: PartitionProducerState) -> Consequence:
    """Decide by the state of the producer."""
    match answer.state:
        case None if answer.failure is not None and answer.failure.type_name != PRODUCER_DISPOSED_ERROR:
            return answer.failure
        case None:
            return CancelSelf()
        case ExecutionState.SCHEDULED | ExecutionState.DEPLOYING | ExecutionState.RUNNING | ExecutionState.FINISHED:
            return Wait()
        case ExecutionState.CANCELING | ExecutionState.CANCELED | ExecutionState.FAILED:
            return CancelSelf()
        case ExecutionState.CREATED | ExecutionState.RECONCILING:
            return _impossible(answer.partition_id, answer.state)
        case _:
            assert_never(answer.state)


def _impossible(partition_id: ResultPartitionId, state: ExecutionState) -> SerializedThrowable:
    return SerializedThrowable(
        type_name="IllegalStateError",
        message=f"the producer of {partition_id} is {state}, and its consumer runs already",
    )
