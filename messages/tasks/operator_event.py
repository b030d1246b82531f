"""Messages between functions and their operator coordinators and global aggregates on the JobMaster's side.

Payloads of users are plain values in their own msgpack (`spark_bridge/functions/event_values.py`), so that a trace
shows them and no actor needs the user's classes. Calls of a coordinator and their results are messages too, because the
coordinator's code runs outside of the JobMaster's turns.
"""

from __future__ import annotations

from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Message, Value, message, value


@value("operator_event.aggregate_update")
class AggregateUpdate(Value):
    """A value that a function has added to the global aggregate `name`."""

    name: str
    value: bytes


@value("operator_event.sent")
class SentByFunction(Value):
    """The events and aggregate values that the function of an operator has sent in one stage."""

    operator_id: OperatorId
    events: tuple[bytes, ...] = ()
    updates: tuple[AggregateUpdate, ...] = ()


@message("operator_event.to_job_master")
class SendOperatorEvents(Message):
    """Task -> JobMaster: a stage has finished, and its function has sent these events and values.

    They were sent after the barrier of `checkpoint_id` (0: before the first barrier), so they belong to later
    checkpoints.
    """

    attempt: ExecutionAttemptId
    checkpoint_id: int
    sent: SentByFunction


@message("operator_event.to_operator")
class OperatorEvents(Message):
    """JobMaster -> TaskManager -> Task: events from the coordinator of this operator to the subtask."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    events: tuple[bytes, ...]


@value("operator_event.aggregate_result")
class AggregateResult(Value):
    """The result of a global aggregate after its last update."""

    name: str
    result: bytes


@message("operator_event.aggregate_results")
class GlobalAggregateResults(Message):
    """JobMaster -> TaskManager -> Task: new results of the aggregates to which the task's function adds values."""

    attempt: ExecutionAttemptId
    results: tuple[AggregateResult, ...]


@value("coordinator.start")
class StartCoordinator(Value):
    """Start the coordinator."""


@value("coordinator.event")
class HandleEventFromOperator(Value):
    """A subtask has sent an event."""

    subtask: int
    attempt_number: int
    event: bytes


@value("coordinator.checkpoint")
class CheckpointOperatorCoordinator(Value):
    """Return the state for this checkpoint."""

    checkpoint_id: int


@value("coordinator.reset_to_checkpoint")
class ResetToCheckpoint(Value):
    """All subtasks restart, so reset to this state. Without a checkpoint, or without a state in it, start empty."""

    checkpoint_id: int | None
    state: bytes | None


@value("coordinator.subtask_ready")
class SubtaskReady(Value):
    """An attempt of a subtask is running and can receive events."""

    subtask: int
    attempt_number: int


@value("coordinator.subtask_failed")
class SubtaskFailed(Value):
    """An attempt of a subtask has failed or, without a reason, was cancelled."""

    subtask: int
    attempt_number: int
    reason: SerializedThrowable | None = None


@value("coordinator.subtask_reset")
class ResetSubtask(Value):
    """A single subtask restarts from a checkpoint (None: from the beginning)."""

    subtask: int
    checkpoint_id: int | None


@value("coordinator.checkpoint_complete")
class CheckpointComplete(Value):
    """A checkpoint is complete."""

    checkpoint_id: int


@value("coordinator.checkpoint_aborted")
class CheckpointWasAborted(Value):
    """A checkpoint was aborted."""

    checkpoint_id: int


@value("coordinator.run_actions")
class RunActions(Value):
    """Run the actions passed to `run_in_coordinator_thread`."""


CoordinatorCall = (
    StartCoordinator
    | HandleEventFromOperator
    | CheckpointOperatorCoordinator
    | ResetToCheckpoint
    | SubtaskReady
    | SubtaskFailed
    | ResetSubtask
    | CheckpointComplete
    | CheckpointWasAborted
    | RunActions
)


@value("coordinator.event_for_subtask")
class EventForSubtask(Value):
    """An event that a coordinator has sent to an attempt of a subtask."""

    subtask: int
    attempt_number: int
    event: bytes


@value("coordinator.answer")
class CoordinatorAnswer(Value):
    """The outcome of some calls: events that were sent during them, and the state if the last call asked for it.

    With a `failure` the coordinator fails the job. `metrics` are the current values of all its metrics.
    """

    events: tuple[EventForSubtask, ...] = ()
    state: bytes | None = None
    failure: SerializedThrowable | None = None
    metrics: tuple[AccumulatorSnapshot, ...] = ()


@message("coordinator.answered")
class OperatorCoordinatorAnswered(Message):
    """coordinator's thread -> JobMaster: the calls with the number `call` are done."""

    operator_id: OperatorId
    call: int
    answer: CoordinatorAnswer


@message("coordinator.failed")
class OperatorCoordinatorFailed(Message):
    """coordinator's thread -> JobMaster: a call with the number `call` has raised. The cause names the operator."""

    operator_id: OperatorId
    call: int
    cause: SerializedThrowable


@message("coordinator.woken")
class OperatorCoordinatorWoken(Message):
    """a thread of the user -> JobMaster: the coordinator has actions to run."""

    operator_id: OperatorId


@message("coordinator.aggregates_updated")
class GlobalAggregatesUpdated(Message):
    """thread of the aggregates -> JobMaster: the results of the updated aggregates."""

    results: tuple[AggregateResult, ...]


@message("coordinator.aggregates_failed")
class GlobalAggregatesFailed(Message):
    """thread of the aggregates -> JobMaster: a user function has raised. The cause names the aggregate."""

    cause: SerializedThrowable


@message("coordinator.metrics_reported")
class OperatorCoordinatorMetricsReported(Message):
    """JobMaster -> listeners: the metrics of the coordinator of an operator of this vertex."""

    job_id: JobId
    vertex_id: JobVertexId
    operator_id: OperatorId
    metrics: tuple[AccumulatorSnapshot, ...]
