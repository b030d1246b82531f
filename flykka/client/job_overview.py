"""The overview of a job, as a fold over what `JobClient.add_listener` tells.

It holds no clock and draws nothing: who listens says when each message was heard, and asks for the values to show.
"""

from __future__ import annotations

from collections import deque

from flykka.actors.machines.checkpoint.statistics import CheckpointStatsStatus
from flykka.actors.machines.graph.accumulators import merged
from flykka.actors.machines.graph.exception_history import MAX_ENTRIES
from flykka.actors.machines.states import JOB_TERMINAL
from flykka.client.job_details import CheckpointStatistics, JobDetails, Restart
from flykka.client.time_series import Counts, Peaks
from flykka.client.vertex_overview import VertexOverview
from flykka.messages.control.job import (
    CheckpointAborted,
    CheckpointCompleted,
    ExecutionStateChanged,
    JobRestored,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    MetricsReported,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.exception_history import (
    ExceptionHistoryChanged,
    FailureOutcome,
    RootExceptionHistoryEntry,
)
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId
from flykka.messages.wire.message import Message

LAST_CHECKPOINTS = 5
LAST_RESTARTS = 10
"""A job may be restarted without end, and each restart holds the failure that led to it."""


class JobOverview:
    """Takes in the messages about one job, in their order; `details` says what is to be shown of it."""

    def __init__(self, job_graph: JobGraph, checkpoints: int = LAST_CHECKPOINTS) -> None:
        self._graph = job_graph
        self._status = JobStatus.CREATED
        self._began_ms: int | None = None
        self._ended_ms: int | None = None
        self._vertices = {vertex.vertex_id: VertexOverview(vertex) for vertex in job_graph.vertices}
        self._checkpoints: deque[CheckpointStatistics] = deque(maxlen=checkpoints)
        self._checkpoint_counts = dict.fromkeys(CheckpointStatsStatus, 0)
        self._last_completed: CheckpointStatistics | None = None
        self._restored: int | None = None
        self._restarts: deque[Restart] = deque(maxlen=LAST_RESTARTS)
        self._number_of_restarts = 0
        self._exceptions: dict[int, RootExceptionHistoryEntry] = {}
        self._number_of_exceptions = 0
        self._failure: SerializedThrowable | None = None
        self._kept: str | None = None
        self._final_accumulators: AccumulatorResults | None = None
        self._rows_read = Counts()
        self._lags = Peaks()

    def take(self, message: Message, at_ms: int) -> None:
        """Note a message that was heard at `at_ms`; one that carries a time of its own is noted with that."""
        match message:
            case JobStatusChanged(status=status, timestamp_ms=told_ms, cause=cause):
                self._on_status(status, told_ms, cause)
            case ExecutionStateChanged(attempt=attempt, state=state, timestamp_ms=told_ms):
                self._on_execution(attempt, state, told_ms)
                if state is ExecutionState.FAILED:
                    self._failure = message.failure or self._failure
            case MetricsReported(attempt=attempt, metrics=metrics, accumulators=accumulators):
                self._on_metrics(attempt, metrics, at_ms, accumulators, message.files_unassigned)
            case CheckpointCompleted(is_retained=is_retained):
                if is_retained:
                    for vertex in self._vertices.values():
                        vertex.note_checkpoint(message.timestamp_ms - message.duration_ms)
                self._on_checkpoint(_completed(message))
            case CheckpointAborted():
                self._on_checkpoint(_aborted(message))
            case ExceptionHistoryChanged(entry=entry):
                self._on_exception(entry, at_ms)
            case JobRestored(checkpoint_id=checkpoint):
                self._restored = checkpoint
            case JobResultSuccess(checkpoint_path=kept, accumulators=final):
                self._kept, self._final_accumulators = kept, final
                self._end(JobStatus.FINISHED, at_ms)
            case JobResultFailure(cause=cause, status=status, checkpoint_path=kept):
                self._failure, self._kept = cause, kept
                self._end(status, at_ms)
            case _:
                pass

    def details(self, at_ms: int) -> JobDetails:
        """What is to be shown at `at_ms`."""
        began = self._began_ms
        until = at_ms if self._ended_ms is None else self._ended_ms
        return JobDetails(
            job_id=self._graph.job_id,
            name=self._graph.name,
            status=self._status,
            started_ms=began,
            duration_ms=0 if began is None else max(0, until - began),
            vertices=tuple(vertex.details(at_ms) for vertex in self._vertices.values()),
            checkpoints=tuple(self._checkpoints),
            checkpoints_completed=self._checkpoint_counts[CheckpointStatsStatus.COMPLETED],
            checkpoints_failed=self._checkpoint_counts[CheckpointStatsStatus.FAILED],
            last_completed=self._last_completed,
            restored_checkpoint=self._restored,
            restarts=tuple(self._restarts),
            number_of_restarts=self._number_of_restarts,
            exceptions=tuple(self._exceptions.values()),
            number_of_exceptions=self._number_of_exceptions,
            accumulators=self._final_accumulators
            or merged(snapshot for vertex in self._vertices.values() for snapshot in vertex.accumulators),
            last_failure=self._failure,
            kept_checkpoint=self._kept,
            throughput=self._rows_read.per_second(until),
            watermark_lag=self._lags.series(),
        )

    def _on_status(self, status: JobStatus, told_ms: int, cause: SerializedThrowable | None) -> None:
        if self._began_ms is None:
            self._began_ms = told_ms
            self._rows_read.begin(told_ms)
            self._lags.begin(told_ms)
        self._failure = cause or self._failure
        self._status = status
        if status is JobStatus.RESTARTING:
            self._restarted(told_ms, self._failure)
        elif status is JobStatus.CREATED:
            for vertex in self._vertices.values():
                vertex.reset()
        elif status in JOB_TERMINAL:
            self._end(status, told_ms)

    def _on_exception(self, entry: RootExceptionHistoryEntry, at_ms: int) -> None:
        known = self._exceptions.get(entry.number)
        was_restarting = known is not None and known.outcome is FailureOutcome.RESTARTING
        self._exceptions[entry.number] = entry
        self._number_of_exceptions = max(self._number_of_exceptions, entry.number)
        if len(self._exceptions) > MAX_ENTRIES:
            del self._exceptions[min(self._exceptions)]
        if entry.outcome is FailureOutcome.RESTARTING and not was_restarting and self._status is JobStatus.RUNNING:
            # A region restarts, and the job runs all the while.
            self._restarted(at_ms, entry.root.cause)

    def _restarted(self, at_ms: int, cause: SerializedThrowable | None) -> None:
        self._number_of_restarts += 1
        self._restarts.append(Restart(at_ms=at_ms, cause=cause))

    def _on_execution(self, attempt: ExecutionAttemptId, state: ExecutionState, told_ms: int) -> None:
        vertex, subtask, number = self._place(attempt)
        self._vertices[vertex].note_state(subtask, number, state, told_ms)

    def _on_metrics(
        self,
        attempt: ExecutionAttemptId,
        metrics: TaskIOMetrics,
        at_ms: int,
        accumulators: tuple[AccumulatorSnapshot, ...],
        files_unassigned: int,
    ) -> None:
        vertex_id, subtask, number = self._place(attempt)
        vertex = self._vertices[vertex_id]
        more = vertex.note_metrics(subtask, number, metrics, at_ms, accumulators, files_unassigned)
        if vertex.is_source:
            self._rows_read.note(at_ms, more)
        # Once for each step: to find the least watermark every subtask is looked at.
        if self._lags.begins_step(at_ms):
            watermarks = [known for each in self._vertices.values() if (known := each.watermark_ms) is not None]
            if watermarks:
                self._lags.note(at_ms, at_ms - min(watermarks))

    def _on_checkpoint(self, checkpoint: CheckpointStatistics) -> None:
        self._checkpoints.append(checkpoint)
        self._checkpoint_counts[checkpoint.status] += 1
        if checkpoint.status is CheckpointStatsStatus.COMPLETED:
            self._last_completed = checkpoint

    def _end(self, status: JobStatus, at_ms: int) -> None:
        self._status = status
        if self._ended_ms is None:
            self._ended_ms = at_ms

    def _place(self, attempt: ExecutionAttemptId) -> tuple[JobVertexId, int, int]:
        """Vertex, subtask (from 0) and number of an attempt."""
        vertex, subtask, number = attempt.removeprefix(f"{self._graph.job_id}_").rsplit("_", 2)
        return JobVertexId(vertex), int(subtask), int(number)


def _completed(message: CheckpointCompleted) -> CheckpointStatistics:
    return CheckpointStatistics(
        checkpoint_id=message.checkpoint_id,
        status=CheckpointStatsStatus.COMPLETED,
        ended_ms=message.timestamp_ms,
        duration_ms=message.duration_ms,
        size_bytes=message.size_bytes,
        incremental_bytes=message.incremental_bytes,
        path=message.path,
        vertices=message.vertices,
    )


def _aborted(message: CheckpointAborted) -> CheckpointStatistics:
    return CheckpointStatistics(
        checkpoint_id=message.checkpoint_id,
        status=CheckpointStatsStatus.FAILED,
        ended_ms=message.timestamp_ms,
        reason=message.reason,
    )
