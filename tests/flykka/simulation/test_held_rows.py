"""A function with timers in a simulated attempt: the product's operator with snapshots and restores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.wire.ids import OperatorId
from flykka.simulation.environment import Environment
from flykka.simulation.held_rows import SimulatedKeyedFunction
from flykka.simulation.operators import Process, Program
from flykka.simulation.rows import KeyStates, Row, Rows
from flykka.simulation.storage import mounted
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator
from flykka.spark_bridge.operators.operator import Element, Output
from tests.actors.machines.attempt.attempt_machine import descriptor

Operator = KeyedProcessOperator[Rows, KeyStates]


@pytest.fixture
def make() -> Iterator[Callable[[Process], Operator]]:
    with mounted("held-rows") as storage:

        def operator(behaviour: Process) -> Operator:
            environment = Environment(name="held-rows", storage=storage, program=Program(), stage_ms=(1,))
            function = SimulatedKeyedFunction(behaviour, descriptor(OperatorKind.KEYED_PROCESS), environment)
            return KeyedProcessOperator(OperatorId("hold"), function, function.backend)

        yield operator


def emit_numbers(output: Output[Rows]) -> list[int]:
    """Emit now, and return the numbers of the source rows in the output."""
    if output.on_emitted is not None:
        output.on_emitted()
    return [number for row in output.rows or () for number, _ in row.parts]


def arrives(operator: Operator, stage: int, *rows: Row, at_ms: int = 0) -> list[int]:
    numbers = emit_numbers(operator.process_batch(Element(rows=rows, stage=stage, processing_time_ms=at_ms)))
    operator.update_state(stage)
    return numbers


def simulated_row(number: int, time_ms: int) -> Row:
    return Row(key=number, time_ms=time_ms, parts=((number, 0),))


def test_rows_are_retained_until_event_time_reaches_their_timers(make: Callable[[Process], Operator]) -> None:
    operator = make(Process(delay_ms=5, in_processing_time=False))
    arrives(operator, 0, simulated_row(1, 10), simulated_row(2, 20))

    assert emit_numbers(operator.advance_watermark(14, 0)) == []
    assert emit_numbers(operator.advance_watermark(15, 0)) == [1]
    assert emit_numbers(operator.advance_watermark(WATERMARK_MAX, 0)) == [2]


def test_the_first_processing_time_timer_is_reported_until_it_has_fired(make: Callable[[Process], Operator]) -> None:
    operator = make(Process(delay_ms=5, in_processing_time=True))
    arrives(operator, 0, simulated_row(1, 10), at_ms=100)
    arrives(operator, 1, simulated_row(2, 10), at_ms=103)
    first = operator.next_timer_ms

    fired = emit_numbers(operator.advance_processing_time(106, 0))

    assert (first, fired, operator.next_timer_ms) == (105, [1], 108)


def test_timers_fire_even_if_all_state_was_cleared_before(make: Callable[[Process], Operator]) -> None:
    operator = make(Process(delay_ms=0, in_processing_time=False))
    for number in range(20):
        arrives(operator, number, simulated_row(number, number))
        assert emit_numbers(operator.advance_watermark(number, 0)) == [number]

    assert sum(segment.rows for segment in operator.store.segments.live) < 20


def test_a_function_of_two_inputs_retains_both_in_one_state(make: Callable[[Process], Operator]) -> None:
    operator = make(Process(delay_ms=5, in_processing_time=False, has_two_inputs=True))
    arrives(operator, 0, simulated_row(1, 10), replace(simulated_row(1, 12), input=1))

    assert emit_numbers(operator.advance_watermark(15, 0)) == [1]
    assert emit_numbers(operator.advance_watermark(17, 0)) == [1]
