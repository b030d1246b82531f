"""The parallelism of a job's vertices within their bounds, for a number of available slots."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.errors import RescaleNotSupportedError
from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.actors.machines.rescaling.requirements import (
    check_requirements,
    determine_parallelism,
    forward_groups,
    initial_requirements,
    updated,
    with_parallelism,
)
from flykka.actors.machines.slots.slot_sharing_groups import slots_needed
from flykka.messages.control.rescaling import JobResourceRequirements, JobVertexResourceRequirements
from flykka.messages.graph.job_graph import JobGraph, JobType, JobVertex, SchedulerType, ShipStrategy
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.graph.graphs import graph_of, vertex


def a_job(*vertices: JobVertex) -> JobGraph:
    graph = graph_of(*vertices)
    return replace(graph, checkpointing=replace(graph.checkpointing, interval_ms=1_000))


def require(**bounds: tuple[int, int]) -> JobResourceRequirements:
    return JobResourceRequirements(
        vertices=tuple(
            JobVertexResourceRequirements(vertex_id=JobVertexId(name), lower_bound=lower, upper_bound=upper)
            for name, (lower, upper) in bounds.items()
        )
    )


KEYED = a_job(
    vertex("source", 2, outputs=1),
    vertex("map", 2, reads=("source",), outputs=1, ship_strategy=ShipStrategy.FORWARD),
    vertex("sums", 3, reads=("map",), ship_strategy=ShipStrategy.HASH),
)
APART = a_job(vertex("source", 1, outputs=1), vertex("sink", 1, reads=("source",), group="sinks"))


def test_vertices_connected_by_forward_edges_are_one_group() -> None:
    assert forward_groups(KEYED) == (("source", "map"), ("sums",))


def test_without_bounds_only_an_adaptive_job_runs_below_its_parallelism() -> None:
    adaptive = replace(KEYED, scheduler_type=SchedulerType.ADAPTIVE)

    assert initial_requirements(KEYED) == require(source=(2, 2), map=(2, 2), sums=(3, 3))
    assert initial_requirements(adaptive) == require(source=(1, 2), map=(1, 2), sums=(1, 3))


@pytest.mark.parametrize(
    ("graph", "bounds", "why"),
    [
        (KEYED, {"sums": (0, 1)}, "bounds of the vertex 'sums' are 0 to 1"),
        (KEYED, {"sums": (3, 2)}, "'sums' are 3 to 2"),
        (KEYED, {"sums": (1, 129)}, "upper bound of the vertex 'sums' is 129 .* maximum parallelism is 128"),
        (KEYED, {"source": (1, 2), "map": (3, 4)}, "'source' and 'map' are connected by forward edges"),
        (KEYED, {"other": (1, 2)}, "no vertex other; its vertices: 'source'"),
        (replace(KEYED, job_type=JobType.BATCH), {}, "is a batch job"),
        (graph_of(vertex("source")), {}, "takes no checkpoints"),
        (a_job(replace(vertex("source"), parallelism_limit=1)), {"source": (1, 2)}, "'source' .* in at most 1"),
    ],
)
def test_impossible_requirements_are_refused_with_the_vertex(
    graph: JobGraph, bounds: dict[str, tuple[int, int]], why: str
) -> None:
    with pytest.raises(RescaleNotSupportedError, match=why):
        check_requirements(graph, updated(initial_requirements(graph), require(**bounds)))


@pytest.mark.parametrize(
    ("slots", "fitting"),
    [
        (1, {"source": 1, "map": 1, "sums": 1}),
        (3, {"source": 2, "map": 2, "sums": 3}),
        (9, {"source": 2, "map": 2, "sums": 4}),
    ],
)
def test_a_slot_sharing_group_needs_slots_for_its_widest_vertex(slots: int, fitting: dict[str, int]) -> None:
    bounds = require(source=(1, 4), map=(1, 2), sums=(1, 4))

    assert determine_parallelism(KEYED, bounds, slots) == fitting


@pytest.mark.parametrize(
    ("slots", "fitting"),
    [
        (2, None),
        (3, {"source": 1, "sink": 2}),
        (6, {"source": 2, "sink": 4}),
        (9, {"source": 2, "sink": 7}),
        (99, {"source": 2, "sink": 8}),
    ],
)
def test_slots_unused_by_one_group_are_given_to_the_others(slots: int, fitting: dict[str, int] | None) -> None:
    assert determine_parallelism(APART, require(source=(1, 2), sink=(2, 8)), slots) == fitting


def test_slots_beyond_the_minima_are_shared_evenly_by_groups() -> None:
    assert determine_parallelism(APART, require(source=(1, 10), sink=(5, 10)), 10) == {"source": 3, "sink": 7}


@given(st.data())
def test_a_fitting_parallelism_is_within_bounds_and_slots_and_executable(data: st.DataObject) -> None:
    bounds = {
        name: (lower, data.draw(st.integers(lower, 9)))
        for name in ("source", "map", "sums")
        if (lower := data.draw(st.integers(1, 4)))
    }
    upper = min(bounds["source"][1], bounds["map"][1])
    bounds["source"] = bounds["map"] = (min(bounds["source"][0], upper), upper)
    groups = {name: data.draw(st.sampled_from(["a", "b"])) for name in bounds}
    vertices = tuple(replace(each, slot_sharing_group=groups[each.vertex_id]) for each in KEYED.vertices)
    graph, slots = replace(KEYED, vertices=vertices), data.draw(st.integers(0, 20))
    requirements = require(**bounds)
    check_requirements(graph, requirements)

    fitting = determine_parallelism(graph, requirements, slots)

    if fitting is None:
        least = {JobVertexId(name): lower for name, (lower, _) in bounds.items()}
        assert slots < slots_needed(with_parallelism(graph, least).vertices)
        return
    rescaled = with_parallelism(graph, fitting)
    check_job_graph(rescaled)
    assert slots_needed(rescaled.vertices) <= slots
    assert all(lower <= fitting[JobVertexId(name)] <= upper for name, (lower, upper) in bounds.items())
