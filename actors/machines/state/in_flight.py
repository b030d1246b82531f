"""Assigns rows that an unaligned barrier has overtaken, as Flink does since 1.13.

If the parallelism at both ends of an edge is unchanged, the rows are in flight again in the same channels. Otherwise
all rows arrive at the reader, including the rows that the producer still held. Keyed rows go to each subtask that may
own some of their key groups, and the subtask filters its own rows; other rows are distributed round-robin. On
point-wise and broadcast edges barriers overtake nothing, so there are no other cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flykka.actors.errors import RescaleNotSupportedError
from flykka.actors.machines.state.key_groups import intersection, key_groups_of, owner
from flykka.messages.graph.job_graph import JobVertex, Operator, ShipStrategy
from flykka.messages.state.handles import (
    InFlightRows,
    InputChannelStateHandle,
    OperatorSubtaskState,
    ResultSubpartitionStateHandle,
)
from flykka.messages.wire.ids import JobVertexId, OperatorId

Place = tuple[JobVertexId, int]


@dataclass(slots=True, kw_only=True)
class InFlightState:
    """The in-flight batches at the subtasks of one operator, which was the head of a chain with this parallelism."""

    parallelism: int
    by_subtask: dict[int, list[OperatorSubtaskState]] = field(default_factory=dict)


def is_in_flight(state: OperatorSubtaskState) -> bool:
    return bool(state.input_channels or state.result_subpartitions)


def assign_in_flight(
    states: Mapping[OperatorId, InFlightState],
    vertices: Iterable[JobVertex],
    max_parallelism: Mapping[JobVertexId, int],
) -> dict[Place, OperatorSubtaskState]:
    """Assign each subtask its in-flight batches. `max_parallelism` has the vertices that adopt that of the checkpoint.

    Raises:
        RescaleNotSupportedError: the operator is chained or read differently than before.
    """
    arrivals = _Arrivals(vertices, max_parallelism)
    for vertex in arrivals.vertices:
        for operator in vertex.operators:
            if operator.operator_id in states:
                arrivals.add(vertex, operator, states[operator.operator_id])
    return arrivals.states()


class _Arrivals:
    """Collects the rows for the inputs and outputs at which they continue."""

    def __init__(self, vertices: Iterable[JobVertex], max_parallelism: Mapping[JobVertexId, int]) -> None:
        self.vertices = tuple(vertices)
        self._max_parallelism = max_parallelism
        self._readers = {
            (edge.source, edge.source_output): (vertex, gate)
            for vertex in self.vertices
            for gate, edge in enumerate(vertex.inputs)
        }
        self._heads = {vertex.vertex_id: vertex.operators[0].operator_id for vertex in self.vertices}
        self._inputs: dict[Place, list[InputChannelStateHandle]] = {}
        self._outputs: dict[Place, list[ResultSubpartitionStateHandle]] = {}
        self._turns: dict[tuple[JobVertexId, int], int] = {}

    def add(self, vertex: JobVertex, operator: Operator, in_flight: InFlightState) -> None:
        if operator is not vertex.operators[0]:
            raise RescaleNotSupportedError(_moved(operator))
        for subtask, states in in_flight.by_subtask.items():
            for state in states:
                for part in state.input_channels:
                    if part.gate >= len(vertex.inputs):
                        raise RescaleNotSupportedError(_moved(operator))
                    self._arrive(vertex, part.gate, in_flight.parallelism, subtask, part.in_flight)
                for handle in state.result_subpartitions:
                    if handle.output >= len(vertex.outputs):
                        raise RescaleNotSupportedError(_moved(operator))
                    self._leave(vertex, in_flight.parallelism, subtask, handle)

    def states(self) -> dict[Place, OperatorSubtaskState]:
        return {
            place: OperatorSubtaskState(
                operator_id=self._heads[place[0]],
                input_channels=tuple(self._inputs.get(place, ())),
                result_subpartitions=tuple(self._outputs.get(place, ())),
            )
            for place in {**self._inputs, **self._outputs}
        }

    def _leave(
        self, vertex: JobVertex, old_parallelism: int, subtask: int, handle: ResultSubpartitionStateHandle
    ) -> None:
        reader, gate = self._readers.get((vertex.vertex_id, handle.output), (None, 0))
        if reader is None:
            # Callers may pass only a part of the job.
            return
        if (old_parallelism, handle.subpartitions) == (vertex.parallelism, reader.parallelism):
            self._outputs.setdefault((vertex.vertex_id, subtask), []).append(handle)
        else:
            self._arrive(reader, gate, handle.subpartitions, handle.subpartition, handle.in_flight)

    def _arrive(self, reader: JobVertex, gate: int, old_parallelism: int, subtask: int, rows: InFlightRows) -> None:
        if old_parallelism == reader.parallelism:
            self._put(reader, subtask, InputChannelStateHandle(gate=gate, in_flight=rows))
        elif reader.inputs[gate].ship_strategy is ShipStrategy.HASH:
            self._cut(reader, gate, old_parallelism, subtask, rows)
        else:
            turn = self._turns.get((reader.vertex_id, gate), 0)
            self._turns[reader.vertex_id, gate] = turn + 1
            self._put(reader, turn % reader.parallelism, InputChannelStateHandle(gate=gate, in_flight=rows))

    def _cut(self, reader: JobVertex, gate: int, old_parallelism: int, subtask: int, rows: InFlightRows) -> None:
        most = self._max_parallelism.get(reader.vertex_id, reader.max_parallelism)
        were = key_groups_of(subtask, most, old_parallelism)
        first, last = (owner(end, most, reader.parallelism) for end in (were.start, were.end))
        for now in range(first, last + 1):
            own = intersection(were, key_groups_of(now, most, reader.parallelism))
            self._put(reader, now, InputChannelStateHandle(gate=gate, in_flight=rows, key_groups=own))

    def _put(self, reader: JobVertex, subtask: int, handle: InputChannelStateHandle) -> None:
        self._inputs.setdefault((reader.vertex_id, subtask), []).append(handle)


def _moved(operator: Operator) -> str:
    return (
        f"{operator.name} ({operator.ref.uid}) is chained or read differently than before, but the checkpoint is"
        " unaligned and has rows in flight to it or from it: start from a savepoint or from an aligned checkpoint"
    )
