"""Which tasks are deployed together: all of a job, or those that exchange rows while they are made.

Follows Flink's EagerSchedulingStrategy and PipelinedRegionSchedulingStrategy. A pipelined region is deployed when each
of its tasks has a slot, though other regions of the job still wait for theirs. Checkpoints begin when all are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flykka.actors.graph.execution_job_vertex import ExecutionJobVertex
from flykka.actors.graph.execution_vertex import ExecutionVertex
from flykka.actors.graph.wiring import POINTWISE, pointwise_producers
from flykka.messages.ids import JobVertexId
from flykka.messages.job_graph import JobEdge, ScheduleMode

Subtask = tuple[JobVertexId, int]


class Regions:
    """The regions of one job, and which of them have their slots."""

    def __init__(self, vertices: Mapping[JobVertexId, ExecutionJobVertex], mode: ScheduleMode) -> None:
        self._members = _all_in_one(vertices) if mode is ScheduleMode.EAGER else _pipelined(vertices)
        self._region_of = {_key(subtask): number for number, members in enumerate(self._members) for subtask in members}
        self._waiting: list[int] = []
        self._ready: list[int] = []
        self._left = 0

    def begin(self) -> None:
        """All attempts are new: each waits for a slot."""
        self._waiting = [len(members) for members in self._members]
        self._ready = []
        self._left = len(self._members)

    def slot_assigned(self, subtask: ExecutionVertex) -> None:
        """The current attempt of the subtask has its slot."""
        number = self._region_of[_key(subtask)]
        self._waiting[number] -= 1
        if self._waiting[number] == 0:
            self._ready.append(number)

    def take_ready(self) -> tuple[ExecutionVertex, ...]:
        """The subtasks of all regions that have their slots, each once."""
        ready, self._ready = self._ready, []
        self._left -= len(ready)
        return tuple(subtask for number in ready for subtask in self._members[number])

    @property
    def all_taken(self) -> bool:
        """Every region has had its slots."""
        return self._left == 0


def _key(subtask: ExecutionVertex) -> Subtask:
    return subtask.job_vertex.vertex_id, subtask.subtask


def _all_in_one(vertices: Mapping[JobVertexId, ExecutionJobVertex]) -> tuple[tuple[ExecutionVertex, ...], ...]:
    return (tuple(subtask for vertex in vertices.values() for subtask in vertex.subtasks),)


def _pipelined(vertices: Mapping[JobVertexId, ExecutionJobVertex]) -> tuple[tuple[ExecutionVertex, ...], ...]:
    """The subtasks that are connected, however far, in the order of the first of each."""
    (subtasks,) = _all_in_one(vertices)
    root = {_key(subtask): _key(subtask) for subtask in subtasks}

    def find(key: Subtask) -> Subtask:
        while root[key] != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    for vertex in vertices.values():
        for edge in vertex.job_vertex.inputs:
            for one, other in _connected(vertices[edge.source], vertex, edge):
                root[find(other)] = find(one)
    regions: dict[Subtask, list[ExecutionVertex]] = {}
    for subtask in subtasks:
        regions.setdefault(find(_key(subtask)), []).append(subtask)
    return tuple(map(tuple, regions.values()))


def _connected(
    source: ExecutionJobVertex, target: ExecutionJobVertex, edge: JobEdge
) -> Iterator[tuple[Subtask, Subtask]]:
    """Pairs of subtasks that are in one region because of an edge, as few as it takes."""
    producers, consumers = len(source.subtasks), len(target.subtasks)
    for consumer in range(consumers):
        read: Iterable[int] = range(producers if consumer == 0 else 1)
        if edge.ship_strategy in POINTWISE:
            read = pointwise_producers(producers, consumers, consumer)
        for producer in read:
            yield (edge.source, producer), (target.job_vertex.vertex_id, consumer)
