"""Numbers of the next attempts of subtasks, also of those that a job has not at its parallelism of now.

Flink's VertexAttemptNumberStore: where a job shrinks and grows again, no attempt has the number of another one.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.graph.execution_vertex import ExecutionVertex


class VertexAttemptNumberStore:
    """The numbers of one job; those of subtasks that never were begin with `first`."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._next: dict[Subtask, int] = {}

    def next(self, task: Subtask) -> int:
        return self._next.get(task, self._first)

    def note(self, subtasks: Iterable[ExecutionVertex]) -> None:
        for subtask in subtasks:
            self._next[subtask.job_vertex.vertex_id, subtask.subtask] = subtask.execution.number + 1
