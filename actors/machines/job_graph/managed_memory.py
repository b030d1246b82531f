"""Divides the managed memory of a slot among the tasks that share it (Flink's managedMemFraction).

Every operator that keeps state by key has an equal part, and a task those of its operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from flykka.messages.graph.job_graph import JobVertex


def with_managed_memory(vertices: Sequence[JobVertex]) -> tuple[JobVertex, ...]:
    """The vertices, each with the part of its slot's managed memory that its tasks may use."""
    users: Counter[str] = Counter()
    for vertex in vertices:
        users[vertex.slot_sharing_group] += _users(vertex)
    return tuple(
        replace(vertex, managed_memory_fraction=own / users[vertex.slot_sharing_group])
        if (own := _users(vertex))
        else vertex
        for vertex in vertices
    )


def _users(vertex: JobVertex) -> int:
    return sum(operator.kind.keeps_keyed_state for operator in vertex.operators)
