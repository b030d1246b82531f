"""The listeners of a job: those with which it started, and those that registered later."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.actors.machines.graph.events import ExecutionMoved
from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.messages.control.job import (
    ExecutionStateChanged,
    JobRestored,
    JobStatusChanged,
    MetricsReported,
    RegisterJobClient,
    RegisterJobClientSuccess,
)
from flykka.messages.tasks.task import ReportTaskMetrics
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref


class JobListeners:
    def __init__(self, job_id: JobId, listeners: Sequence[Ref]) -> None:
        self._job_id = job_id
        self._listeners = list(listeners)

    def tell(self, message: Message) -> None:
        for listener in self._listeners:
            listener.tell(message)

    def report_restore(self, checkpoint_id: int | None, now: int) -> None:
        """Report the checkpoint from which the job continues. None means the beginning of the input."""
        self.tell(JobRestored(job_id=self._job_id, checkpoint_id=checkpoint_id, timestamp_ms=now))

    def report_metrics(self, report: ReportTaskMetrics, execution: Execution, files_unassigned: int) -> None:
        self.tell(
            MetricsReported(
                job_id=self._job_id,
                attempt=report.attempt,
                task_name=execution.name,
                metrics=report.metrics,
                vertex_id=execution.vertex_id,
                subtask=execution.subtask,
                accumulators=report.accumulators,
                files_unassigned=files_unassigned,
            )
        )

    def report_move(self, move: ExecutionMoved, now: int) -> None:
        self.tell(
            ExecutionStateChanged(
                job_id=self._job_id,
                attempt=move.attempt,
                task_name=move.task_name,
                state=move.state,
                timestamp_ms=now,
                task_manager=move.task_manager_id,
                failure=move.failure,
            )
        )

    def register(self, message: RegisterJobClient, graph: ExecutionGraph, now: int) -> None:
        """Add a listener, and send it the current status first."""
        job_id, client = message.job_id, message.client
        client.tell(JobStatusChanged(job_id=job_id, status=graph.status, timestamp_ms=now, cause=graph.failure_cause))
        for changed in _attempts(job_id, graph, now):
            client.tell(changed)
        client.tell(RegisterJobClientSuccess(job_id=job_id))
        if client not in self._listeners:
            self._listeners.append(client)


def _attempts(job_id: JobId, graph: ExecutionGraph, now: int) -> list[ExecutionStateChanged]:
    return [
        ExecutionStateChanged(
            job_id=job_id,
            attempt=execution.attempt,
            task_name=execution.name,
            state=execution.state,
            timestamp_ms=execution.timestamps.get(execution.state, now),
            task_manager=execution.slot.task_manager_id if execution.slot else None,
            failure=execution.failure,
        )
        for execution in graph.executions
    ]
