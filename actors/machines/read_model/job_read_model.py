"""The read model of a job: a fold over the messages that its JobMaster and the JobManager send to listeners.

Includes its parts: the last rescales (Flink's RescalesStatsSnapshot), and time series.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import replace

from flykka.actors.machines.graph.accumulators import merged
from flykka.actors.machines.graph.exception_history import MAX_ENTRIES
from flykka.actors.machines.read_model.checkpoint_stats_tracker import CheckpointStatsTracker
from flykka.actors.machines.read_model.vertex_read_model import VertexReadModel
from flykka.actors.machines.rescaling.requirements import with_parallelism
from flykka.actors.machines.states import JOB_TERMINAL
from flykka.messages.control import job, rescaling
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring import job_details
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot
from flykka.messages.tasks.operator_event import OperatorCoordinatorMetricsReported
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, TaskManagerId, vertex_subtask_and_number
from flykka.messages.wire.message import Message

MAX_RESCALES = 100
"""The maximum number of retained rescales (Flink's web.adaptive-scheduler.rescale-history.size)."""


class RescaleHistory:
    def __init__(self) -> None:
        self._rescales: OrderedDict[str, rescaling.Rescale] = OrderedDict()
        self._counts: Counter[rescaling.RescaleTerminalState] = Counter()

    @property
    def has_one_under_way(self) -> bool:
        return bool(self._rescales) and next(reversed(self._rescales.values())).reason is None

    def record(self, rescale: rescaling.Rescale) -> None:
        if rescale.terminal_state is not None:
            self._counts[rescale.terminal_state] += 1
        self._rescales[rescale.rescale_id] = rescale
        if len(self._rescales) > MAX_RESCALES:
            self._rescales.popitem(last=False)

    def on_new_job_master(self, at_ms: int) -> None:
        reason = rescaling.RescaleTerminatedReason.EXCEPTION_OCCURRED
        for rescale in [each for each in self._rescales.values() if each.reason is None]:
            self.record(replace(rescale, ended_ms=at_ms, reason=reason, comment="its JobMaster has ended"))

    def snapshot(self, job_id: JobId) -> rescaling.RescalesSnapshot:
        return rescaling.RescalesSnapshot(
            job_id=job_id,
            rescales=tuple(self._rescales.values()),
            completed=self._counts[rescaling.RescaleTerminalState.COMPLETED],
            failed=self._counts[rescaling.RescaleTerminalState.FAILED],
            ignored=self._counts[rescaling.RescaleTerminalState.IGNORED],
        )


POINTS = 120
"""The maximum number of points in a series. At the maximum, pairs of points are merged."""

STEP_MS = 1_000
"""The initial length of a step in milliseconds. Actors do not report more often."""


class _Points(ABC):
    """A series of numbers over the run of a job, with a fixed maximum number of points for any duration.

    A point stands for a step of time. When the maximum is reached, each pair becomes one point (`combined`) and the
    step doubles: a job of a minute is shown by the second, a job of a day by the half hour.
    """

    def __init__(self) -> None:
        self.start_ms: int | None = None
        self.step_ms = STEP_MS
        self.values: list[float | None] = []

    def start_at(self, at_ms: int) -> None:
        if self.start_ms is None:
            self.start_ms = at_ms

    def place(self, at_ms: int) -> int:
        """Return the index of the step of this time. Times before the series belong to the first step."""
        self.start_at(at_ms)
        assert self.start_ms is not None
        while (index := max(0, at_ms - self.start_ms) // self.step_ms) >= POINTS:
            self._coarsen()
        return index

    @abstractmethod
    def combined(self, first: float, second: float) -> float: ...

    def record(self, at_ms: int, value: float) -> None:
        index = self.place(at_ms)
        self.values.extend([None] * (index + 1 - len(self.values)))
        current = self.values[index]
        self.values[index] = value if current is None else self.combined(current, value)

    def _coarsen(self) -> None:
        if len(self.values) % 2:
            self.values.append(None)
        pairs = zip(self.values[::2], self.values[1::2], strict=True)
        self.values = [
            second if first is None else first if second is None else self.combined(first, second)
            for first, second in pairs
        ]
        self.step_ms *= 2


class RowCounts(_Points):
    """Counts per step, reported as rates per second."""

    def combined(self, first: float, second: float) -> float:
        return first + second

    def per_second(self, until_ms: int) -> job_details.TimeSeries:
        """Return the rates up to `until_ms`, 0 for steps without reports. The last step ends at `until_ms`."""
        if self.start_ms is None:
            return job_details.TimeSeries()
        lasted = max(1, until_ms - self.start_ms)
        steps = max(len(self.values), min(POINTS, -(-lasted // self.step_ms)))
        counts = [*self.values, *[None] * (steps - len(self.values))]
        rates = [
            (count or 0) * 1_000 / min(self.step_ms, max(STEP_MS, lasted - index * self.step_ms))
            for index, count in enumerate(counts)
        ]
        return job_details.TimeSeries(start_ms=self.start_ms, step_ms=self.step_ms, values=tuple(rates))


class Peaks(_Points):
    def combined(self, first: float, second: float) -> float:
        return max(first, second)

    def begins_step(self, at_ms: int) -> bool:
        """Create the step. Returns True for the first call in each step."""
        new = self.place(at_ms) + 1 - len(self.values)
        self.values.extend([None] * new)
        return new > 0

    def series(self) -> job_details.TimeSeries:
        return job_details.TimeSeries(start_ms=self.start_ms or 0, step_ms=self.step_ms, values=tuple(self.values))


LAST_RESTARTS = 10


class JobReadModel:
    """Applies the messages about one job in their order. `details` returns its state as a value.

    The model outlives the JobMasters of the job. The cost of a message does not depend on the size of the job.
    """

    def __init__(self, job_graph: JobGraph) -> None:
        self.submitted = self.job_graph = job_graph
        self.status = job.JobStatus.CREATED
        self._began_ms: int | None = None
        self.ended_ms: int | None = None
        self._timestamps: dict[job.JobStatus, job_details.StatusTimestamp] = {}
        self._deployments = DeployingAttempts()
        self._vertices = {vertex.vertex_id: VertexReadModel(vertex) for vertex in job_graph.vertices}
        self.checkpoints = CheckpointStatsTracker(
            {vertex.vertex_id: vertex.parallelism for vertex in job_graph.vertices}
        )
        self.rescales = RescaleHistory()
        self._restored: int | None = None
        self._restored_ms: int | None = None
        self._restarts: deque[job_details.Restart] = deque(maxlen=LAST_RESTARTS)
        self.number_of_restarts = 0
        self._exceptions: dict[int, RootExceptionHistoryEntry] = {}
        self._number_of_exceptions = 0
        self._failure: SerializedThrowable | None = None
        self.has_result = False
        self._kept: str | None = None
        self._final_accumulators: AccumulatorResults | None = None
        self._rows_read = RowCounts()
        self._lags = Peaks()
        self._modified_ms = 0
        self.lost_task_managers: dict[TaskManagerId, None] = {}

    @property
    def job_id(self) -> JobId:
        return self.job_graph.job_id

    @property
    def archive_directory(self) -> str | None:
        return self.job_graph.checkpointing.archive_directory

    def on_message(self, message: Message, at_ms: int) -> None:
        """Apply a message that arrived at `at_ms`. If the message has a time of its own, that time is recorded."""
        self._modified_ms = at_ms
        self.checkpoints.on_message(message)
        match message:
            case job.JobStatusChanged(status=status, timestamp_ms=told_ms, cause=cause):
                self._on_status(status, told_ms, cause)
            case job.ExecutionStateChanged(attempt=attempt, state=state):
                vertex_id, subtask, number = vertex_subtask_and_number(attempt, self.job_id)
                self._vertices[vertex_id].record_state(subtask, number, message)
                self._deployments.record(message)
                if state is ExecutionState.FAILED:
                    self._failure = message.failure or self._failure
            case job.MetricsReported(attempt=attempt, metrics=metrics, accumulators=accumulators):
                self._on_metrics(attempt, metrics, at_ms, accumulators, message.files_unassigned)
            case OperatorCoordinatorMetricsReported(vertex_id=vertex_id, metrics=measured):
                self._vertices[vertex_id].coordinator_metrics = measured
            case job.CheckpointCompleted(is_retained=True):
                for vertex in self._vertices.values():
                    vertex.record_checkpoint(message.timestamp_ms - message.duration_ms)
            case ExceptionHistoryChanged(entry=entry):
                self._on_exception(entry, at_ms)
            case job.JobRestored(checkpoint_id=checkpoint, timestamp_ms=restored_ms):
                self._restored = checkpoint
                if checkpoint is not None:
                    self._restored_ms = restored_ms
            case rescaling.RescaleChanged(rescale=rescale):
                self.rescales.record(rescale)
            case rescaling.JobParallelismChanged(vertices=vertices):
                self._on_rescaled({each.vertex_id: each.parallelism for each in vertices})
            case job.TaskManagerLost(task_manager=task_manager):
                self.lost_task_managers[task_manager] = None
            case job.JobResultSuccess(checkpoint_path=kept, accumulators=final):
                self.has_result, self._kept, self._final_accumulators = True, kept, final
                self._end(job.JobStatus.FINISHED, at_ms)
            case job.JobResultFailure(cause=cause, status=status, checkpoint_path=kept):
                self.has_result, self._failure, self._kept = True, cause, kept
                self._end(status, at_ms)
            case _:
                pass

    def on_new_job_master(self, at_ms: int) -> None:
        self._deployments.end(at_ms)
        self.checkpoints.on_coordinator_lost(at_ms)
        self.rescales.on_new_job_master(at_ms)

    def overview(self, at_ms: int) -> job_details.JobOverview:
        counts = sum((vertex.states for vertex in self._vertices.values()), Counter[ExecutionState]())
        return job_details.JobOverview(
            job_id=self.job_id,
            name=self.job_graph.name,
            status=self.status,
            started_ms=self._began_ms,
            ended_ms=self.ended_ms,
            duration_ms=self._duration_ms(at_ms),
            last_modification_ms=self._modified_ms,
            subtask_counts=tuple(job_details.SubtaskCount(state=state, count=count) for state, count in counts.items()),
            job_type=self.job_graph.job_type,
            number_of_restarts=self.number_of_restarts,
            scheduler_type=self.job_graph.scheduler_type,
        )

    def subtasks(self, vertex_id: JobVertexId, at_ms: int) -> job_details.SubtasksOfVertex:
        vertex = self._vertices.get(vertex_id)
        if vertex is None:
            return job_details.SubtasksOfVertex(job_id=self.job_id, vertex=None)
        subtasks = vertex.subtasks(self.checkpoints.last_acknowledged)
        return job_details.SubtasksOfVertex(job_id=self.job_id, vertex=vertex.details(at_ms), subtasks=subtasks)

    def details(self, at_ms: int, checkpoints: int = job_details.CHECKPOINT_HISTORY) -> job_details.JobDetails:
        until = at_ms if self.ended_ms is None else self.ended_ms
        return job_details.JobDetails(
            job_id=self.job_id,
            name=self.job_graph.name,
            status=self.status,
            started_ms=self._began_ms,
            ended_ms=self.ended_ms,
            duration_ms=self._duration_ms(at_ms),
            vertices=tuple(vertex.details(at_ms) for vertex in self._vertices.values()),
            checkpoints=self.checkpoints.ended(checkpoints),
            checkpoints_in_progress=self.checkpoints.in_progress,
            checkpoints_completed=self.checkpoints.counts.completed,
            checkpoints_failed=self.checkpoints.counts.failed,
            last_completed=self.checkpoints.last_completed,
            last_failed=self.checkpoints.latest_failed,
            restored_checkpoint=self._restored,
            restarts=tuple(self._restarts),
            number_of_restarts=self.number_of_restarts,
            exceptions=tuple(self._exceptions.values()),
            number_of_exceptions=self._number_of_exceptions,
            accumulators=self._final_accumulators
            or merged(snapshot for vertex in self._vertices.values() for snapshot in vertex.accumulators),
            last_failure=self._failure,
            kept_checkpoint=self._kept,
            throughput=self._rows_read.per_second(until),
            watermark_lag=self._lags.series(),
            timestamps=tuple(self._timestamps.values()),
            restored_ms=self._restored_ms,
            deploying=self._deployments.told,
        )

    def archived(self, at_ms: int) -> job_details.ArchivedJob:
        return job_details.ArchivedJob(
            overview=self.overview(at_ms),
            details=self.details(at_ms),
            job_graph=self.job_graph,
            vertices=tuple(self.subtasks(vertex_id, at_ms) for vertex_id in self._vertices),
            checkpoints=self.checkpoints.snapshot(self.job_id),
            checkpoint_details=self.checkpoints.with_subtasks(self.job_id),
            rescales=self.rescales.snapshot(self.job_id),
        )

    def _on_status(self, status: job.JobStatus, told_ms: int, cause: SerializedThrowable | None) -> None:
        if self._began_ms is None:
            self._began_ms = told_ms
            self._rows_read.start_at(told_ms)
            self._lags.start_at(told_ms)
        self._failure = cause or self._failure
        is_rescaled = self.status is job.JobStatus.RUNNING and cause is None and self.rescales.has_one_under_way
        self._enter(status, told_ms)
        if status is job.JobStatus.RESTARTING and not is_rescaled:
            self._restarted(told_ms, self._failure)
        elif status is job.JobStatus.CREATED:
            for vertex in self._vertices.values():
                vertex.reset()
            self._deployments.end(told_ms)
        elif status in JOB_TERMINAL:
            self._end(status, told_ms)

    def _on_rescaled(self, parallelism: Mapping[JobVertexId, int]) -> None:
        self.job_graph = with_parallelism(self.job_graph, parallelism)
        for vertex_id, subtasks in parallelism.items():
            self._vertices[vertex_id].rescale(subtasks)
        self.checkpoints.rescale(parallelism)

    def _on_exception(self, entry: RootExceptionHistoryEntry, at_ms: int) -> None:
        former = self._exceptions.get(entry.number)
        was_restarting = former is not None and former.outcome is FailureOutcome.RESTARTING
        self._exceptions[entry.number] = entry
        self._number_of_exceptions = max(self._number_of_exceptions, entry.number)
        if len(self._exceptions) > MAX_ENTRIES:
            del self._exceptions[min(self._exceptions)]
        if entry.outcome is FailureOutcome.RESTARTING and not was_restarting and self.status is job.JobStatus.RUNNING:
            # One region restarts while the job stays RUNNING.
            self._restarted(at_ms, entry.root.cause)

    def _restarted(self, at_ms: int, cause: SerializedThrowable | None) -> None:
        self.number_of_restarts += 1
        self._restarts.append(job_details.Restart(at_ms=at_ms, cause=cause))

    def _on_metrics(
        self,
        attempt: ExecutionAttemptId,
        metrics: TaskIOMetrics,
        at_ms: int,
        accumulators: tuple[AccumulatorSnapshot, ...],
        files_unassigned: int,
    ) -> None:
        vertex_id, subtask, number = vertex_subtask_and_number(attempt, self.job_id)
        vertex = self._vertices[vertex_id]
        more = vertex.record_metrics(subtask, number, metrics, at_ms, accumulators, files_unassigned)
        if vertex.is_source:
            self._rows_read.record(at_ms, more)
        # Once for each step, because finding the lowest watermark iterates over all subtasks.
        if self._lags.begins_step(at_ms):
            watermarks = [
                watermark_ms for each in self._vertices.values() if (watermark_ms := each.watermark_ms) is not None
            ]
            if watermarks:
                self._lags.record(at_ms, at_ms - min(watermarks))

    def _duration_ms(self, at_ms: int) -> int:
        until = at_ms if self.ended_ms is None else self.ended_ms
        return 0 if self._began_ms is None else max(0, until - self._began_ms)

    def _end(self, status: job.JobStatus, at_ms: int) -> None:
        if self.ended_ms is None:
            self.ended_ms = at_ms
        self._deployments.end(at_ms)
        if self.status is not status:
            self._enter(status, at_ms)

    def _enter(self, status: job.JobStatus, at_ms: int) -> None:
        former = self._timestamps.get(self.status)
        if former is not None:
            self._timestamps[self.status] = replace(former, total_ms=former.total_ms + max(0, at_ms - former.at_ms))
        self.status = status
        # Move the entry to the end of the dictionary, so that the dictionary is ordered by time.
        before = self._timestamps.pop(status, None)
        total_ms = 0 if before is None else before.total_ms
        self._timestamps[status] = job_details.StatusTimestamp(status=status, at_ms=at_ms, total_ms=total_ms)


class DeployingAttempts:
    """The attempts that are DEPLOYING, and for how long (Flink's DeploymentStateTimeMetrics)."""

    def __init__(self) -> None:
        self._attempts: set[ExecutionAttemptId] = set()
        self.told = job_details.Deploying()

    def record(self, message: job.ExecutionStateChanged) -> None:
        if message.state is ExecutionState.DEPLOYING:
            self._attempts.add(message.attempt)
            if self.told.since_ms is None:
                self.told = job_details.Deploying(since_ms=message.timestamp_ms, total_ms=self.told.total_ms)
        elif message.attempt in self._attempts:
            self._attempts.remove(message.attempt)
            if not self._attempts:
                self.end(message.timestamp_ms)

    def end(self, at_ms: int) -> None:
        self._attempts.clear()
        if self.told.since_ms is not None:
            total_ms = self.told.total_ms + max(0, at_ms - self.told.since_ms)
            self.told = job_details.Deploying(total_ms=total_ms)
