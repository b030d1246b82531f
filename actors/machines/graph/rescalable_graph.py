"""The ExecutionGraph of a job whose parallelism may change: all tasks end, and new tasks replace them.

Covers the transition of Flink's AdaptiveScheduler from Executing through Restarting to Executing, for which Flink
creates a new ExecutionGraph. Here the graph remains the same object, so that references to it stay valid, but its
tasks, their topology and the job graph are new. The job is RESTARTING while its tasks end. With the adaptive scheduler
every failure restarts all tasks, so that each restart can change the parallelism.

Not here: the choice of the parallelism and the time of the rescale (`rescaling.adaptive_scheduler`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.machines.effects import Role, Tell
from flykka.actors.machines.graph import events
from flykka.actors.machines.graph.events import Effect, GraphRescaled, JobStatusMoved, RescaleNotBegun
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.graph.execution_job_vertex import VertexAttemptNumberStore
from flykka.actors.machines.graph.pending_failovers import Failovers
from flykka.actors.machines.graph.task_scheduling import TaskScheduling
from flykka.actors.machines.rescaling.requirements import with_parallelism
from flykka.actors.machines.restart.failure_handler import failover_strategy
from flykka.actors.machines.restart.restart_strategy import RestartStrategy
from flykka.actors.machines.slots.slot_requests import ForgetPriorSlots
from flykka.actors.machines.states import job_may_move
from flykka.messages.control.checkpoint_coordination import AbortPendingCheckpoints
from flykka.messages.control.job import CancelJob, JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.graph.job_graph import FailoverStrategyKind, JobGraph, SchedulerType
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobVertexId


class RescalableExecutionGraph(ExecutionGraph):
    def __init__(self, job_graph: JobGraph, restart_strategy: RestartStrategy, now: int) -> None:
        if job_graph.scheduler_type is SchedulerType.ADAPTIVE:
            job_graph = replace(job_graph, failover_strategy=FailoverStrategyKind.FULL)
        super().__init__(job_graph, restart_strategy, now)
        self._numbers = VertexAttemptNumberStore(job_graph.first_attempt_number)
        self._target: Mapping[JobVertexId, int] | None = None
        self._rescaling_version: int | None = None

    def handle(self, event: events.RescalableEvent, now: int) -> list[Effect]:
        match event:
            case events.RescaleRequested(parallelism=parallelism):
                effects = self._on_rescale_requested(parallelism, now)
            case JobRestartDue(version=version) if self._restarts_rescaled(version):
                self._failovers.end_all(())
                effects = self._begin_rescaled(now)
            case CancelJob() if self._is_rescaling:
                self.version += 1
                effects = [self._move(JobStatus.CANCELLING)]
            case _:
                return super().handle(event, now)
        return [*effects, *self._act_on_ends(now)]

    def check(self) -> None:
        if self._is_rescaling:
            self._tasks.check()
            assert self._target is not None, "the job is rescaled without a target"
            assert self.live_attempts > 0, "the tasks have ended, but no new ones were started"
        else:
            super().check()

    @property
    def present_job_graph(self) -> JobGraph:
        """The current job graph, with the numbers of key groups that vertices have adopted from a checkpoint."""
        vertices = tuple(vertex.job_vertex for vertex in self._tasks.vertices.values())
        return replace(self.job_graph, vertices=vertices)

    @property
    def _is_rescaling(self) -> bool:
        """True if the tasks end because of a rescale, and no later event has replaced the rescale."""
        return self.status is JobStatus.RESTARTING and self._rescaling_version == self.version

    def _restarts_rescaled(self, version: int) -> bool:
        is_due = self.status is JobStatus.RESTARTING and self._failovers.get(version) is not None
        return is_due and self._target is not None

    def _on_rescale_requested(self, parallelism: Mapping[JobVertexId, int], now: int) -> list[Effect]:
        match self.status:
            case JobStatus.CREATED:
                self._target = parallelism
                return self._rebuild(now)
            case JobStatus.FAILING | JobStatus.RESTARTING:
                # All tasks restart anyway, now with this parallelism.
                self._target = parallelism
                return []
            case JobStatus.RUNNING if self._is_stopping:
                return [RescaleNotBegun(why="the job is taking the checkpoint with which it stops")]
            case JobStatus.RUNNING if self._is_about_to_finish:
                return [RescaleNotBegun(why="tasks of the job have reached the end of its input")]
            case JobStatus.RUNNING:
                self._target = parallelism
                return self._restart_all(now)
            case _:
                return [RescaleNotBegun(why=f"the job is {self.status}")]

    @property
    def _is_about_to_finish(self) -> bool:
        has_finished = any(execution.state is ExecutionState.FINISHED for execution in self.executions)
        return has_finished or self._attempts.have_reached_end_of_data

    def _restart_all(self, now: int) -> list[Effect]:
        if not job_may_move(self.status, JobStatus.RESTARTING):
            raise IllegalTransitionError(f"the job is {self.status} and cannot be restarted")
        self.status = JobStatus.RESTARTING
        aborted = AbortPendingCheckpoints(job_id=self.job_graph.job_id)
        ending = self._cancel_attempts(now)
        self._rescaling_version = self.version
        # Nothing has failed, so there is no cause to report.
        return [
            JobStatusMoved(status=self.status),
            Tell(to=Role.CHECKPOINT_COORDINATOR, message=aborted),
            *ending,
        ]

    def _restart_or_end(self, now: int) -> list[Effect]:
        return self._begin_rescaled(now) if self._is_rescaling else super()._restart_or_end(now)

    def _begin_rescaled(self, now: int) -> list[Effect]:
        self._rescaling_version = None
        rebuilt = self._rebuild(now)
        created = self._move(JobStatus.CREATED)
        running = self._move(JobStatus.RUNNING)
        return [*rebuilt, created, running, *self._tasks.start(self.version, now)]

    def _rebuild(self, now: int) -> list[Effect]:
        assert self._target is not None, "the rescaled job has no target parallelism"
        target, self._target = self._target, None
        self._numbers.record(self._tasks.subtasks())
        self.job_graph = with_parallelism(self.present_job_graph, target)
        self._tasks = TaskScheduling(self.job_graph, now, self._numbers)
        self._attempts = self._tasks.attempts
        self._failovers = Failovers()
        self._handler.replace_failover_strategy(
            failover_strategy(self.job_graph.failover_strategy, self._tasks.topology, self._tasks.results.availability)
        )
        return [GraphRescaled(), ForgetPriorSlots()]
