"""Messages between the JobMaster, the TaskManagers and their Tasks: deployment, cancellation, states."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    JobType,
    JobVertex,
    OperatorRef,
    ResultPartitionType,
    ShipStrategy,
    TaskCancellationSettings,
)
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.exchange import WATERMARK_MIN, Buffer, TaskBuffers
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import AllocationId, ExecutionAttemptId, JobId, ResultPartitionId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


class ExecutionState(StrEnum):
    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"


@value("task.result_partition_descriptor")
class ResultPartitionDescriptor(Value):
    """An output of an attempt. Each subpartition is read by one consuming subtask.

    A HASH partition is split by key group with the key expressions of `key_by`. A FORWARD or REBALANCE partition gives
    each batch to one subpartition in turn, a BROADCAST partition to all. A BLOCKING partition is read when it is
    finished, and outlives its Task.
    """

    partition_id: ResultPartitionId
    output: int
    subpartitions: int
    ship_strategy: ShipStrategy
    max_parallelism: int
    key_by: OperatorRef | None = None
    partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED


@value("task.input_channel_descriptor")
class InputChannelDescriptor(Value):
    """The subpartition that a channel of a gate reads, requested from the TaskManager that runs its producer.

    A channel that `reconnects` continues after a failed attempt whose producer has not failed.
    """

    partition_id: ResultPartitionId
    subpartition: int
    task_manager: Ref
    reconnects: bool = False


@value("task.input_gate_descriptor")
class InputGateDescriptor(Value):
    """An input of an attempt. The data of a BLOCKING partition may exist even if its producer has ended."""

    gate: int
    channels: tuple[InputChannelDescriptor, ...]
    consumed_partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED


@value("task.deployment_descriptor")
class TaskDeploymentDescriptor(Value):
    """Everything that a TaskManager needs to run one execution attempt (Flink's TaskDeploymentDescriptor).

    The TaskManager sets the attempt's `buffers`, and its managed memory if that is declared.
    """

    job_id: JobId
    attempt: ExecutionAttemptId
    attempt_number: int
    vertex: JobVertex
    subtask: int
    allocation_id: AllocationId
    outputs: tuple[ResultPartitionDescriptor, ...]
    inputs: tuple[InputGateDescriptor, ...]
    checkpoint_directory: str
    restore: TaskStateSnapshot | None = None
    restored_checkpoint_id: int | None = None
    metrics_interval_ms: int = 1_000
    checkpointing_mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    task_cancellation: TaskCancellationSettings = TaskCancellationSettings()
    buffers: TaskBuffers | None = None
    latency_tracking_interval_ms: int | None = None
    job_type: JobType = JobType.STREAMING
    stage_timeout_ms: int | None = None
    coalesces_batches: bool = False
    managed_memory_bytes: int | None = None
    checkpoint_fsync: bool = True
    mini_batch_latency_ms: int = 0


@message("task.submit")
class SubmitTask(Message):
    """JobMaster -> TaskManager: run this attempt in the slot of its allocation."""

    descriptor: TaskDeploymentDescriptor
    job_master: Ref


@message("task.acknowledge_deployments")
class AcknowledgeDeployments(Message):
    """TaskManager -> JobMaster: these attempts were submitted here and run (Flink's Acknowledge of submitTask)."""

    attempts: tuple[ExecutionAttemptId, ...]


@message("task.acknowledgements_due")
class AcknowledgementsDue(Message):
    """TaskManager -> itself: acknowledge all attempts submitted so far, in one message to each JobMaster."""


@message("task.cancel")
class CancelTask(Message):
    """JobMaster -> TaskManager -> Task: cancel the running work and report CANCELED."""

    attempt: ExecutionAttemptId


@message("task.fail")
class FailTask(Message):
    """TaskManager -> Task: the attempt cannot continue here; report it FAILED (Flink's failExternally)."""

    attempt: ExecutionAttemptId
    cause: SerializedThrowable


@value("task.execution_state")
class TaskExecutionState(Value):
    """A state that an attempt reached, with the failure if it is FAILED, and its accumulators if it is terminal."""

    attempt: ExecutionAttemptId
    state: ExecutionState
    failure: SerializedThrowable | None = None
    accumulators: tuple[AccumulatorSnapshot, ...] = ()


@message("task.update_execution_state")
class UpdateTaskExecutionState(Message):
    """Task -> JobMaster: the attempt has reached this state."""

    state: TaskExecutionState


@message("task.end_of_data")
class NotifyEndOfData(Message):
    """Task -> JobMaster: every row of this attempt is processed, and it waits for the final checkpoint."""

    attempt: ExecutionAttemptId


@value("task.latency_statistics")
class LatencyStatistics(Value):
    """Latencies of the last latency markers from a source subtask, in ms. `count` is the number of markers."""

    operator_id: str
    subtask: int
    count: int
    min_ms: int
    max_ms: int
    median_ms: int
    p95_ms: int
    p99_ms: int


@value("task.event_time_hold")
class EventTimeHold(Value):
    """A subtask of a source, or one of its partitions, that has been idle since `since_ms` and holds event time back.

    `partition` is empty if the source has none. `watermark_ms` is WATERMARK_MIN if none of its rows had an event time.
    """

    subtask: int
    since_ms: int
    partition: str = ""
    watermark_ms: int = WATERMARK_MIN


@value("task.io_metrics")
class TaskIOMetrics(Value):
    """Counts since the start of the attempt. Times are in ms, the watermark in ms of event time.

    A running attempt is busy with a stage, back-pressured (it has input but cannot send), or idle. The queue lengths
    are current: batches received but not yet processed, and batches that wait for their readers. `files_unread` is the
    current number of files that a source's reader holds and has not started to read.

    `rows_published` were written by sinks and are visible to readers; `rows_staged` were written by sinks and wait for
    a checkpoint. Rows published on behalf of a previous attempt, whose checkpoint contained them, are not counted.
    `held_back_by` names what holds back the watermark of a source, and is set only after a delay.
    """

    rows_in: int = 0
    rows_out: int = 0
    batches_in: int = 0
    batches_out: int = 0
    late_rows: int = 0
    busy_ms: int = 0
    watermark_ms: int | None = None
    back_pressured_ms: int = 0
    idle_ms: int = 0
    input_queue_length: int = 0
    output_queue_length: int = 0
    latencies: tuple[LatencyStatistics, ...] = ()
    files_unread: int = 0
    rows_published: int = 0
    rows_staged: int = 0
    held_back_by: EventTimeHold | None = None


@message("task.metrics_due")
class MetricsDue(Message):
    """Task's timer -> itself: report the metrics."""


@message("task.latency_marker_due")
class LatencyMarkerDue(Message):
    """Task's timer -> itself: send a latency marker from the source."""


@message("task.read_due")
class ReadDue(Message):
    """Task's timer -> itself: continue to read after a pause."""


@message("task.watermark_report_due")
class WatermarkReportDue(Message):
    """Task's timer -> itself: report the watermark of an aligned source."""


@message("task.idle_due")
class IdleDue(Message):
    """Task's timer -> itself: check whether the source has been idle for too long."""


@message("task.processing_time_due")
class ProcessingTimeDue(Message):
    """Task's timer -> itself: fire processing-time timers."""


@message("task.report_metrics")
class ReportTaskMetrics(Message):
    """Task -> JobMaster: the attempt's metrics: at intervals, when a snapshot has emitted rows, and at its end."""

    attempt: ExecutionAttemptId
    metrics: TaskIOMetrics
    accumulators: tuple[AccumulatorSnapshot, ...] = ()


@message("task.cancellation_due")
class CancellationDue(Message):
    """Task's timer -> itself: check whether the cancelled attempt has ended."""


@value("task.finished_partition")
class FinishedPartition(Value):
    """A BLOCKING partition that is completely written: its elements, subpartition by subpartition."""

    descriptor: ResultPartitionDescriptor
    subpartitions: tuple[tuple[Buffer, ...], ...]


@message("task.keep_partitions")
class KeepPartitions(Message):
    """Task -> TaskManager: the attempt has FINISHED; serve these partitions to any reader until they are released."""

    attempt: ExecutionAttemptId
    partitions: tuple[FinishedPartition, ...]


@message("task.partitions_released")
class PartitionsReleased(Message):
    """TaskManager's own work -> itself: the batches of these partitions are freed. If `cause` is set, they are not."""

    partition_ids: tuple[ResultPartitionId, ...]
    cause: SerializedThrowable | None = None


@message("task.release_partitions")
class ReleasePartitions(Message):
    """JobMaster -> TaskManager: no reader needs these finished partitions any longer."""

    job_id: JobId
    partition_ids: tuple[ResultPartitionId, ...]


@message("task.fatal_error")
class FatalErrorOccurred(Message):
    """Task -> TaskManager: the attempt cannot be ended, so this process's state is unknown (Flink's onFatalError)."""

    attempt: ExecutionAttemptId
    cause: SerializedThrowable


@message("task.request_partition_producer_state")
class RequestPartitionProducerState(Message):
    """Task -> JobMaster: return the state of the attempt whose partition was requested and not found."""

    attempt: ExecutionAttemptId
    partition_id: ResultPartitionId


@message("task.partition_producer_state")
class PartitionProducerState(Message):
    """JobMaster -> TaskManager -> Task: the state of the producer of a partition.

    Without a state there is a `failure`: a newer attempt has replaced the producer, or the producer is unknown.
    """

    attempt: ExecutionAttemptId
    partition_id: ResultPartitionId
    state: ExecutionState | None = None
    failure: SerializedThrowable | None = None
