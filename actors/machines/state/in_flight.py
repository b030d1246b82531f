"""Rows that an unaligned barrier has overtaken: where they go on, as Flink since 1.13 decides it.

Where the parallelism at both ends of an edge is what it was, they are in flight again just there. Where it is not, all
of them arrive at the reader, also those that the producer still held. What was partitioned by key goes to each subtask
whose key groups it may be of, which leaves out the rest; anything else is dealt out in turn. Barriers overtake nothing
on edges between neighbours or on broadcasts, so there are no others.
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
"""A subtask of a vertex."""


@dataclass(slots=True, kw_only=True)
class InFlightState:
    """The batches in flight at the subtasks of one operator, the head of a chain of that parallelism."""

    parallelism: int
    by_subtask: dict[int, list[OperatorSubtaskState]] = field(default_factory=dict)


def is_in_flight(state: OperatorSubtaskState) -> bool:
    return bool(state.input_channels or state.result_subpartitions)


def assign_in_flight(
    held: Mapping[OperatorId, InFlightState], vertices: Iterable[JobVertex], max_parallelism: Mapping[JobVertexId, int]
) -> dict[Place, OperatorSubtaskState]:
    """Assign each subtask its batches in flight; `max_parallelism` is that of vertices that take them over.

    Raises:
        RescaleNotSupportedError: the operator is chained or read in another way than it was.
    """
    arrivals = _Arrivals(vertices, max_parallelism)
    for vertex in arrivals.vertices:
        for operator in vertex.operators:
            if operator.operator_id in held:
                arrivals.add(vertex, operator, held[operator.operator_id])
    return arrivals.states()


class _Arrivals:
    """The rows on their way to the places where they go on."""

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

    def add(self, vertex: JobVertex, operator: Operator, held: InFlightState) -> None:
        """Send on what the head of a chain held."""
        if operator is not vertex.operators[0]:
            raise RescaleNotSupportedError(_moved(operator))
        for subtask, states in held.by_subtask.items():
            for state in states:
                for part in state.input_channels:
                    if part.gate >= len(vertex.inputs):
                        raise RescaleNotSupportedError(_moved(operator))
                    self._arrive(vertex, part.gate, held.parallelism, subtask, part.in_flight)
                for left in state.result_subpartitions:
                    if left.output >= len(vertex.outputs):
                        raise RescaleNotSupportedError(_moved(operator))
                    self._leave(vertex, held.parallelism, subtask, left)

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
        self, vertex: JobVertex, old_parallelism: int, subtask: int, left: ResultSubpartitionStateHandle
    ) -> None:
        reader, gate = self._readers.get((vertex.vertex_id, left.output), (None, 0))
        if reader is None:
            # Callers ask for a part of the job.
            return
        if (old_parallelism, left.subpartitions) == (vertex.parallelism, reader.parallelism):
            self._outputs.setdefault((vertex.vertex_id, subtask), []).append(left)
        else:
            self._arrive(reader, gate, left.subpartitions, left.subpartition, left.in_flight)

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
        f"{operator.name} ({operator.ref.uid}) is chained or read in another way than it was, but the checkpoint is"
        " unaligned and holds rows that were on their way to it or from it: start from a savepoint or from an aligned"
        " checkpoint"
    )
