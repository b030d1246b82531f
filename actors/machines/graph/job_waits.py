"""Records since when a job waits for what, derived from the effects of its ExecutionGraph, in order.

Makes no decisions. The graph itself does not need these times, but an explanation does. `explain` combines them with
the attempts of the graph.
"""

from __future__ import annotations

from flykka.actors.machines.graph import events
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.slots.slot_requests import RequestSlots
from flykka.actors.machines.states import JOB_TERMINAL
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import AttemptExplained, JobExplained, RestartExplained
from flykka.messages.tasks.task import ExecutionState, TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId


class JobWaits:
    __slots__ = ("_cause", "_end_since", "_restarts", "_slots_since", "_state_since", "_status_since")

    def __init__(self, now: int) -> None:
        self._status_since = now
        self._cause: SerializedThrowable | None = None
        self._restarts: dict[int, RestartExplained] = {}
        self._state_since: int | None = None
        self._slots_since: int | None = None
        self._end_since: int | None = None

    def on_effect(self, effect: events.Effect, now: int) -> None:
        match effect:
            case events.JobStatusMoved(status=status, cause=cause):
                self._on_status(status, now)
                self._cause = cause or self._cause
            case events.RestartScheduled(delay_ms=delay_ms, version=version, tasks=tasks, cause=cause):
                self._cause = cause or self._cause or _without_cause()
                self._restarts[version] = RestartExplained(due_ms=now + delay_ms, cause=self._cause, tasks=tasks)
            case events.AskForRestoreState(version=version):
                self._state_since = now
                self._restarts.pop(version, None)
            case RequestSlots(requests=requests) if requests:
                self._slots_since = now
            case events.Deploy(descriptor=descriptor):
                self._state_since = None
                self._on_deployed(descriptor)
            case events.FinalizeVertices():
                self._end_since = now
            case _:
                pass

    def explain(self, job_id: JobId, graph: ExecutionGraph, now: int) -> JobExplained:
        waiting = [each for each in graph.executions if each.state is ExecutionState.SCHEDULED and each.slot is None]
        return JobExplained(
            job_id=job_id,
            now_ms=now,
            status=graph.status,
            since_ms=self._status_since,
            attempts=tuple(
                AttemptExplained(
                    attempt=execution.attempt,
                    vertex_id=execution.vertex_id,
                    subtask=execution.subtask,
                    name=execution.name,
                    state=execution.state,
                    since_ms=execution.timestamps.get(execution.state, now),
                    task_manager_id=execution.slot.task_manager_id if execution.slot else None,
                )
                for execution in graph.executions
            ),
            cause=self._cause,
            restarts=tuple(self._restarts.values()),
            waits_for_state=self._state_since,
            waits_for_end=self._end_since,
            slots_requested=len(waiting),
            slots_requested_since_ms=self._slots_since if waiting else None,
        )

    def _on_deployed(self, descriptor: TaskDeploymentDescriptor) -> None:
        task = f"{descriptor.vertex.name} ({descriptor.subtask + 1}/{descriptor.vertex.parallelism})"
        for version, restart in list(self._restarts.items()):
            if not restart.tasks or task in restart.tasks:
                del self._restarts[version]

    def _on_status(self, status: JobStatus, now: int) -> None:
        self._status_since = now
        if status is not JobStatus.RESTARTING and status is not JobStatus.RUNNING:
            self._restarts.clear()
        if status is not JobStatus.RUNNING:
            self._state_since = self._slots_since = None
            self._end_since = now if status in JOB_TERMINAL else None


def _without_cause() -> SerializedThrowable:
    return SerializedThrowable(type_name="UnknownFailure", message="no cause was reported")
