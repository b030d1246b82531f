"""The topologies of area 04: tasks and edges, or vertices and connections."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_topology import execution_topology
from flykka.actors.machines.graph.task_scheduling import TaskScheduling
from flykka.actors.machines.scheduling.topology import Exchange, SchedulingTopology, pipelined_regions
from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex, ResultPartitionType, ShipStrategy
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState
from flykka.messages.wire.ids import JobVertexId, OperatorId
from tests.actors.machines.graph.graphs import graph_of, slot, vertex
from tests.conformance.case_files import UnknownWordError, only_known_words

_OF_TASKS = {"tasks", "edges", "co_location", "merge_cycles"}
_OF_VERTICES = {"vertices", "connections", "co_location", "merge_cycles"}
_TYPES = {"pipelined": ResultPartitionType.PIPELINED_BOUNDED, "blocking": ResultPartitionType.BLOCKING}
_PATTERNS = {"all": ShipStrategy.REBALANCE, "pointwise": ShipStrategy.RESCALE}


def topology_of(given: Mapping[str, Any]) -> SchedulingTopology[str]:
    """Return the topology of a case. Regions that depend on each other in a circle are merged."""
    if "vertices" in given:
        only_known_words("given", given, _OF_VERTICES | {"mode", "input_constraint"})
        return _with_task_names(execution_topology(job_graph_of(given["vertices"], given["connections"])))
    only_known_words("given", given, _OF_TASKS)
    exchanges = [_exchange(*edge) for edge in given["edges"]]
    return SchedulingTopology(given["tasks"], exchanges, has_co_location=given.get("co_location", False))


def regions_of(given: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the regions of the topology. By default, regions in a circle stay separate, as before Flink 1.11."""
    topology = topology_of(given)
    if given.get("merge_cycles", False) or given.get("co_location", False):
        return topology.regions
    return pipelined_regions(topology.tasks, topology.exchanges)


def in_need_of_restart(given: Mapping[str, Any], tasks: Collection[str]) -> list[str]:
    connections = [[producer, consumer, "all", kind] for producer, consumer, kind in given["edges"]]
    scheduling = TaskScheduling(job_graph_of(dict.fromkeys(given["tasks"], 1), connections), now=0)
    for name, state in given["states"].items():
        _reach(scheduling.execution_of((JobVertexId(name), 0)), state)
    return [str(vertex) for vertex, _ in scheduling.to_restart([(JobVertexId(name), 0) for name in tasks])]


def _reach(execution: Execution, state: str) -> None:
    match state:
        case "CREATED":
            pass
        case "RUNNING":
            execution.schedule(0)
            execution.assign(slot("s"))
            execution.deploy(0)
            execution.update(TaskExecutionState(attempt=execution.attempt, state=ExecutionState.RUNNING), 0)
        case unknown:
            raise UnknownWordError(f"state {unknown!r}")


def job_graph_of(parallelisms: Mapping[str, int], connections: list[list[str]]) -> JobGraph:
    """Return a job of these vertices; each connection is a separate output of its source vertex."""
    numbers: dict[int, int] = {}
    outputs = dict.fromkeys(parallelisms, 0)
    for index, (source, _, _, _) in enumerate(connections):
        numbers[index] = outputs[source]
        outputs[source] += 1
    vertices = [
        _vertex(name, parallelism, outputs[name], tuple(_edges(name, connections, numbers)))
        for name, parallelism in parallelisms.items()
    ]
    return graph_of(*vertices)


def _edges(name: str, connections: list[list[str]], numbers: Mapping[int, int]) -> list[JobEdge]:
    edges = []
    for index, (source, target, pattern, kind) in enumerate(connections):
        if pattern not in _PATTERNS or kind not in _TYPES:
            raise UnknownWordError(f"connection {pattern!r}, {kind!r}")
        if target == name:
            edges.append(
                JobEdge(
                    source=JobVertexId(source),
                    source_output=numbers[index],
                    ship_strategy=_PATTERNS[pattern],
                    result_partition_type=_TYPES[kind],
                )
            )
    return edges


def _vertex(name: str, parallelism: int, outputs: int, inputs: tuple[JobEdge, ...]) -> JobVertex:
    # Each vertex is in its own group, because slots do not matter in these cases.
    made = vertex(name, parallelism, reads=tuple(edge.source for edge in inputs), group=name)
    return replace(made, inputs=inputs, outputs=(OperatorId(name),) * outputs)


def _with_task_names(topology: SchedulingTopology[tuple[JobVertexId, int]]) -> SchedulingTopology[str]:
    exchanges = [
        Exchange(
            result=each.result,
            producers=tuple(map(name_of, each.producers)),
            consumers=tuple(map(name_of, each.consumers)),
            is_blocking=each.is_blocking,
        )
        for each in topology.exchanges
    ]
    return SchedulingTopology([name_of(task) for task in topology.tasks], exchanges)


def name_of(task: tuple[JobVertexId, int]) -> str:
    return f"{task[0]}_{task[1]}"


def _exchange(producer: str, consumer: str, kind: str) -> Exchange[str]:
    if kind not in _TYPES:
        raise UnknownWordError(f"edge {kind!r}")
    return Exchange(
        result=f"{producer}>{consumer}", producers=(producer,), consumers=(consumer,), is_blocking=kind == "blocking"
    )
