"""The checkpoint conversation between the coordinator and the tasks."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from flykka.messages.graph.job_graph import OperatorKind, OperatorRef, SessionSetting
from flykka.messages.state.handles import StateSchema, TaskStateSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Message, Value, message, value


class SnapshotType(StrEnum):
    """The purpose of a snapshot (Flink's SnapshotType). A full checkpoint refers to nothing that was written before."""

    CHECKPOINT = "CHECKPOINT"
    FULL_CHECKPOINT = "FULL_CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


class CheckpointDeclineReason(StrEnum):
    """The reason why a checkpoint was not triggered, or was given up (in newer Flink: CheckpointFailureReason)."""

    COORDINATOR_SHUTDOWN = "COORDINATOR_SHUTDOWN"
    COORDINATOR_SUSPEND = "COORDINATOR_SUSPEND"
    PERIODIC_SCHEDULER_SHUTDOWN = "PERIODIC_SCHEDULER_SHUTDOWN"
    ALREADY_QUEUED = "ALREADY_QUEUED"
    TOO_MANY_CHECKPOINT_REQUESTS = "TOO_MANY_CHECKPOINT_REQUESTS"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"
    EXCEPTION = "EXCEPTION"
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"
    TASK_CHECKPOINT_FAILURE = "TASK_CHECKPOINT_FAILURE"
    IO_EXCEPTION = "IO_EXCEPTION"
    EXPIRED = "EXPIRED"
    SUBSUMED = "SUBSUMED"
    CANCELLATION_BARRIER = "CANCELLATION_BARRIER"
    INPUT_END_OF_STREAM = "INPUT_END_OF_STREAM"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"
    JOB_FAILOVER_REGION = "JOB_FAILOVER_REGION"


@value("checkpoint.failure")
class CheckpointFailure(Value):
    """The reason for which a checkpoint was given up; its cause, task and TaskManager where they are known.

    `times` checkpoints have failed in this way since `since_ms`, and none has completed in between.
    """

    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None
    task_name: str | None = None
    task_manager: str | None = None
    times: int = 1
    since_ms: int | None = None

    def __str__(self) -> str:
        text = f"{self._place}{f': {self.cause.headline}' if self.cause else ''}"
        if self.times == 1 or self.since_ms is None:
            return text
        since = datetime.fromtimestamp(self.since_ms / 1_000).astimezone()
        return f"{text} (the same {self.times:,} times since {since:%H:%M:%S})"

    def error(self, what: str) -> SerializedThrowable:
        """Return the error of a job that fails with it; `what` has failed."""
        text = f": {self.cause.type_name}: {self.cause.message}" if self.cause else ""
        return SerializedThrowable(
            type_name="CheckpointError",
            message=f"{what} with {self._place}{text}",
            stack_trace=self.cause.stack_trace if self.cause else "",
        )

    @property
    def _place(self) -> str:
        task = "" if self.task_name is None else f" at {self.task_name}"
        return f"{self.reason}{task}{'' if self.task_manager is None else f' on {self.task_manager}'}"


class AlignmentType(StrEnum):
    """The way in which a task aligns the barriers of its channels (Flink's CheckpointOptions.AlignmentType).

    A barrier that is FORCED_ALIGNED came through a channel whose batches cannot become state.
    """

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    ALIGNED = "ALIGNED"
    UNALIGNED = "UNALIGNED"
    FORCED_ALIGNED = "FORCED_ALIGNED"


@value("checkpoint.options")
class CheckpointOptions(Value):
    """Options of a snapshot (Flink's CheckpointOptions). `target_location` is set for savepoints.

    With the final one a job ends: nothing is read behind its barrier, and every task finishes when it is committed.
    Where it is to `drain` the job, sources say that their data has ended before they send it, and windows fire.

    An ALIGNED checkpoint becomes unaligned where its barriers are under way for `aligned_timeout_ms`; None: never.
    """

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    target_location: str | None = None
    is_final: bool = False
    drain: bool = False
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int | None = None


@value("checkpoint.metrics")
class CheckpointMetrics(Value):
    """Measurements of one subtask while it took its snapshot; times in ms.

    `start_delay_ms` passed from when the checkpoint was triggered to when the subtask first heard of it.
    Bytes were processed while the barriers came together; of an unaligned checkpoint, batches that its barriers
    overtook were persisted as channel state.
    """

    alignment_ms: int = 0
    sync_ms: int = 0
    async_ms: int = 0
    size_bytes: int = 0
    incremental_bytes: int = 0
    bytes_processed_during_alignment: int = 0
    bytes_persisted_during_alignment: int = 0
    is_unaligned: bool = False
    start_delay_ms: int = 0


@value("checkpoint.event_in_flight")
class OperatorEventInFlight(Value):
    """An event of a subtask that its coordinator got behind its own snapshot, and the subtask sent before its own."""

    operator_id: OperatorId
    subtask: int
    attempt_number: int
    event: bytes


@value("checkpoint.coordinator_state")
class OperatorCoordinatorState(Value):
    """State of one operator coordinator on the JobMaster's side, as its own msgpack: of a source's split enumerator, or
    of a user's coordinator, with the events that were on their way to it.
    """

    operator_id: OperatorId
    data: bytes
    events: tuple[OperatorEventInFlight, ...] = ()


class AbstractCheckpointMessage(Message):
    """A message about a checkpoint of an execution attempt, or several; `handle_message` matches on its subclasses."""

    __slots__ = ()


@message("checkpoint.trigger")
class TriggerCheckpoint(AbstractCheckpointMessage):
    """CheckpointCoordinator -> TaskManager -> Task: take a snapshot and send the barrier down your outputs."""

    job_id: JobId
    attempt: ExecutionAttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


@message("checkpoint.acknowledge")
class AcknowledgeCheckpoint(AbstractCheckpointMessage):
    """Task -> JobMaster -> CheckpointCoordinator: the snapshot of this attempt is taken; here are its handles.

    The JobMaster adds the `events` that were on their way to operator coordinators.
    """

    job_id: JobId
    attempt: ExecutionAttemptId
    checkpoint_id: int
    state: TaskStateSnapshot | None = None
    metrics: CheckpointMetrics = CheckpointMetrics()
    events: tuple[OperatorEventInFlight, ...] = ()


@message("checkpoint.decline")
class DeclineCheckpoint(AbstractCheckpointMessage):
    """Task -> JobMaster -> CheckpointCoordinator: this attempt cannot take part in the checkpoint."""

    job_id: JobId
    attempt: ExecutionAttemptId
    checkpoint_id: int
    reason: CheckpointDeclineReason = CheckpointDeclineReason.CHECKPOINT_DECLINED
    cause: SerializedThrowable | None = None


@message("checkpoint.notify_complete")
class NotifyCheckpointComplete(AbstractCheckpointMessage):
    """CheckpointCoordinator -> TaskManager -> Task: the checkpoint is complete and durable; publish and commit."""

    job_id: JobId
    attempt: ExecutionAttemptId
    checkpoint_id: int
    timestamp_ms: int


@message("checkpoint.notify_aborted")
class NotifyCheckpointAborted(AbstractCheckpointMessage):
    """CheckpointCoordinator -> TaskManager -> Task: the checkpoint will not complete."""

    job_id: JobId
    attempt: ExecutionAttemptId
    checkpoint_id: int
    latest_completed_id: int | None
    timestamp_ms: int


ForTask = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted
"""Messages of the coordinator to the Task of an attempt."""


@message("checkpoint.for_tasks")
class TaskCheckpointMessages(AbstractCheckpointMessage):
    """CheckpointCoordinator -> TaskManager: messages for several tasks, each for its attempt."""

    messages: tuple[ForTask, ...]


@value("checkpoint.master_state")
class MasterState(Value):
    """The state that a master hook gets back with the checkpoint, in the form in which it gave it."""

    identifier: str
    data: bytes


@message("checkpoint.snapshot_coordinators")
class SnapshotOperatorCoordinators(Message):
    """CheckpointCoordinator -> JobMaster: snapshot your operator coordinators before the tasks are triggered."""

    job_id: JobId
    checkpoint_id: int


@message("checkpoint.coordinators_snapshotted")
class OperatorCoordinatorsSnapshotted(Message):
    """JobMaster -> CheckpointCoordinator: the state of the operator coordinators; their events to tasks now wait."""

    job_id: JobId
    checkpoint_id: int
    states: tuple[OperatorCoordinatorState, ...]


@value("checkpoint.task_state")
class TaskStateEntry(Value):
    """The state that a subtask acknowledged; None where it has none. The parallelism is that of the snapshot."""

    vertex_id: JobVertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    state: TaskStateSnapshot | None = None


@value("checkpoint.operator")
class OperatorMetadata(Value):
    """An operator of the job that took the checkpoint, with or without state: who reads it later knows no more of it.

    `state_schema` is what its keyed state is made of, where it has any.
    """

    operator_id: OperatorId
    ref: OperatorRef
    name: str
    kind: OperatorKind
    parallelism: int
    max_parallelism: int
    state_schema: StateSchema | None = None


@value("checkpoint.completed")
class CompletedCheckpoint(Value):
    """A checkpoint that every task acknowledged and whose metadata is durable at `path`.

    `task_states` holds one entry per subtask, `coordinator_states` one per operator coordinator, `master_states` one
    per master hook that wants something back. `timestamp_ms` is when it was triggered, `duration_ms` how long it took
    from there to the last acknowledgement. `operators` are all of the job, in topological order, and `session_settings`
    those that its results depend on; a checkpoint of an older version names none.
    """

    job_id: JobId
    checkpoint_id: int
    timestamp_ms: int
    duration_ms: int
    task_states: tuple[TaskStateEntry, ...]
    coordinator_states: tuple[OperatorCoordinatorState, ...] = ()
    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    path: str = ""
    job_name: str = ""
    operators: tuple[OperatorMetadata, ...] = ()
    master_states: tuple[MasterState, ...] = ()
    session_settings: tuple[SessionSetting, ...] = ()
