"""The regions of a job: tasks that are deployed together."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.graph.events import CoordinateTasks, Deploy
from flykka.actors.machines.graph.execution_topology import execution_topology
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import JobGraph, ScheduleMode, ShipStrategy
from flykka.messages.tasks.task import ExecutionState
from tests.actors.machines.graph.graphs import CANCEL, graph_of, vertex
from tests.actors.machines.graph.running import Running

TWO_PIPELINES = replace(
    graph_of(
        vertex("a", outputs=1),
        vertex("b", reads=("a",)),
        vertex("x", 2, outputs=1, group="other"),
        vertex("y", 2, reads=("x",), ship_strategy=ShipStrategy.FORWARD, group="other"),
    ),
    schedule_mode=ScheduleMode.PIPELINED_REGION,
)


def regions(graph: JobGraph) -> list[set[str]]:
    return [{f"{name}{subtask}" for name, subtask in region} for region in execution_topology(graph).regions]


def test_pointwise_connected_tasks_form_separate_regions() -> None:
    assert regions(TWO_PIPELINES) == [{"a0", "b0"}, {"x0", "y0"}, {"x1", "y1"}]


def test_an_all_to_all_edge_joins_both_vertices_into_one_region() -> None:
    graph = graph_of(vertex("a", 3, outputs=1), vertex("b", 2, reads=("a",)))

    assert regions(graph) == [{"a0", "a1", "a2", "b0", "b1"}]


def test_a_job_with_co_located_tasks_is_one_region() -> None:
    bound = replace(
        TWO_PIPELINES, vertices=tuple(replace(each, co_location_group="g") for each in TWO_PIPELINES.vertices)
    )

    assert regions(bound) == [{"a0", "b0", "x0", "x1", "y0", "y1"}]


def test_a_region_with_all_its_slots_does_not_wait_for_other_regions() -> None:
    running = Running(TWO_PIPELINES)
    running.schedule()
    running.restore()
    first, *rest = running.attempts_by_place()

    of_the_first = running.give_slot(first)
    coordinated_before = running.effects_of(CoordinateTasks)
    for place in rest:
        running.give_slot(place)

    assert [deploy.descriptor.attempt for deploy in of_the_first if isinstance(deploy, Deploy)] == [
        "job_a_0_0",
        "job_b_0_0",
    ]
    assert coordinated_before == []
    (coordinated,) = running.effects_of(CoordinateTasks)
    assert len(coordinated.tasks) == 6


def test_a_partially_deployed_job_waits_for_its_running_tasks_when_cancelled() -> None:
    running = Running(TWO_PIPELINES)
    running.schedule()
    running.restore()
    running.give_slot(next(iter(running.attempts_by_place())))

    running.tell(CANCEL)
    status_before = running.graph.status
    running.report_all(ExecutionState.CANCELED)

    assert status_before is JobStatus.CANCELLING
    assert running.graph.status is JobStatus.CANCELED
