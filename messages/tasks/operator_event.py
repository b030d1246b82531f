"""Between functions and what belongs to them on the JobMaster's side: operator coordinators and global aggregates.

What users send each other are plain values in their own msgpack (`spark_bridge/functions/event_values.py`), so a trace
shows them and no actor needs the user's classes. What a coordinator is called with, and what it answers, are messages
too: its code runs beside the JobMaster's turns and never in one.
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
    """Events for its coordinator and values for aggregates that the function of an operator has sent in one stage."""

    operator_id: OperatorId
    events: tuple[bytes, ...] = ()
    updates: tuple[AggregateUpdate, ...] = ()


@message("operator_event.to_job_master")
class SendOperatorEvents(Message):
    """Task -> JobMaster: a stage has finished, and its function has sent this.

    Behind the barrier of `checkpoint_id`, 0 before the first one: of later checkpoints, what was sent is a part.
    """

    attempt: ExecutionAttemptId
    checkpoint_id: int
    sent: SentByFunction


@message("operator_event.to_operator")
class OperatorEvents(Message):
    """JobMaster -> TaskManager -> Task: the coordinator of this operator has sent these to your subtask."""

    attempt: ExecutionAttemptId
    operator_id: OperatorId
    events: tuple[bytes, ...]


@value("operator_event.aggregate_result")
class AggregateResult(Value):
    """The result of a global aggregate behind its last update."""

    name: str
    result: bytes


@message("operator_event.aggregate_results")
class GlobalAggregateResults(Message):
    """JobMaster -> TaskManager -> Task: the aggregates that your function adds to have these results now."""

    attempt: ExecutionAttemptId
    results: tuple[AggregateResult, ...]


# What a coordinator is called with


@value("coordinator.start")
class StartCoordinator(Value):
    """Begin."""


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
    """All subtasks begin again: go back to this state. Without a checkpoint, or a state in it, to none."""

    checkpoint_id: int | None
    state: bytes | None


@value("coordinator.subtask_ready")
class SubtaskReady(Value):
    """An attempt of a subtask runs, and may be sent events."""

    subtask: int
    attempt_number: int


@value("coordinator.subtask_failed")
class SubtaskFailed(Value):
    """An attempt of a subtask has failed, or was cancelled: then there is no reason."""

    subtask: int
    attempt_number: int
    reason: SerializedThrowable | None = None


@value("coordinator.subtask_reset")
class ResetSubtask(Value):
    """A subtask begins again alone, from a checkpoint; None: from the beginning."""

    subtask: int
    checkpoint_id: int | None


@value("coordinator.checkpoint_complete")
class CheckpointComplete(Value):
    """A checkpoint is complete."""

    checkpoint_id: int


@value("coordinator.checkpoint_aborted")
class CheckpointWasAborted(Value):
    """A checkpoint was given up."""

    checkpoint_id: int


@value("coordinator.run_actions")
class RunActions(Value):
    """Run what was given to `run_in_coordinator_thread`."""


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
"""Everything that a coordinator is called with."""


@value("coordinator.event_for_subtask")
class EventForSubtask(Value):
    """An event that a coordinator has sent to an attempt of a subtask."""

    subtask: int
    attempt_number: int
    event: bytes


@value("coordinator.answer")
class CoordinatorAnswer(Value):
    """The outcome of a few calls: events that were sent meanwhile, and the state where the last was for a checkpoint.

    With a `failure` the coordinator wants the job to fail. `metrics` are all of its own, as they are now.
    """

    events: tuple[EventForSubtask, ...] = ()
    state: bytes | None = None
    failure: SerializedThrowable | None = None
    metrics: tuple[AccumulatorSnapshot, ...] = ()


@message("coordinator.answered")
class OperatorCoordinatorAnswered(Message):
    """coordinator's thread -> JobMaster: the calls of number `call` are done."""

    operator_id: OperatorId
    call: int
    answer: CoordinatorAnswer


@message("coordinator.failed")
class OperatorCoordinatorFailed(Message):
    """coordinator's thread -> JobMaster: one of the calls of number `call` has raised; the cause names the operator."""

    operator_id: OperatorId
    call: int
    cause: SerializedThrowable


@message("coordinator.woken")
class OperatorCoordinatorWoken(Message):
    """any thread of the user's -> JobMaster: the coordinator has something to do by itself."""

    operator_id: OperatorId


@message("coordinator.aggregates_updated")
class GlobalAggregatesUpdated(Message):
    """thread of the aggregates -> JobMaster: the results behind the last updates, of those that were updated."""

    results: tuple[AggregateResult, ...]


@message("coordinator.aggregates_failed")
class GlobalAggregatesFailed(Message):
    """thread of the aggregates -> JobMaster: a function of the user's has raised; the cause names the aggregate."""

    cause: SerializedThrowable


@message("coordinator.metrics_reported")
class OperatorCoordinatorMetricsReported(Message):
    """JobMaster -> listeners: the metrics of the coordinator of an operator of this vertex."""

    job_id: JobId
    vertex_id: JobVertexId
    operator_id: OperatorId
    metrics: tuple[AccumulatorSnapshot, ...]
