"""The start times of everything that a job waits for, derived from the effects of its graph."""

from __future__ import annotations

import pytest

from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    Deploy,
    Effect,
    FinalizeVertices,
    JobStatusMoved,
    RestartScheduled,
    SchedulingRequested,
)
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.graph.job_waits import JobWaits
from flykka.actors.machines.restart.restart_strategy import restart_strategy
from flykka.messages.control.job import JobStatus
from flykka.messages.monitoring.explanation import JobExplained, RestartExplained
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.ref import Ref
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.machines.scheduling.descriptors import descriptor

BUG = SerializedThrowable(type_name="ValueError", message="no price may be 26")
SOURCE = "Source: flights (1/1)"


def explained(*effects: Effect) -> JobExplained:
    graph = graph_of(vertex("source", 2))
    waits = JobWaits(0)
    for number, effect in enumerate(effects, 1):
        waits.on_effect(effect, number * 10)
    return waits.explain(JobId("job"), ExecutionGraph(graph, restart_strategy(graph.restart_strategy), 0), 100)


def deployed() -> Deploy:
    return Deploy(descriptor=descriptor("job_v_0_1"), task_manager=Ref("/user/task-manager-1", 1))


def timer(tasks: tuple[str, ...] = ()) -> RestartScheduled:
    return RestartScheduled(delay_ms=500, version=2, tasks=tasks, cause=BUG)


def test_the_wait_for_a_restart_begins_with_its_timer() -> None:
    explanation = explained(JobStatusMoved(status=JobStatus.RESTARTING, cause=BUG), timer())

    assert explanation.restarts == (RestartExplained(due_ms=520, cause=BUG),)
    assert (explanation.since_ms, explanation.cause) == (10, BUG)


@pytest.mark.parametrize(
    "end",
    [
        AskForRestoreState(version=2),
        deployed(),
        JobStatusMoved(status=JobStatus.CANCELED),
        JobStatusMoved(status=JobStatus.FAILING, cause=BUG),
    ],
)
def test_the_wait_for_a_rescale_ends_when_it_completes_or_is_abandoned(end: Effect) -> None:
    assert explained(timer(), end).restarts == ()


def test_a_deployment_ends_only_the_restart_wait_of_its_own_region() -> None:
    assert len(explained(timer(tasks=("map (1/2)",)), deployed()).restarts) == 1
    assert explained(timer(tasks=(SOURCE,)), deployed()).restarts == ()


def test_the_wait_for_state_ends_with_the_first_deployment() -> None:
    assert explained(AskForRestoreState(version=1)).waits_for_state == 10
    assert explained(AskForRestoreState(version=1), deployed()).waits_for_state is None


def test_finalization_and_archiving_are_reported_as_waits() -> None:
    finalizing = FinalizeVertices(version=1, vertices=(), has_read_all=True)

    assert explained(finalizing).waits_for_end == 10
    assert explained(finalizing, JobStatusMoved(status=JobStatus.FINISHED)).waits_for_end == 20
    assert explained(finalizing, JobStatusMoved(status=JobStatus.FAILING, cause=BUG)).waits_for_end is None


def test_attempts_that_wait_for_a_slot_are_counted() -> None:
    graph = graph_of(vertex("source", 2))
    running = ExecutionGraph(graph, restart_strategy(graph.restart_strategy), 0)
    waits = JobWaits(0)
    for effect in running.handle(SchedulingRequested(), 30):
        waits.on_effect(effect, 30)

    explanation = waits.explain(JobId("job"), running, 100)

    assert (explanation.slots_requested, explanation.slots_requested_since_ms) == (2, 30)
    assert [(each.name, each.since_ms) for each in explanation.attempts] == [("source (1/2)", 30), ("source (2/2)", 30)]
