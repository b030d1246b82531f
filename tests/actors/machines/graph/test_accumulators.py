"""The accumulators of a job are merged from those of its attempts."""

from __future__ import annotations

from flykka.actors.machines.graph.accumulators import merged
from flykka.messages.tasks.accumulator import (
    AccumulatorResults,
    AccumulatorSnapshot,
    AccumulatorType,
    FailedAccumulatorResult,
    HistogramCount,
)
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from tests.actors.machines.graph.graphs import failure, graph_of, vertex
from tests.actors.machines.graph.running import Running


def counter(count: int, name: str = "rows", kind: AccumulatorType = AccumulatorType.INT_COUNTER) -> AccumulatorSnapshot:
    return AccumulatorSnapshot(name=name, type=kind, count=count)


def histogram(**counts: int) -> AccumulatorSnapshot:
    return AccumulatorSnapshot(
        name="sizes",
        type=AccumulatorType.HISTOGRAM,
        counts=tuple(HistogramCount(number=int(number[1:]), count=count) for number, count in counts.items()),
    )


def ends(running: Running, subtask: int, state: ExecutionState, *counted: AccumulatorSnapshot) -> None:
    attempt = running.graph.subtask(running.graph.job_graph.vertices[0].vertex_id, subtask).execution.attempt
    update = TaskExecutionState(
        attempt=ExecutionAttemptId(attempt),
        state=state,
        failure=failure() if state is ExecutionState.FAILED else None,
        accumulators=counted,
    )
    running.tell(UpdateTaskExecutionState(state=update))


def test_counters_of_one_name_add_up() -> None:
    assert merged([counter(2), counter(3), counter(1, "other")]) == AccumulatorResults(
        merged=(counter(5), counter(1, "other"))
    )


def test_floats_and_histograms_add_up() -> None:
    total = AccumulatorSnapshot(name="price", type=AccumulatorType.DOUBLE_COUNTER, total=1.5)

    results = merged([total, histogram(n1=2, n7=1), histogram(n1=1, n3=4), total])

    assert {each.name: (each.total, each.counts) for each in results.merged} == {
        "price": (3.0, ()),
        "sizes": (0.0, histogram(n1=3, n3=4, n7=1).counts),
    }


def test_accumulators_of_one_name_and_different_types_have_no_result() -> None:
    long = counter(1, kind=AccumulatorType.LONG_COUNTER)

    results = merged([counter(2), long, counter(3), counter(1, "other")])

    assert results.merged == (counter(1, "other"),)
    reason = "it is of kind IntCounter in one subtask and of kind LongCounter in another"
    assert results.failed == (FailedAccumulatorResult(name="rows", reason=reason),)


def test_a_job_adds_the_counts_of_its_finished_attempts() -> None:
    running = Running(graph_of(vertex("source", 2)))
    running.run()

    ends(running, 0, ExecutionState.FINISHED, counter(2))
    ends(running, 1, ExecutionState.FINISHED, counter(3))

    assert running.graph.accumulators() == AccumulatorResults(merged=(counter(5),))


def test_counters_of_a_failed_attempt_are_not_in_the_result() -> None:
    running = Running(graph_of(vertex("source", 2)))
    running.run()

    ends(running, 0, ExecutionState.FAILED, counter(2))

    execution = running.graph.subtask(running.graph.job_graph.vertices[0].vertex_id, 0).execution
    assert execution.accumulators == (counter(2),)
    assert running.graph.accumulators() == AccumulatorResults()


def test_only_accumulators_reported_at_the_end_are_final() -> None:
    running = Running(graph_of(vertex("source", 1)))
    running.deploy()

    ends(running, 0, ExecutionState.RUNNING, counter(7))
    ends(running, 0, ExecutionState.FINISHED, counter(2))
    ends(running, 0, ExecutionState.FINISHED, counter(9))

    assert running.graph.accumulators() == AccumulatorResults(merged=(counter(2),))
