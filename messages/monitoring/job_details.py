"""Queries about a job and the replies of its read model, with the names of Flink's REST API (JobDetailsInfo)."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CheckpointMetrics
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsSnapshot,
    SubtaskCheckpointStatistics,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.control.rescaling import RequestRescales, RescalesSnapshot
from flykka.messages.graph.job_graph import JobGraph, JobType, SchedulerType
from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot
from flykka.messages.tasks.task import EventTimeHold, ExecutionState, TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, TaskManagerId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref

CHECKPOINT_HISTORY = 1_000
"""The number of latest checkpoints that are retained, enough for a quarter of an hour at one per second."""


@message("job_details.track")
class TrackJob(Message):
    """JobManager -> ExecutionGraphInfoStore: a JobMaster starts to run this job, for the first time or again."""

    job_graph: JobGraph


@message("job_details.request")
class RequestJobDetails(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return the state of this job, or how it has ended.

    The reply is `JobDetails`, which contains up to `checkpoints` of the latest checkpoints, or `JobNotFound` if the job
    is unknown. All other queries about one job also get `JobNotFound` in this case.
    """

    job_id: JobId
    reply_to: Ref
    checkpoints: int = CHECKPOINT_HISTORY


@message("job_details.request_overview")
class RequestJobsOverview(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return all jobs, as `JobsOverview`."""

    reply_to: Ref


@message("job_details.request_graph")
class RequestJobGraph(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return the plan and configuration of a job, as `JobFound`."""

    job_id: JobId
    reply_to: Ref


@message("job_details.request_vertex")
class RequestJobVertexDetails(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return the subtasks of a vertex, as `SubtasksOfVertex`."""

    job_id: JobId
    reply_to: Ref
    vertex_id: JobVertexId


@message("job_details.request_checkpoints")
class RequestCheckpointStats(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return a job's checkpoints, as `CheckpointStatsSnapshot`."""

    job_id: JobId
    reply_to: Ref


@message("job_details.request_checkpoint")
class RequestCheckpointDetails(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: return one checkpoint of a job, as `CheckpointDetails`."""

    job_id: JobId
    reply_to: Ref
    checkpoint_id: int


JobInfoRequest = (
    RequestJobDetails
    | RequestJobGraph
    | RequestJobVertexDetails
    | RequestCheckpointStats
    | RequestCheckpointDetails
    | RequestRescales
)


@message("job_details.timed_out")
class JobDetailsTimedOut(Message):
    """client's timer -> itself: the details of the ended job have not arrived."""


@value("job_details.time_series")
class TimeSeries(Value):
    """Values at each step since `start_ms`, oldest first. None means no value."""

    start_ms: int = 0
    step_ms: int = 1_000
    values: tuple[float | None, ...] = ()


@value("job_details.status_timestamp")
class StatusTimestamp(Value):
    """The last time at which a job entered a status.

    `total_ms` is the time that the job has spent in this status, without the current stay.
    """

    status: JobStatus
    at_ms: int
    total_ms: int = 0


@value("job_details.deploying")
class Deploying(Value):
    """The time of deploying tasks: the start of the current period, if any, and the sum of earlier periods."""

    since_ms: int | None = None
    total_ms: int = 0


@value("job_details.subtask_count")
class SubtaskCount(Value):
    """The number of subtasks in a state."""

    state: ExecutionState
    count: int


@value("job_details.restart")
class Restart(Value):
    """A restart of the job, and the failure that caused it, if known."""

    at_ms: int
    cause: SerializedThrowable | None


@value("job_details.time_shares")
class TimeShares(Value):
    """Shares of the last seconds of a vertex's running subtasks. They add up to 1."""

    busy: float
    back_pressured: float
    idle: float


@value("job_details.latency")
class Latency(Value):
    """The latency of the last latency markers on the slowest path from a source subtask to a subtask of a vertex."""

    median_ms: int
    p99_ms: int


@value("job_details.vertex")
class JobVertexDetails(Value):
    """A vertex. Rows are counted over all of its attempts: rows that are read again after a restart are counted again.

    At most `rows_read_again` of `rows_in` are repeated: the rows that attempts had counted after their last checkpoint.
    `sources` and `sinks` are the names of these operators in its chain. `subtask_counts` is the number of subtasks per
    state. The watermark is the minimum over all subtasks, in ms of event time, or None while a subtask has none. At the
    end of the input it is None and `event_time_ended` is set. The lag is the clock minus the watermark. The queue
    lengths count batches that wait to be processed by its running subtasks, and batches that wait for their readers.
    For a running source, `files_waiting` is the number of files that were discovered and not started.

    Of the rows written by its sinks, `rows_published` are visible to readers, and `rows_staged` wait for a checkpoint
    to complete. A restart counts no row twice. Rows that the restart publishes because its checkpoint contained them
    are not counted, so after a restart `rows_published` is a lower bound, and `rows_staged` counts the newest attempts.
    A sink that publishes rows at once may publish some again, and counts them again. `coordinator_metrics` are those of
    the user's operator coordinators. `held_back_by` names an idle source.
    """

    vertex_id: JobVertexId
    name: str
    parallelism: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    state: ExecutionState
    subtask_counts: tuple[SubtaskCount, ...]
    rows_in: int = 0
    rows_out: int = 0
    rows_read_again: int = 0
    late_rows: int = 0
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = None
    event_time_ended: bool = False
    shares: TimeShares | None = None
    latency: Latency | None = None
    input_queue_length: int = 0
    output_queue_length: int = 0
    files_waiting: int = 0
    rows_published: int = 0
    rows_staged: int = 0
    coordinator_metrics: tuple[AccumulatorSnapshot, ...] = ()
    held_back_by: EventTimeHold | None = None

    @property
    def subtasks(self) -> dict[ExecutionState, int]:
        return {each.state: each.count for each in self.subtask_counts}


@message("job_details.job")
class JobDetails(Message):
    """ExecutionGraphInfoStore -> client: the current state of a job.

    Its vertices are in topological order. Its last checkpoints and restarts are sorted oldest first. `last_failure` is
    the last reported failure, recovered or not. `kept_checkpoint` is the path from which an ended job can be continued.
    `exceptions` are the last failures and the reactions to them, out of `number_of_exceptions`. `accumulators` are
    those of the newest attempts, and final when the job has FINISHED. `throughput` is the number of rows per second
    that its sources have read, `watermark_lag` the lag (ms) of the slowest vertex, both over its whole run time.
    `timestamps` are the last times at which it entered each status, in their order. `restored_ms` is the last time at
    which it started from a checkpoint.
    """

    job_id: JobId
    name: str
    status: JobStatus
    started_ms: int | None
    duration_ms: int
    vertices: tuple[JobVertexDetails, ...]
    checkpoints: tuple[CheckpointStatistics, ...]
    checkpoints_completed: int
    checkpoints_failed: int
    last_completed: CheckpointStatistics | None
    restored_checkpoint: int | None
    restarts: tuple[Restart, ...]
    last_failure: SerializedThrowable | None
    kept_checkpoint: str | None = None
    number_of_restarts: int = 0
    exceptions: tuple[RootExceptionHistoryEntry, ...] = ()
    number_of_exceptions: int = 0
    accumulators: AccumulatorResults = AccumulatorResults()
    throughput: TimeSeries = TimeSeries()
    watermark_lag: TimeSeries = TimeSeries()
    timestamps: tuple[StatusTimestamp, ...] = ()
    checkpoints_in_progress: tuple[CheckpointStatistics, ...] = ()
    last_failed: CheckpointStatistics | None = None
    ended_ms: int | None = None
    restored_ms: int | None = None
    deploying: Deploying = Deploying()

    @property
    def was_stopped(self) -> bool:
        """True if the job was stopped with a checkpoint or a savepoint: it has FINISHED before the end of its input."""
        return self.status is JobStatus.FINISHED and self.kept_checkpoint is not None

    @property
    def files_waiting(self) -> int:
        return sum(vertex.files_waiting for vertex in self.vertices)


@value("job_details.job_overview")
class JobOverview(Value):
    """A job in a list of jobs. `subtask_counts` are those of all vertices (Flink's JobDetails)."""

    job_id: JobId
    name: str
    status: JobStatus
    started_ms: int | None
    ended_ms: int | None
    duration_ms: int
    last_modification_ms: int
    subtask_counts: tuple[SubtaskCount, ...]
    job_type: JobType = JobType.STREAMING
    number_of_restarts: int = 0
    scheduler_type: SchedulerType = SchedulerType.DEFAULT


@message("job_details.overview")
class JobsOverview(Message):
    """ExecutionGraphInfoStore -> client: the running jobs and the last ended jobs, in the order of submission."""

    jobs: tuple[JobOverview, ...]


@value("job_details.state_timestamp")
class StateTimestamp(Value):
    """The time at which an attempt entered a state."""

    state: ExecutionState
    at_ms: int


@value("job_details.attempt")
class AttemptDetails(Value):
    """An execution attempt (Flink's SubtaskExecutionAttemptDetailsInfo).

    `timestamps` are in the order of the states. `attempt` is None before the first attempt was scheduled.
    `accumulators` are those of a former attempt; `SubtaskDetails` contains those of the current attempt.
    """

    attempt: ExecutionAttemptId | None
    attempt_number: int
    state: ExecutionState
    timestamps: tuple[StateTimestamp, ...] = ()
    task_manager: TaskManagerId | None = None
    metrics: TaskIOMetrics = TaskIOMetrics()
    failure: SerializedThrowable | None = None
    accumulators: tuple[AccumulatorSnapshot, ...] = ()


@value("job_details.subtask")
class SubtaskDetails(Value):
    """A subtask, numbered from 0: its current attempt, and its last earlier attempts, oldest first.

    The rates and the shares cover the last seconds. `accumulators` are those of the current attempt. `last_checkpoint`
    has the subtask's metrics in the last completed checkpoint, or is None.
    """

    subtask: int
    current: AttemptDetails
    earlier: tuple[AttemptDetails, ...] = ()
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    shares: TimeShares | None = None
    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    last_checkpoint: CheckpointMetrics | None = None


@message("job_details.subtasks")
class SubtasksOfVertex(Message):
    """ExecutionGraphInfoStore -> client: a vertex and its subtasks, or None if the job has no such vertex."""

    job_id: JobId
    vertex: JobVertexDetails | None
    subtasks: tuple[SubtaskDetails, ...] = ()


@message("job_details.checkpoint_details")
class CheckpointDetails(Message):
    """ExecutionGraphInfoStore -> client: a checkpoint, or None if it is not retained.

    `subtasks` are those that have acknowledged, in the order of acknowledgement. They are retained for checkpoints in
    progress and for the last ended checkpoints.
    """

    job_id: JobId
    checkpoint: CheckpointStatistics | None
    subtasks: tuple[SubtaskCheckpointStatistics, ...] = ()


@value("job_details.environment")
class ProcessEnvironment(Value):
    """The interpreter of a job's driver, and its machine (Flink's EnvironmentInfo). Empty if not recorded."""

    version: str = ""
    arch: str = ""


@value("job_details.archived")
class ArchivedJob(Value):
    """All replies about an ended job, and the environment in which it ran (Flink's ArchivedExecutionGraph)."""

    overview: JobOverview
    details: JobDetails
    job_graph: JobGraph
    vertices: tuple[SubtasksOfVertex, ...]
    checkpoints: CheckpointStatsSnapshot
    checkpoint_details: tuple[CheckpointDetails, ...]
    environment: ProcessEnvironment = ProcessEnvironment()
    rescales: RescalesSnapshot | None = None


@message("job_details.archive_ended")
class ArchiveEnded(Message):
    """ExecutionGraphInfoStore -> itself: writing a job's archive has finished; `cause` is set if it failed."""

    job_id: JobId
    directory: str
    cause: SerializedThrowable | None = None


@message("job_details.await_archives")
class AwaitArchives(Message):
    """client, cluster -> ExecutionGraphInfoStore: reply with `ArchivesWritten` when no archive is being written."""

    reply_to: Ref


@message("job_details.archives_written")
class ArchivesWritten(Message):
    """ExecutionGraphInfoStore -> client, cluster: no archive is being written."""


InfoRequest = RequestJobsOverview | JobInfoRequest | AwaitArchives
