"""What is to be shown of a job at one moment, as values: by the names of Flink's REST API (JobDetailsInfo).

Made by `JobOverview`; a console and a notebook draw them, each in its own way. Nothing here knows of either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.checkpoint.statistics import CheckpointStatsStatus
from flykka.client.time_series import TimeSeries
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.checkpointing.statistics import VertexCheckpointStatistics
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.messages.tasks.accumulator import AccumulatorResults
from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN
from flykka.messages.tasks.task import ExecutionState, LatencyStatistics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, JobVertexId


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatistics:
    """One checkpoint. Only a completed one has a duration, sizes, a path and what its `vertices` measured.

    Only a failed one has a reason.
    """

    checkpoint_id: int
    status: CheckpointStatsStatus
    ended_ms: int
    duration_ms: int = 0
    size_bytes: int = 0
    incremental_bytes: int = 0
    path: str | None = None
    reason: CheckpointDeclineReason | None = None
    vertices: tuple[VertexCheckpointStatistics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A restart of the job, and the failure that led to it where it was told."""

    at_ms: int
    cause: SerializedThrowable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeShares:
    """How the running subtasks of a vertex have spent the last seconds: three shares that add up to 1."""

    busy: float
    back_pressured: float
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long the last latency markers took (ms) on the slowest way from a subtask of a source to one of a vertex."""

    median_ms: int
    p99_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVertexDetails:
    """One vertex. Rows are counted over all of its attempts: what a restart reads again is counted again.

    At most `rows_read_again` of `rows_in` are such: what attempts had counted that ended behind their last checkpoint.
    `sources` and `sinks` are the names of such operators in its chain. `subtasks` says how many of them are in each
    state. The watermark is the least of all subtasks, in ms of event time, and None while one of them has none; at
    the end of the input there is none any more: `event_time_ended`. The lag is that of the watermark behind the clock.
    The queue lengths are the batches that its running subtasks have before them, and those that wait for their readers.
    Of a source that runs, `files_waiting` files were found and are not begun to be read.
    Of the rows that its sinks have written, `rows_published` can be seen by readers, and `rows_staged` wait for a
    checkpoint to be completed. A restart counts no row twice; what it publishes because its checkpoint held it is not
    counted, so after a restart `rows_published` is the least that readers see, and `rows_staged` is what the newest
    attempts have staged. A sink that shows rows at once may show some again, and they are counted again.
    """

    vertex_id: JobVertexId
    name: str
    parallelism: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    state: ExecutionState
    subtasks: Mapping[ExecutionState, int]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """A job: its vertices in topological order, its last checkpoints and its last restarts, the oldest first.

    `last_failure` is the last failure that was told of, overcome or not. `kept_checkpoint` is the path of the one that
    a job which has ended can be continued from. `exceptions` are the last failures, with what was done about them, of
    `number_of_exceptions` in all. `accumulators` are those of the
    newest attempts so far; of a job that has FINISHED they are final. `throughput` is the rows per second that its
    sources have read, `watermark_lag` the lag (ms) of the vertex that was furthest behind, both over its whole life.
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
    accumulators: AccumulatorResults = field(default_factory=AccumulatorResults)
    throughput: TimeSeries = field(default_factory=TimeSeries)
    watermark_lag: TimeSeries = field(default_factory=TimeSeries)

    @property
    def was_stopped(self) -> bool:
        """Whether it was stopped with a checkpoint or a savepoint: it is FINISHED, but not at the end of its input."""
        return self.status is JobStatus.FINISHED and self.kept_checkpoint is not None

    @property
    def files_waiting(self) -> int:
        """How many files of its sources were found and are not begun to be read."""
        return sum(vertex.files_waiting for vertex in self.vertices)


def aggregate_state(subtasks: Mapping[ExecutionState, int]) -> ExecutionState:
    """The state that stands for all subtasks of a vertex (Flink's ExecutionJobVertex.getAggregateJobVertexState)."""
    for state in (
        ExecutionState.FAILED,
        ExecutionState.CANCELING,
        ExecutionState.CANCELED,
        ExecutionState.RUNNING,
    ):
        if subtasks.get(state):
            return state
    if finished := subtasks.get(ExecutionState.FINISHED):
        return ExecutionState.FINISHED if finished == sum(subtasks.values()) else ExecutionState.RUNNING
    return ExecutionState.CREATED


def least_watermark(watermarks: Iterable[int | None]) -> int | None:
    """The least of the subtasks' watermarks; None while one of them has none, or where there are no subtasks."""
    known = [WATERMARK_MIN if watermark is None else watermark for watermark in watermarks]
    least = min(known, default=WATERMARK_MIN)
    return None if least == WATERMARK_MIN else least


def slowest(latencies: Iterable[LatencyStatistics]) -> Latency | None:
    """The way whose median is the greatest; None where there is none."""
    slow = max(latencies, key=lambda way: (way.median_ms, way.p99_ms), default=None)
    return None if slow is None else Latency(median_ms=slow.median_ms, p99_ms=slow.p99_ms)


def event_time_has_ended(watermark_ms: int | None) -> bool:
    """Whether this is the watermark behind the last row."""
    return watermark_ms == WATERMARK_MAX
