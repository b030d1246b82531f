"""Rows that an unaligned barrier has overtaken: they are on their way between subtasks that have to be the same ones.

As in Flink before 1.13, which of them would go where between other subtasks is not worked out: such a checkpoint is
refused where the parallelism at either end is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flykka.actors.errors import RescaleNotSupportedError
from flykka.actors.graph.wiring import subpartitions
from flykka.messages.ids import JobVertexId
from flykka.messages.job_graph import JobEdge, JobVertex, Operator
from flykka.messages.state import OperatorSubtaskState

Readers = Mapping[tuple[JobVertexId, int], tuple[JobVertex, JobEdge]]
"""Who reads an output, by vertex and number of the output, and through which edge."""


def is_in_flight(state: OperatorSubtaskState) -> bool:
    """Whether there were rows on their way to the subtask or from it."""
    return bool(state.input_channels or state.result_subpartitions)


def readers_of(vertices: Iterable[JobVertex]) -> Readers:
    """Who reads what in a job."""
    return {(edge.source, edge.source_output): (vertex, edge) for vertex in vertices for edge in vertex.inputs}


def check_in_flight(
    vertex: JobVertex,
    operator: Operator,
    old_parallelism: int,
    states: Mapping[int, Iterable[OperatorSubtaskState]],
    readers: Readers,
) -> None:
    """Raise `RescaleNotSupportedError` where what was in flight at the head of `vertex` cannot arrive any more."""
    for subtask, of_subtask in states.items():
        for state in filter(is_in_flight, of_subtask):
            if old_parallelism != vertex.parallelism:
                was = f"ran with parallelism {old_parallelism} and is to run with {vertex.parallelism}"
                raise RescaleNotSupportedError(_refusal(operator, was))
            if operator is not vertex.operators[0] or any(
                part.output >= len(vertex.outputs) for part in state.result_subpartitions
            ):
                raise RescaleNotSupportedError(_refusal(operator, "is chained or read in another way now"))
            for part in state.result_subpartitions:
                if (vertex.vertex_id, part.output) not in readers:
                    # Whoever asks does so for a part of the job.
                    continue
                reader, edge = readers[vertex.vertex_id, part.output]
                now = subpartitions(edge.ship_strategy, vertex.parallelism, reader.parallelism, subtask)
                if now != part.subpartitions:
                    was = f"was read by {part.subpartitions} subtasks and is to be read by {now}, of {reader.name!r}"
                    raise RescaleNotSupportedError(_refusal(operator, was))


def _refusal(operator: Operator, was: str) -> str:
    return (
        f"{operator.name} ({operator.ref.uid}) {was}, but the checkpoint is unaligned and holds rows that were on their"
        " way: start from a savepoint or from an aligned checkpoint, or with the parallelism that the job had"
    )
