"""A program of area 06 as a StreamGraph, and its JobGraph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flykka.actors.machines.job_graph.chaining import chains, sharing_groups
from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.actors.machines.job_graph.stream_graph import (
    ChainingStrategy,
    ExchangeMode,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from flykka.api.streams.stream_graph_generator import Defaults
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    JobGraph,
    JobVertex,
    OperatorKind,
    OperatorRef,
    ResourceSpec,
    ScheduleMode,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobId
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.flykka.api.without_spark import without_spark

NEVER_MS = 9_223_372_036_854_775_807
"""Flink's value for an unset checkpoint interval, which is None in flykka."""

_NOT_SET: dict[tuple[str, int], None] = {("max_parallelism", -1): None}
"""Flink's value for an unset setting."""

_GIVEN = {
    "kind",
    "operators",
    "chaining_enabled",
    "checkpointing",
    "schedule_mode",
    "default_max_parallelism",
    "default_parallelism",
}
_OPERATOR = {
    "name",
    "in",
    "parallelism",
    "max_parallelism",
    "chaining",
    "group",
    "co_location",
    "cpu",
    "heap_mb",
    # This operator is chained like any other.
    "yielding",
}


class ProgramCase:
    """One program, its StreamGraph and, unless it is empty, its JobGraph."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, _GIVEN)
        self._given = given
        self._defaults = Defaults(
            parallelism=given.get("default_parallelism", 1),
            max_parallelism=given.get("default_max_parallelism"),
        )
        self._graph = StreamGraph(
            chaining_enabled=given.get("chaining_enabled", True),
            schedule_mode=ScheduleMode(_name(given.get("schedule_mode", "eager")).upper()),
        )
        for operator in given["operators"]:
            self._add(operator)

    def _add(self, operator: Mapping[str, Any]) -> None:
        only_known_words("operator", operator, _OPERATOR)
        name = operator["name"]
        self._graph.add_node(
            StreamNode(
                uid=name,
                name=name,
                kind=OperatorKind.STATELESS if operator["in"] else OperatorKind.SOURCE,
                ref=OperatorRef(uid=name, fingerprint=""),
                parallelism=operator.get("parallelism", self._defaults.parallelism),
                max_parallelism=self._defaults.max_parallelism_of(operator.get("max_parallelism")),
                slot_sharing_group=operator.get("group"),
                co_location_group=operator.get("co_location"),
                chaining=ChainingStrategy(operator.get("chaining", "always").upper()),
                has_automatic_uid=True,
                resources=ResourceSpec(
                    cpu_millis=round(operator.get("cpu", 0) * 1000), heap_mib=operator.get("heap_mb", 0)
                ),
            )
        )
        for source, partitioner, mode in operator["in"]:
            self._graph.add_edge(edge_of(source, name, partitioner, mode))

    @property
    def job_graph(self) -> JobGraph:
        return job_graph_of(self._graph)

    @property
    def input_order(self) -> tuple[str, ...]:
        names = {vertex.vertex_id: vertex.name for vertex in self.job_graph.vertices}
        return tuple(names[edge.source] for vertex in self.job_graph.vertices for edge in vertex.inputs)

    def check(self, word: str, wanted: Any) -> None:
        match word:
            case "chains":
                assert sorted(map(sorted, self._chains())) == sorted(map(sorted, wanted))
            case "chain_start":
                assert sorted(chain[0] for chain in self._chains()) == sorted(wanted)
            case "chain_end":
                assert sorted(self._ends()) == sorted(wanted)
            case "edge_types":
                assert self._edge_types(wanted) == wanted
            case "groups":
                groups = sharing_groups(self._graph)
                assert {name: groups[name] for name in wanted} == wanted
            case "max_parallelism" | "parallelism":
                found = {name: getattr(self._graph.node(name), word) for name in wanted}
                assert found == {name: _NOT_SET.get((word, value), value) for name, value in wanted.items()}
            case "derived_max_parallelism" | "vertex_max_parallelism":
                found = {name: self._vertex_of(name).max_parallelism for name in wanted}
                assert found == wanted
            case "cpu":
                assert [vertex.resources.cpu_millis for vertex in self.job_graph.vertices] == [
                    round(each * 1000) for each in wanted
                ]
            case "heap_mb":
                assert [vertex.resources.heap_mib for vertex in self.job_graph.vertices] == wanted
            case "vertices":
                assert len(self.job_graph.vertices) == wanted
            case "schedule_mode":
                assert self._graph.schedule_mode.lower() == _name(wanted)
            case "checkpoint_interval_ms":
                interval_ms = self._checkpointing().interval_ms
                assert (NEVER_MS if interval_ms is None else interval_ms) == wanted
            case "checkpoint_mode":
                assert self._checkpointing().mode.lower().replace("_", "-") == wanted.lower().replace("_", "-")
            case _:
                raise UnknownWordError(word)

    def _checkpointing(self) -> CheckpointingSettings:
        settings = without_spark()
        match self._given.get("checkpointing"):
            case None:
                pass
            case int(interval_ms):
                settings.enable_checkpointing(interval_ms)
            case said:
                only_known_words("checkpointing", said, {"interval_ms", "mode"})
                settings.enable_checkpointing(said["interval_ms"])
                settings.set_checkpointing_mode(said.get("mode", "exactly_once").upper().replace("-", "_"))
        return settings.checkpointing

    def _chains(self) -> list[list[str]]:
        return [[operator.name for operator in vertex.operators] for vertex in self.job_graph.vertices]

    def _ends(self) -> list[str]:
        read = {chain.nodes[place].uid for chain in chains(self._graph) for place in chain.reads if place is not None}
        return [node.name for node in self._graph.nodes if node.uid not in read]

    def _edge_types(self, wanted: Mapping[str, str]) -> dict[str, str]:
        types: dict[str, str] = {}
        vertices = {vertex.vertex_id: vertex for vertex in self.job_graph.vertices}
        names = {operator.operator_id: operator.name for vertex in vertices.values() for operator in vertex.operators}
        for vertex in vertices.values():
            for edge in vertex.inputs:
                source = names[vertices[edge.source].outputs[edge.source_output]]
                arrow = f"{source}>{vertex.operators[0].name}"
                types[arrow] = edge.result_partition_type.lower().replace("_", "-")
        return {arrow: types.get(arrow, "chained") for arrow in wanted}

    def _vertex_of(self, name: str) -> JobVertex:
        return next(vertex for vertex in self.job_graph.vertices if any(each.name == name for each in vertex.operators))


def _name(words: str) -> str:
    return re.sub(r"[- ]", "_", words.lower())


def built_program(given: Mapping[str, Any]) -> ProgramCase:
    return ProgramCase(given)


def edge_of(source: str, target: str, partitioner: str, mode: str = "undefined") -> StreamEdge:
    strategy = ShipStrategy(partitioner.upper())
    return StreamEdge(
        source_uid=source,
        target_uid=target,
        ship_strategy=strategy,
        key_by=OperatorRef(uid=f"{target}-keys", fingerprint="") if strategy is ShipStrategy.HASH else None,
        exchange_mode=ExchangeMode(mode.upper()),
    )


def job_graph_of(graph: StreamGraph) -> JobGraph:
    return job_graph(
        graph,
        job_id=JobId("job"),
        name="a job",
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=10_000,
        heartbeat_timeout_ms=50_000,
    )


def graph_of_edges(vertices: Sequence[str], edges: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of the vertices in the order of the JobGraph, without chaining."""
    graph = StreamGraph(chaining_enabled=False)
    targets = {target for _, target in edges}
    for name in vertices:
        graph.add_node(
            StreamNode(
                uid=name,
                name=name,
                kind=OperatorKind.STATELESS if name in targets else OperatorKind.SOURCE,
                ref=OperatorRef(uid=name, fingerprint=""),
            )
        )
    for source, target in edges:
        graph.add_edge(edge_of(source, target, "rebalance"))
    return [vertex.operators[0].name for vertex in job_graph_of(graph).vertices]
