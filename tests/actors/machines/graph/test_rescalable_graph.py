"""The ExecutionGraph of a rescaled job: all tasks end, new tasks start, and other events may occur in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    Effect,
    GlobalFailureReported,
    GraphRescaled,
    JobStatusMoved,
    RescaleNotBegun,
    RescaleRequested,
    RestartScheduled,
    StoppingChanged,
)
from flykka.actors.machines.slots.slot_requests import ForgetPriorSlots, RequestSlots, ReturnSlot
from flykka.messages.control.checkpoint_coordination import AbortPendingCheckpoints
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import FailoverStrategyKind, SchedulerType
from flykka.messages.tasks.task import CancelTask, ExecutionState
from flykka.messages.wire.ids import JobVertexId, vertex_subtask_and_number
from tests.actors.machines.graph.graphs import CANCEL, JOB, failure, graph_of, vertex
from tests.actors.machines.graph.running import Running

SOURCE, SINK = JobVertexId("source"), JobVertexId("sink")


class Rescaled(Running):
    def rescale(self, source: int, sink: int) -> list[Effect]:
        return self.tell(RescaleRequested(parallelism={SOURCE: source, SINK: sink}))

    def statuses(self) -> list[JobStatus]:
        return [moved.status for moved in self.effects_of(JobStatusMoved)]

    def requested_attempts(self) -> list[tuple[str, int, int]]:
        return [vertex_subtask_and_number(each.attempt, JOB) for each in self.effects_of(RequestSlots)[-1].requests]


def test_all_tasks_end_and_new_ones_start_from_a_checkpoint() -> None:
    running = Rescaled()
    running.run()

    running.rescale(1, 3)
    assert len(running.messages_of(CancelTask)) == 3
    assert running.messages_of(AbortPendingCheckpoints) != []
    assert running.effects_of(GraphRescaled) == []
    running.report_all(ExecutionState.CANCELED)

    assert running.statuses()[-3:] == [JobStatus.RESTARTING, JobStatus.CREATED, JobStatus.RUNNING]
    assert running.effects_of(JobStatusMoved)[-3].cause is None
    assert [each.parallelism for each in running.graph.job_graph.vertices] == [1, 3]
    assert running.effects_of(AskForRestoreState)[-1].version == running.graph.version
    assert running.effects_of(ForgetPriorSlots) != []
    assert all(each.will_return for each in running.effects_of(ReturnSlot))
    running.restore(7)
    running.give_slots()
    running.report_all(ExecutionState.RUNNING)
    assert running.graph.live_attempts == 4


def test_attempt_numbers_continue_even_for_removed_subtasks() -> None:
    running = Rescaled()
    running.run()

    running.rescale(1, 1)
    running.report_all(ExecutionState.CANCELED)
    assert running.requested_attempts() == [(SOURCE, 0, 1), (SINK, 0, 1)]
    running.restore()
    running.give_slots()
    running.rescale(2, 2)
    running.report_all(ExecutionState.CANCELED)

    assert running.requested_attempts() == [(SOURCE, 0, 2), (SOURCE, 1, 1), (SINK, 0, 2), (SINK, 1, 0)]


def test_a_job_without_tasks_starts_with_the_new_parallelism() -> None:
    running = Rescaled()

    running.rescale(3, 3)
    running.schedule()

    assert running.statuses() == [JobStatus.RUNNING]
    assert len(running.requested_attempts()) == 6


def test_a_restarting_job_restarts_with_the_new_parallelism() -> None:
    running = Rescaled()
    running.run()
    running.report(running.graph.subtask(SINK, 0).execution.attempt, ExecutionState.FAILED)

    running.rescale(1, 1)
    running.report_all(ExecutionState.CANCELED)
    assert running.statuses()[-1] is JobStatus.RESTARTING
    assert running.effects_of(GraphRescaled) == []
    running.pass_pauses()

    assert running.requested_attempts() == [(SOURCE, 0, 1), (SINK, 0, 1)]
    assert running.graph.number_of_restarts == 1


def test_an_attempt_that_fails_or_finishes_during_cancellation_is_cancelled() -> None:
    running = Rescaled()
    running.run()
    former = [execution.attempt for execution in running.graph.executions]
    running.rescale(1, 1)

    for attempt, state in zip(
        former, [ExecutionState.FAILED, ExecutionState.FINISHED, ExecutionState.FAILED], strict=True
    ):
        running.report(attempt, state)

    assert running.effects_of(RestartScheduled) == []
    assert running.statuses()[-1] is JobStatus.RUNNING
    assert len(running.requested_attempts()) == 2


def test_a_global_failure_during_a_rescale_restarts_the_rescaled_job_with_delay() -> None:
    running = Rescaled()
    running.run()
    running.rescale(1, 1)

    running.tell(GlobalFailureReported(cause=failure()))
    running.report_all(ExecutionState.CANCELED)
    assert running.statuses()[-3:] == [JobStatus.RESTARTING, JobStatus.FAILING, JobStatus.RESTARTING]
    assert running.effects_of(GraphRescaled) == []
    running.pass_pauses()

    assert len(running.effects_of(GraphRescaled)) == 1
    assert len(running.requested_attempts()) == 2


def test_a_job_cancelled_during_a_rescale_starts_no_tasks() -> None:
    running = Rescaled()
    running.run()
    running.rescale(1, 1)

    running.tell(CANCEL)
    running.report_all(ExecutionState.CANCELED)

    assert running.statuses()[-3:] == [JobStatus.RESTARTING, JobStatus.CANCELLING, JobStatus.CANCELED]
    assert running.effects_of(GraphRescaled) == []


def test_a_stopping_or_finishing_job_is_not_rescaled() -> None:
    stopping, ending = Rescaled(), Rescaled()
    stopping.run()
    ending.run()

    stopping.tell(StoppingChanged(is_stopping=True))
    ending.report(ending.graph.subtask(SOURCE, 0).execution.attempt, ExecutionState.FINISHED)

    [refused] = stopping.rescale(1, 1)
    assert refused == RescaleNotBegun(why="the job is taking the checkpoint with which it stops")
    [refused] = ending.rescale(1, 1)
    assert refused == RescaleNotBegun(why="tasks of the job have reached the end of its input")


@pytest.mark.parametrize("scheduler", SchedulerType)
def test_the_adaptive_scheduler_restarts_all_tasks_after_any_failure(scheduler: SchedulerType) -> None:
    region = graph_of(vertex("source", 2), failover=FailoverStrategyKind.REGION)
    running = Rescaled(replace(region, scheduler_type=scheduler))
    running.run()

    running.report(running.graph.subtask(SOURCE, 0).execution.attempt, ExecutionState.FAILED)

    is_adaptive = scheduler is SchedulerType.ADAPTIVE
    assert running.statuses()[-1] is (JobStatus.FAILING if is_adaptive else JobStatus.RUNNING)
