"""Repartitioning calls on streams, as a program records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.api.streams.transformation import Input, Transformation, partitioned
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.stateless import TransformCode
from tests.conformance.case_files import UnknownWordError, only_known_words

_READER = "reader"
_CALLS = {
    "forward": ShipStrategy.FORWARD,
    "rebalance": ShipStrategy.REBALANCE,
    "rescale": ShipStrategy.RESCALE,
    "shuffle": ShipStrategy.SHUFFLE,
    "broadcast": ShipStrategy.BROADCAST,
    "global": ShipStrategy.GLOBAL,
    "hash": ShipStrategy.HASH,
    "key_by": ShipStrategy.HASH,
    "keyBy": ShipStrategy.HASH,
}


def edge_partitioners(given: Mapping[str, Any]) -> dict[str, str]:
    only_known_words("given", given, {"kind", "from", "calls", "branches", "after_union"})
    branches = given["branches"] if given["kind"] == "union" else [[given["from"], given["calls"]]]
    sources: list[Transformation] = []
    inputs: tuple[Input, ...] = ()
    for name, calls in branches:
        sources.append(_operator(name, len(sources) + 1))
        inputs += _called((Input(source=sources[-1]),), calls)
    reader = _operator(_READER, len(sources) + 1, _called(inputs, given.get("after_union", ())))
    graph = stream_graph([*sources, reader], CodeRegistry(), Defaults())
    return {edge.source_uid: edge.ship_strategy.lower() for edge in graph.inputs(_READER)}


def _called(inputs: tuple[Input, ...], calls: list[str]) -> tuple[Input, ...]:
    for call in calls:
        if call not in _CALLS:
            raise UnknownWordError(f"call {call!r}")
        strategy = _CALLS[call]
        key_by = KeyByCode(columns=("key",)) if strategy is ShipStrategy.HASH else None
        inputs = partitioned(inputs, strategy, key_by)
    return inputs


def _operator(name: str, position: int, inputs: tuple[Input, ...] = ()) -> Transformation:
    return Transformation(
        kind=OperatorKind.STATELESS if inputs else OperatorKind.SOURCE,
        position=position,
        name=name,
        code=TransformCode(function=lambda rows: rows),
        inputs=inputs,
        explicit_uid=name,
    )
