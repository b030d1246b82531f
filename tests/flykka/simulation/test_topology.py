"""Drawn jobs can be executed, and the expected output of their sinks is known beforehand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.messages.graph.job_graph import CheckpointingSettings, JobEdge, JobType, OperatorKind, ShipStrategy
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.simulation.operators import Filter, Process, Program, Sink, Source, Tag
from flykka.simulation.scenario import job_graph
from flykka.simulation.scenario_drawing import draw_restart_strategy, draw_scenario
from flykka.simulation.settings import ALL_FAULTS, FaultKind, SimulationSettings
from flykka.simulation.topology import MAX_SINKS, Topology, draw_topology, with_functions
from flykka.simulation.two_inputs import with_joins, with_two_inputs
from tests.actors.machines.graph.graphs import vertex

pytestmark = pytest.mark.slow

SEEDS = range(200)


def topology_of_seed(seed: int) -> Topology:
    topology = with_functions(draw_topology(Random(seed)), Random(seed))
    return with_two_inputs(with_joins(topology, Random(f"joins {seed}")), Random(seed))


def source_of(rows: int, *, step_ms: int = 1, disorder_ms: int = 0) -> Source:
    return Source(
        number=0,
        rows=rows,
        keys=2,
        step_ms=step_ms,
        disorder_ms=disorder_ms,
        rows_per_split=1,
        splits_per_look=1,
        interval_ms=50,
    )


def read_twice(source: Source) -> Topology:
    """Return a job whose sink reads both outputs of a source."""
    program = Program(behaviours={"source": source, "sink": Sink(name="sink")})
    edges = tuple(
        JobEdge(source=JobVertexId("source"), source_output=output, ship_strategy=ShipStrategy.REBALANCE)
        for output in range(2)
    )
    sink = replace(vertex("sink", reads=("source",)), inputs=edges)
    return Topology(vertices=(vertex("source", outputs=2), sink), program=program)


def test_every_drawn_job_can_be_executed() -> None:
    checkpointing = CheckpointingSettings(directory="simulated://here")
    for seed in SEEDS:
        check_job_graph(
            job_graph(JobId("job"), topology_of_seed(seed), checkpointing, draw_restart_strategy(Random(seed)))
        )


def test_every_job_has_up_to_three_sources_and_up_to_three_sinks() -> None:
    for seed in SEEDS:
        topology = topology_of_seed(seed)
        sources = [each for each in topology.vertices if each.operators[0].kind is OperatorKind.SOURCE]

        assert 1 <= len(sources) <= 3
        assert 1 <= len(topology.program.sinks) <= MAX_SINKS


def test_all_kinds_of_edges_and_operators_are_drawn() -> None:
    vertices = [vertex for seed in SEEDS for vertex in topology_of_seed(seed).vertices]
    strategies = {edge.ship_strategy for vertex in vertices for edge in vertex.inputs}
    kinds = {operator.kind for vertex in vertices for operator in vertex.operators}

    assert strategies == set(ShipStrategy) - {ShipStrategy.BROADCAST}
    not_simulated = {
        OperatorKind.GROUP_AGGREGATE,
        OperatorKind.INCREMENTAL,
        OperatorKind.PROCESS,
        OperatorKind.TIMESTAMPS_AND_WATERMARKS,
    }
    assert kinds == {kind for kind in OperatorKind if not kind.is_local} - not_simulated | {OperatorKind.LOCAL_INPUT}
    assert {len(vertex.inputs) for vertex in vertices} >= {0, 1, 2}
    assert {vertex.parallelism for vertex in vertices} == {1, 2, 3, 4}


def test_functions_of_two_inputs_are_drawn_with_the_input_of_each_row() -> None:
    topologies = [topology_of_seed(seed) for seed in SEEDS]
    behaviours = [each for topology in topologies for each in topology.program.behaviours.values()]

    assert sum(isinstance(each, Process) and each.has_two_inputs for each in behaviours) >= 3
    assert {each.number for each in behaviours if isinstance(each, Tag)} == {0, 1}


def test_a_job_of_another_parallelism_can_be_executed() -> None:
    checkpointing = CheckpointingSettings(directory="simulated://here")
    for seed in SEEDS:
        topology = topology_of_seed(seed).rescaled(lambda parallelism: 5 - parallelism)

        check_job_graph(job_graph(JobId("job"), topology, checkpointing, draw_restart_strategy(Random(seed))))


def test_a_batch_job_can_be_executed_and_has_the_same_output() -> None:
    checkpointing = CheckpointingSettings(directory="simulated://here", interval_ms=100)
    for seed in SEEDS:
        topology = topology_of_seed(seed)

        check_job_graph(
            job_graph(JobId("job"), topology, checkpointing, draw_restart_strategy(Random(seed)), JobType.BATCH)
        )
        assert topology.as_batch().expected_output() == topology.expected_output()


def test_the_expected_output_contains_each_row_once_per_path_to_a_sink() -> None:
    source = source_of(10)
    parts = Counter(part for row in source.read(0, 10) for part in row.parts)

    expected_output = read_twice(source).expected_output()

    assert expected_output == {"sink": parts + parts}


def test_a_filter_passes_the_same_rows_each_time() -> None:
    source = source_of(100)
    rows = source.read(0, 100)
    half = Filter(salt=1, passing_percent=50)

    passed = half.apply(rows)

    assert 25 < len(passed) < 75
    assert half.apply(passed) == passed
    assert half.apply(rows[:50]) + half.apply(rows[50:]) == passed


@pytest.mark.parametrize("disorder_ms", [0, 50])
def test_event_times_decrease_by_at_most_the_disorder(disorder_ms: int) -> None:
    source = source_of(50, step_ms=10, disorder_ms=disorder_ms)

    times = [row.time_ms for row in source.read(0, 50)]

    assert all(time >= max(times[: place + 1]) - disorder_ms for place, time in enumerate(times))


def test_a_scenario_has_only_faults_of_the_configured_kinds() -> None:
    wanted = frozenset({FaultKind.CRASH, FaultKind.STORAGE})
    scenarios = [draw_scenario(seed, SimulationSettings(faults=wanted)) for seed in SEEDS]

    assert {fault.kind for each in scenarios for job in each.jobs for fault in job.faults} == wanted


def test_scenarios_have_all_kinds_of_faults_and_valid_public_settings() -> None:
    scenarios = [draw_scenario(seed, SimulationSettings()) for seed in SEEDS]
    settings = [job.checkpointing for each in scenarios for job in each.jobs]

    assert {fault.kind for each in scenarios for job in each.jobs for fault in job.faults} == ALL_FAULTS
    assert all(each.max_concurrent == 1 for each in settings if each.unaligned)
    assert {each.unaligned for each in settings} == {True, False}
