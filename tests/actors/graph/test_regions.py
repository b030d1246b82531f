"""Which tasks are deployed together."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.graph.effects import CoordinateTasks, Deploy
from flykka.actors.graph.events import CancellationRequested, SlotAllocated
from flykka.actors.graph.execution_job_vertex import execution_job_vertices
from flykka.actors.graph.regions import Regions
from flykka.actors.scheduling.slot_sharing import RequestSlots
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import JobGraph, ScheduleMode, ShipStrategy
from flykka.messages.task import ExecutionState
from tests.actors.graph.graphs import graph_of, vertex
from tests.actors.graph.running import Running, slot_for

TWO_PIPELINES = replace(
    graph_of(
        vertex("a", outputs=1),
        vertex("b", reads=("a",)),
        vertex("x", 2, outputs=1, group="other"),
        vertex("y", 2, reads=("x",), ship_strategy=ShipStrategy.FORWARD, group="other"),
    ),
    schedule_mode=ScheduleMode.PIPELINED_REGION,
)


def regions(graph: JobGraph, mode: ScheduleMode = ScheduleMode.PIPELINED_REGION) -> list[set[str]]:
    """What becomes ready with each slot, when slots come in the order of the subtasks."""
    vertices = execution_job_vertices(graph, now=0)
    made = Regions(vertices, mode)
    made.begin()
    ready: list[set[str]] = []
    for job_vertex in vertices.values():
        for subtask in job_vertex.subtasks:
            made.slot_assigned(subtask)
            taken = made.take_ready()
            ready += [{f"{each.job_vertex.name}{each.subtask}" for each in taken}] if taken else []
    assert made.all_taken
    return ready


def test_a_job_is_one_region_unless_it_is_said_otherwise() -> None:
    assert regions(TWO_PIPELINES, ScheduleMode.EAGER) == [{"a0", "b0", "x0", "x1", "y0", "y1"}]


def test_what_is_connected_point_wise_is_a_region_of_its_own() -> None:
    assert regions(TWO_PIPELINES) == [{"a0", "b0"}, {"x0", "y0"}, {"x1", "y1"}]


def test_an_edge_from_all_to_all_makes_one_region_of_both_vertices() -> None:
    graph = graph_of(vertex("a", 3, outputs=1), vertex("b", 2, reads=("a",)))

    assert regions(graph) == [{"a0", "a1", "a2", "b0", "b1"}]


def test_a_region_whose_slots_are_there_does_not_wait_for_the_others() -> None:
    running = Running(TWO_PIPELINES)
    running.schedule()
    running.restore()
    first, *rest = running.made(RequestSlots)[-1].request_ids

    of_the_first = running.tell(SlotAllocated(request_id=first, slot=slot_for(first)))
    coordinated_before = running.made(CoordinateTasks)
    for request_id in rest:
        running.tell(SlotAllocated(request_id=request_id, slot=slot_for(request_id)))

    assert [deploy.descriptor.attempt for deploy in of_the_first if isinstance(deploy, Deploy)] == [
        "job_a_0_0",
        "job_b_0_0",
    ]
    assert coordinated_before == []
    (coordinated,) = running.made(CoordinateTasks)
    assert len(coordinated.tasks) == 6


def test_a_job_that_is_deployed_in_part_waits_for_what_runs_when_it_is_cancelled() -> None:
    running = Running(TWO_PIPELINES)
    running.schedule()
    running.restore()
    first = running.made(RequestSlots)[-1].request_ids[0]
    running.tell(SlotAllocated(request_id=first, slot=slot_for(first)))

    running.tell(CancellationRequested())
    status_before = running.graph.status
    running.report_all(ExecutionState.CANCELED)

    assert status_before is JobStatus.CANCELLING
    assert running.graph.status is JobStatus.CANCELED
