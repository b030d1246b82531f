"""Rows that a barrier has overtaken are restored to the correct subtasks, each once, at any new parallelism."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import RescaleNotSupportedError, StateWithoutOperatorError
from flykka.actors.machines.state.assignment import assign
from flykka.actors.machines.state.key_groups import groups_in, key_groups_of
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, TaskStateEntry
from flykka.messages.graph.job_graph import JobVertex, ShipStrategy
from flykka.messages.state.handles import (
    InFlightRows,
    InputChannelStateHandle,
    KeyGroupRange,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
    TaskStateSnapshot,
)
from flykka.messages.wire.ids import JobId, JobVertexId, OperatorId
from tests.actors.machines.graph.graphs import vertex

MAX = 128


def in_flight_rows(name: str) -> InFlightRows:
    return InFlightRows(path=name, rows=1, size_bytes=1)


def entering(*names: str) -> OperatorSubtaskState:
    parts = tuple(InputChannelStateHandle(gate=0, in_flight=in_flight_rows(name)) for name in names)
    return OperatorSubtaskState(operator_id=OperatorId("reader"), input_channels=parts)


def leaving(name: str, subpartition: int, subpartitions: int = 2) -> OperatorSubtaskState:
    part = ResultSubpartitionStateHandle(
        output=0, subpartition=subpartition, subpartitions=subpartitions, in_flight=in_flight_rows(name)
    )
    return OperatorSubtaskState(operator_id=OperatorId("producer"), result_subpartitions=(part,))


def producer_and_reader(
    producers: int, readers: int, ship_strategy: ShipStrategy = ShipStrategy.HASH
) -> tuple[JobVertex, JobVertex]:
    return (
        vertex("producer", producers, outputs=1),
        vertex("reader", readers, reads=("producer",), ship_strategy=ship_strategy),
    )


def checkpoint_of_states(**states: tuple[OperatorSubtaskState, ...]) -> CompletedCheckpoint:
    return CompletedCheckpoint(
        job_id=JobId("job"),
        checkpoint_id=1,
        timestamp_ms=0,
        duration_ms=0,
        task_states=tuple(
            TaskStateEntry(
                vertex_id=JobVertexId(name),
                subtask=subtask,
                parallelism=len(subtasks),
                max_parallelism=MAX,
                state=TaskStateSnapshot(operators=(state,)),
            )
            for name, subtasks in states.items()
            for subtask, state in enumerate(subtasks)
        ),
    )


TAKEN = checkpoint_of_states(
    producer=(leaving("left-0", 1), leaving("left-1", 0)), reader=(entering("in-0"), entering("in-1"))
)
"""A checkpoint of two producers and two readers: the batch `left-0` was sent to reader 1, and `left-1` to reader 0."""


def arriving(
    checkpoint: CompletedCheckpoint, *vertices: JobVertex
) -> dict[int, list[tuple[str, KeyGroupRange | None]]]:
    """Return the input channel state that each reader restores, and the key groups that the reader owns."""
    return {
        subtask: [
            (part.in_flight.path, part.key_groups) for state in snapshot.operators for part in state.input_channels
        ]
        for (name, subtask), snapshot in assign(checkpoint, vertices).states.items()
        if name == "reader"
    }


def test_in_flight_rows_keep_their_subtask_at_an_unchanged_parallelism() -> None:
    states = assign(TAKEN, producer_and_reader(2, 2)).states

    left = states[JobVertexId("producer"), 0].operators[0].result_subpartitions
    assert [(part.subpartition, part.in_flight.path) for part in left] == [(1, "left-0")]
    assert arriving(TAKEN, *producer_and_reader(2, 2)) == {0: [("in-0", None)], 1: [("in-1", None)]}


def test_in_flight_output_reaches_its_reader_if_the_producers_parallelism_changes() -> None:
    assert arriving(TAKEN, *producer_and_reader(3, 2)) == {
        0: [("left-1", None), ("in-0", None)],
        1: [("left-0", None), ("in-1", None)],
    }
    assert not any(name == "producer" for name, _ in assign(TAKEN, producer_and_reader(3, 2)).states)


@pytest.mark.parametrize("producers", [2, 5])
@pytest.mark.parametrize("readers", [1, 3, 4])
def test_each_keyed_row_is_restored_only_by_its_key_groups_owner(producers: int, readers: int) -> None:
    arrived = arriving(TAKEN, *producer_and_reader(producers, readers))

    for name, before in (("in-0", 0), ("in-1", 1), ("left-1", 0), ("left-0", 1)):
        taken = {
            subtask: [group for path, own in parts if path == name and own for group in groups_in(own)]
            for subtask, parts in arrived.items()
        }
        assert sorted(group for groups in taken.values() for group in groups) == list(
            groups_in(key_groups_of(before, MAX, 2))
        )
        for subtask, groups in taken.items():
            assert set(groups) <= set(groups_in(key_groups_of(subtask, MAX, readers)))


@pytest.mark.parametrize("readers", [1, 3, 4])
def test_in_flight_data_of_two_inputs_is_restored_once_per_key_group(readers: int) -> None:
    """Two streams of different parallelisms have the same reader, and rows of both are in flight."""

    def state_of_operator(name: str, *parts: tuple[int, str]) -> OperatorSubtaskState:
        channels = tuple(InputChannelStateHandle(gate=gate, in_flight=in_flight_rows(path)) for gate, path in parts)
        return OperatorSubtaskState(operator_id=OperatorId(name), input_channels=channels)

    taken = checkpoint_of_states(
        left=(
            replace(leaving("left", 1), operator_id=OperatorId("left")),
            OperatorSubtaskState(operator_id=OperatorId("left")),
        ),
        right=(replace(leaving("right", 0), operator_id=OperatorId("right")),),
        reader=(
            state_of_operator("reader", (0, "first-0"), (1, "second-0")),
            state_of_operator("reader", (1, "second-1")),
        ),
    )
    reader = vertex("reader", readers, reads=("left", "right"), ship_strategy=ShipStrategy.HASH)

    states = assign(taken, (vertex("left", 3, outputs=1), vertex("right", 1, outputs=1), reader)).states

    gates: dict[str, set[int]] = {}
    groups: dict[str, list[int]] = {}
    for (name, subtask), snapshot in states.items():
        for part in (part for state in snapshot.operators for part in state.input_channels):
            assert name == "reader"
            gates.setdefault(part.in_flight.path, set()).add(part.gate)
            assert part.key_groups is not None
            assert set(groups_in(part.key_groups)) <= set(groups_in(key_groups_of(subtask, MAX, readers)))
            groups.setdefault(part.in_flight.path, []).extend(groups_in(part.key_groups))
    assert gates == {"left": {0}, "first-0": {0}, "right": {1}, "second-0": {1}, "second-1": {1}}
    for path, before in (("left", 1), ("first-0", 0), ("right", 0), ("second-0", 0), ("second-1", 1)):
        assert sorted(groups[path]) == list(groups_in(key_groups_of(before, MAX, 2)))


def test_in_flight_data_for_any_reader_is_distributed_round_robin() -> None:
    arrived = arriving(TAKEN, *producer_and_reader(2, 3, ShipStrategy.REBALANCE))

    assert [[path for path, _ in arrived[subtask]] for subtask in range(3)] == [
        ["left-0", "in-1"],
        ["left-1"],
        ["in-0"],
    ]
    assert all(own is None for parts in arrived.values() for _, own in parts)


def test_key_groups_of_in_flight_rows_are_those_of_the_checkpoint() -> None:
    producer, reader = producer_and_reader(2, 1)

    arrived = arriving(TAKEN, producer, replace(reader, max_parallelism=256))

    assert max(own.end for _, own in arrived[0] if own) == MAX - 1


def test_in_flight_rows_of_an_operator_now_inside_a_chain_are_refused() -> None:
    producer, reader = producer_and_reader(2, 2)
    before = replace(reader.operators[0], operator_id=OperatorId("new"))
    chained = replace(reader, operators=(before, *reader.operators))

    with pytest.raises(RescaleNotSupportedError, match=r"reader \(reader\) is chained or read differently"):
        assign(TAKEN, [producer, chained])


def test_in_flight_rows_of_a_removed_output_or_input_are_refused() -> None:
    producer, reader = producer_and_reader(2, 2)

    with pytest.raises(RescaleNotSupportedError, match=r"producer \(producer\) is chained or read differently"):
        assign(TAKEN, [replace(producer, outputs=()), reader])
    with pytest.raises(RescaleNotSupportedError, match=r"reader \(reader\) is chained or read differently"):
        assign(TAKEN, [producer, replace(reader, inputs=())])


def test_in_flight_rows_of_a_removed_operator_are_refused() -> None:
    producer, _ = producer_and_reader(2, 2)

    with pytest.raises(StateWithoutOperatorError, match="reader"):
        assign(TAKEN, [producer])
