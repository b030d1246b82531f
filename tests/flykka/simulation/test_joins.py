"""Joins in simulated jobs: which joins are drawn, their expected output, and the results of the product's operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.environment import Environment
from flykka.simulation.held_rows import join_operator
from flykka.simulation.operators import Join, Program
from flykka.simulation.rows import Row, Rows
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.settings import SimulationSettings
from flykka.simulation.storage import mounted
from flykka.simulation.topology import Topology
from flykka.simulation.two_inputs import joins_by_time
from flykka.spark_bridge.operators.join import JoinOperator, Side
from flykka.spark_bridge.operators.operator import Element, Output
from tests.actors.machines.attempt.attempt_machine import descriptor

pytestmark = pytest.mark.slow

TEN = Interval(lower_ms=0, upper_ms=10, is_upper_inclusive=False)
FULL = (Side.LEFT, Side.RIGHT)

Make = Callable[[Join], JoinOperator[Rows, Rows]]


@pytest.fixture
def make() -> Iterator[Make]:
    with mounted("joined-rows") as storage:

        def operator(behaviour: Join) -> JoinOperator[Rows, Rows]:
            environment = Environment(name="joined-rows", storage=storage, program=Program(), stage_ms=(1,))
            return join_operator(OperatorId("join"), behaviour, descriptor(OperatorKind.JOIN), environment)

        yield operator


def simulated_row(number: int, time_ms: int, key: int = 0) -> Row:
    return Row(key, time_ms, ((number, 7),))


def emit_pairs(output: Output[Rows]) -> list[tuple[int, int]]:
    """Emit now, and return the number and the time of each row."""
    if output.on_emitted is not None:
        output.on_emitted()
    return [(row.parts[0][0], row.time_ms) for row in output.rows or ()]


def keys_and_times(rows: Rows) -> list[tuple[int, int]]:
    return sorted((row.parts[0][0], row.time_ms) for row in rows)


def arrives(operator: JoinOperator[Rows, Rows], gate: int, *rows: Row, at: int = -1) -> list[tuple[int, int]]:
    return emit_pairs(operator.process_batch(Element(rows=rows, stage=0, gate=gate, watermark_ms=at)))


def joins_of(topology: Topology) -> list[Join]:
    return [each for each in topology.program.behaviours.values() if isinstance(each, Join)]


def test_a_pair_has_the_numbers_of_both_rows_and_the_later_time() -> None:
    left, right = (
        (simulated_row(3, 100), simulated_row(4, 300)),
        (simulated_row(8, 105), simulated_row(9, 110), simulated_row(9, 105, key=1)),
    )

    assert keys_and_times(Join(left_inputs=1, bounds=TEN).results(left, right)) == [(4_0000_0009, 105)]
    assert keys_and_times(Join(left_inputs=1).pairs(left[:1], right)) == [(4_0000_0009, 105), (4_0000_0010, 110)]


def test_unmatched_outer_rows_are_emitted_when_no_match_can_follow() -> None:
    full = Join(left_inputs=1, bounds=TEN, outer=FULL)

    assert keys_and_times(full.results((simulated_row(3, 100),), (simulated_row(8, 200),))) == [
        (9, 201),
        (4_0000_0000, 111),
    ]


@pytest.mark.parametrize("behaviour", [Join(left_inputs=1, bounds=TEN, outer=FULL), Join(left_inputs=1)], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_the_operator_emits_the_expected_rows_in_any_arrival_order(behaviour: Join, seed: int, make: Make) -> None:
    chance = Random(seed)
    arriving = [
        (gate, simulated_row(number, number // 2, key=number % 2)) for gate in (0, 1) for number in range(0, 60, 3)
    ]
    chance.shuffle(arriving)
    operator = make(behaviour)

    seen: list[tuple[int, int]] = []
    for gate, each in arriving:
        seen += arrives(operator, gate, each)
    seen += emit_pairs(operator.advance_watermark(WATERMARK_MAX, 0))

    left, right = (tuple(each for gate, each in arriving if gate == side) for side in (0, 1))
    assert sorted(seen) == keys_and_times(behaviour.results(left, right))


def test_a_late_row_has_no_match(make: Make) -> None:
    operator = make(Join(left_inputs=1, bounds=TEN))
    arrives(operator, 0, simulated_row(1, 100))
    emit_pairs(operator.advance_watermark(104, 0))

    assert arrives(operator, 1, simulated_row(2, 103), at=104) == []
    assert arrives(operator, 1, simulated_row(2, 105), at=104) == [(2_0000_0003, 105)]


def test_every_fourth_job_has_a_join_and_all_join_types_occur() -> None:
    topologies = [draw_scenario(seed, SimulationSettings()).topology for seed in range(400)]
    joins = [join for topology in topologies for join in joins_of(topology)]

    assert sum(bool(joins_of(topology)) for topology in topologies) >= 100
    assert {join.outer for join in joins} == {(), (Side.LEFT,), (Side.RIGHT,), FULL}
    assert {join.bounds is None for join in joins} == {True, False}


def test_sources_of_time_joins_have_no_idle_timeout() -> None:
    topologies = [draw_scenario(seed, SimulationSettings()).topology for seed in range(400)]
    by_time = [topology for topology in topologies if joins_by_time(topology)]

    assert all(vertex.idle_timeout_ms is None for topology in by_time for vertex in topology.vertices)
