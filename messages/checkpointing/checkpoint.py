"""The messages between the checkpoint coordinator and the tasks."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from flykka.messages.graph.job_graph import OperatorKind, OperatorRef, SessionSetting
from flykka.messages.state.handles import StateSchema, TaskStateSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId
from flykka.messages.wire.message import Message, Value, message, value


class SnapshotType(StrEnum):
    """The type of a snapshot (Flink's SnapshotType). A full checkpoint does not refer to earlier state."""

    CHECKPOINT = "CHECKPOINT"
    FULL_CHECKPOINT = "FULL_CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


class CheckpointDeclineReason(StrEnum):
    """The reason why a checkpoint was not triggered, or was aborted (in newer Flink: CheckpointFailureReason)."""

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
    """The reason why a checkpoint failed, with its cause, task and TaskManager if known.

    `times` checkpoints have failed in this way since `since_ms`, without a completed checkpoint in between.
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

    def error(self, problem: str) -> SerializedThrowable:
        """Return the error of a job that fails because of this failure. `problem` is the beginning of the message."""
        text = f": {self.cause.type_name}: {self.cause.message}" if self.cause else ""
        return SerializedThrowable(
            type_name="CheckpointError",
            message=f"{problem} with {self._place}{text}",
            stack_trace=self.cause.stack_trace if self.cause else "",
        )

    @property
    def _place(self) -> str:
        task = "" if self.task_name is None else f" at {self.task_name}"
        return f"{self.reason}{task}{'' if self.task_manager is None else f' on {self.task_manager}'}"


class AlignmentType(StrEnum):
    """The alignment of barriers in a task (Flink's CheckpointOptions.AlignmentType).

    A FORCED_ALIGNED barrier came through a channel whose batches cannot be stored as channel state.
    """

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    ALIGNED = "ALIGNED"
    UNALIGNED = "UNALIGNED"
    FORCED_ALIGNED = "FORCED_ALIGNED"


@value("checkpoint.options")
class CheckpointOptions(Value):
    """The options of a snapshot (Flink's CheckpointOptions). `target_location` is set for savepoints.

    A job ends with its final checkpoint: no rows are read after its barrier, and every task finishes when the
    checkpoint is committed. With `drain`, sources first send the end of their data, and windows fire. An ALIGNED
    checkpoint becomes unaligned if its barriers have not arrived after `aligned_timeout_ms` (None: never).
    """

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    target_location: str | None = None
    is_final: bool = False
    drain: bool = False
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int | None = None


@value("checkpoint.metrics")
class CheckpointMetrics(Value):
    """The metrics of one subtask's snapshot. Times are in ms.

    `start_delay_ms` is the time from the trigger of the checkpoint until it reached the subtask. Bytes processed are
    counted between the first and the last barrier. Bytes persisted are those of channel state, which unaligned barriers
    have overtaken.
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
    """An event that a subtask sent before its own snapshot and that its coordinator received after the coordinator's
    snapshot.
    """

    operator_id: OperatorId
    subtask: int
    attempt_number: int
    event: bytes


@value("checkpoint.coordinator_state")
class OperatorCoordinatorState(Value):
    """The state of an operator coordinator, as its own msgpack: the state of a source's split enumerator, or of a
    user's coordinator with the events that were in flight to it.
    """

    operator_id: OperatorId
    data: bytes
    events: tuple[OperatorEventInFlight, ...] = ()


class AbstractCheckpointMessage(Message):
    """A message about a checkpoint of one or several execution attempts. `handle_message` matches on its subclasses."""

    __slots__ = ()


@message("checkpoint.trigger")
class TriggerCheckpoint(AbstractCheckpointMessage):
    """CheckpointCoordinator -> TaskManager -> Task: take a snapshot and send the barrier to all outputs."""

    job_id: JobId
    attempt: ExecutionAttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


@message("checkpoint.acknowledge")
class AcknowledgeCheckpoint(AbstractCheckpointMessage):
    """Task -> JobMaster -> CheckpointCoordinator: the attempt's snapshot is taken. Contains its handles.

    The JobMaster adds the `events` that were in flight to operator coordinators.
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
    """CheckpointCoordinator -> TaskManager -> Task: the checkpoint is complete and durable, so publish and commit."""

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


@message("checkpoint.for_tasks")
class TaskCheckpointMessages(AbstractCheckpointMessage):
    """CheckpointCoordinator -> TaskManager: messages for several tasks, each for its attempt."""

    messages: tuple[ForTask, ...]


@value("checkpoint.master_state")
class MasterState(Value):
    """The state of a master hook in a checkpoint, as the hook returned it."""

    identifier: str
    data: bytes


@message("checkpoint.snapshot_coordinators")
class SnapshotOperatorCoordinators(Message):
    """CheckpointCoordinator -> JobMaster: snapshot the operator coordinators before the tasks are triggered."""

    job_id: JobId
    checkpoint_id: int


@message("checkpoint.coordinators_snapshotted")
class OperatorCoordinatorsSnapshotted(Message):
    """JobMaster -> CheckpointCoordinator: the operator coordinators' state. Their events to tasks are now held back."""

    job_id: JobId
    checkpoint_id: int
    states: tuple[OperatorCoordinatorState, ...]


@value("checkpoint.task_state")
class TaskStateEntry(Value):
    """The state that a subtask acknowledged, or None if it has no state. `parallelism` is that at the time of the
    snapshot.
    """

    vertex_id: JobVertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    state: TaskStateSnapshot | None = None


@value("checkpoint.operator")
class OperatorMetadata(Value):
    """An operator of the job that took the checkpoint, with or without state, for readers that do not know the job.

    `state_schema` is the schema of its keyed state, if it has any.
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

    `task_states` has one entry per subtask, `coordinator_states` one per operator coordinator, `master_states` one per
    master hook with state. `timestamp_ms` is the time of its trigger, `duration_ms` the time from the trigger to the
    last acknowledgement. `operators` are all operators of the job, in topological order. `session_settings` are the
    Spark settings on which the results depend. `operators` and `session_settings` are empty in checkpoints of older
    versions.
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
