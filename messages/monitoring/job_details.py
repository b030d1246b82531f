"""Questions about a job and the answers of its read model, by the names of Flink's REST API (JobDetailsInfo)."""

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
"""The number of checkpoints kept, the last ones: a quarter of an hour of them at one per second."""


@message("job_details.track")
class TrackJob(Message):
    """JobManager -> ExecutionGraphInfoStore: a JobMaster begins to run this job, for the first time or once more."""

    job_graph: JobGraph


@message("job_details.request")
class RequestJobDetails(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: what is the present state of this job, or how has it ended?

    Answered with `JobDetails`, which has the last `checkpoints` of those that are kept; with `JobNotFound` where
    nothing is known of it. So are the other questions about one job.
    """

    job_id: JobId
    reply_to: Ref
    checkpoints: int = CHECKPOINT_HISTORY


@message("job_details.request_overview")
class RequestJobsOverview(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: which jobs are there? Answered with `JobsOverview`."""

    reply_to: Ref


@message("job_details.request_graph")
class RequestJobGraph(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: the plan and the configuration of a job, with `JobFound`."""

    job_id: JobId
    reply_to: Ref


@message("job_details.request_vertex")
class RequestJobVertexDetails(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: the subtasks of a vertex, with `SubtasksOfVertex`."""

    job_id: JobId
    reply_to: Ref
    vertex_id: JobVertexId


@message("job_details.request_checkpoints")
class RequestCheckpointStats(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: the checkpoints of a job, with `CheckpointStatsSnapshot`."""

    job_id: JobId
    reply_to: Ref


@message("job_details.request_checkpoint")
class RequestCheckpointDetails(Message):
    """client -> JobManager -> ExecutionGraphInfoStore: one checkpoint of a job, with `CheckpointDetails`."""

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
"""The questions about one job."""


@message("job_details.timed_out")
class JobDetailsTimedOut(Message):
    """client's timer -> itself: nothing was heard of how the job has ended, but that it has."""


@value("job_details.time_series")
class TimeSeries(Value):
    """Values at the steps since `start_ms`, the oldest first; None where nothing was noted."""

    start_ms: int = 0
    step_ms: int = 1_000
    values: tuple[float | None, ...] = ()


@value("job_details.status_timestamp")
class StatusTimestamp(Value):
    """The time at which a job has entered a status, the last time where it did so often.

    `total_ms` is the time that it was in it, without that which still lasts.
    """

    status: JobStatus
    at_ms: int
    total_ms: int = 0


@value("job_details.deploying")
class Deploying(Value):
    """The time in which some task of a job was being deployed: since when, where one is, and the ms in all before."""

    since_ms: int | None = None
    total_ms: int = 0


@value("job_details.subtask_count")
class SubtaskCount(Value):
    """The number of subtasks of a vertex in a state."""

    state: ExecutionState
    count: int


@value("job_details.restart")
class Restart(Value):
    """A restart of the job, and the failure that led to it where it was told."""

    at_ms: int
    cause: SerializedThrowable | None


@value("job_details.time_shares")
class TimeShares(Value):
    """Shares of the last seconds of a vertex's running subtasks: the three add up to 1."""

    busy: float
    back_pressured: float
    idle: float


@value("job_details.latency")
class Latency(Value):
    """Latency (ms) of the last latency markers on the slowest way from a subtask of a source to one of a vertex."""

    median_ms: int
    p99_ms: int


@value("job_details.vertex")
class JobVertexDetails(Value):
    """A vertex. Rows are counted over all of its attempts: those that a restart reads again are counted again.

    At most `rows_read_again` of `rows_in` are such: what attempts had counted that ended behind their last checkpoint.
    `sources` and `sinks` are the names of such operators in its chain. `subtask_counts` says how many subtasks are in
    each state. The watermark is the least of all subtasks, in ms of event time, and None while one of them has none; at
    the end of the input there is none any more: `event_time_ended`. The lag is that of the watermark behind the clock.
    The queue lengths are the batches that its running subtasks have before them, and those that wait for their readers.
    Of a source that runs, `files_waiting` files were found and are not begun to be read.
    Of the rows that its sinks have written, `rows_published` can be seen by readers, and `rows_staged` wait for a
    checkpoint to be completed. A restart counts no row twice; what it publishes because its checkpoint held it is not
    counted, so after a restart `rows_published` is the least that readers see, and `rows_staged` is what the newest
    attempts have staged. A sink that shows rows at once may show some again, and they are counted again. Metrics of the
    coordinator are those that the user's code counts on the JobMaster's side. `held_back_by` names a silent source.
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
    """ExecutionGraphInfoStore -> client: a job as it stands now.

    Its vertices are in topological order; of its last checkpoints and its last restarts the oldest come first.
    `last_failure` is the last failure that was told of, overcome or not. `kept_checkpoint` is the path of the one that
    a job which has ended can be continued from. `exceptions` are the last failures, with what was done about them, of
    `number_of_exceptions` in all. `accumulators` are those of the
    newest attempts so far; of a job that has FINISHED they are final. `throughput` is the rows per second that its
    sources have read, `watermark_lag` the lag (ms) of the vertex that was furthest behind, both over its whole life.
    `timestamps` say when it has entered each status last, in the order of these times; `restored_ms` when it has last
    begun with a checkpoint.
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
        """True if it was stopped with a checkpoint or a savepoint: it is FINISHED, but not at the end of its input."""
        return self.status is JobStatus.FINISHED and self.kept_checkpoint is not None

    @property
    def files_waiting(self) -> int:
        """The number of files that its sources have discovered and not begun to read."""
        return sum(vertex.files_waiting for vertex in self.vertices)


@value("job_details.job_overview")
class JobOverview(Value):
    """A job in a list of jobs: `subtask_counts` are those of all vertices (Flink's JobDetails)."""

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
    """ExecutionGraphInfoStore -> client: the jobs that run and the last that have ended, in the order of submission."""

    jobs: tuple[JobOverview, ...]


@value("job_details.state_timestamp")
class StateTimestamp(Value):
    """The time at which an attempt has entered a state."""

    state: ExecutionState
    at_ms: int


@value("job_details.attempt")
class AttemptDetails(Value):
    """An execution attempt (Flink's SubtaskExecutionAttemptDetailsInfo).

    `timestamps` are in the order of the states. `attempt` is None before the first one was scheduled. `accumulators`
    are those of one that another has followed; of the current one its `SubtaskDetails` has them.
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
    """A subtask, counted from 0: its current attempt, and the last of those before it, the oldest first.

    The rates and the shares are of the last seconds. `accumulators` are those of the current attempt; `last_checkpoint`
    is what the subtask has measured in the last completed one, None where there is none.
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
    """ExecutionGraphInfoStore -> client: a vertex (None where the job has no such vertex) and its subtasks."""

    job_id: JobId
    vertex: JobVertexDetails | None
    subtasks: tuple[SubtaskDetails, ...] = ()


@message("job_details.checkpoint_details")
class CheckpointDetails(Message):
    """ExecutionGraphInfoStore -> client: a checkpoint, None where it is not kept.

    `subtasks` are those that have acknowledged, in this order; they are kept of the checkpoints in progress and of the
    last that have ended.
    """

    job_id: JobId
    checkpoint: CheckpointStatistics | None
    subtasks: tuple[SubtaskCheckpointStatistics, ...] = ()


@value("job_details.environment")
class ProcessEnvironment(Value):
    """The interpreter of a job's driver, and its machine (Flink's EnvironmentInfo); empty where it was not noted."""

    version: str = ""
    arch: str = ""


@value("job_details.archived")
class ArchivedJob(Value):
    """All answers about a job when its result was told, and where it ran (Flink's ArchivedExecutionGraph)."""

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
    """ExecutionGraphInfoStore -> itself: the archive of a job is written, or is not, for this cause."""

    job_id: JobId
    directory: str
    cause: SerializedThrowable | None = None


@message("job_details.await_archives")
class AwaitArchives(Message):
    """client, cluster -> ExecutionGraphInfoStore: answer with `ArchivesWritten` when no archive is being written."""

    reply_to: Ref


@message("job_details.archives_written")
class ArchivesWritten(Message):
    """ExecutionGraphInfoStore -> client, cluster: no archive is being written."""


InfoRequest = RequestJobsOverview | JobInfoRequest | AwaitArchives
"""The questions that a JobManager hands on to the ExecutionGraphInfoStore."""
