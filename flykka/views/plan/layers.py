"""Layout of a graph's boxes on a page: in layers from left to right, each behind all that it reads.

An edge that passes over layers has a place of its own in each of them, so that it does not go under a box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Layers:
    """The keys of each layer, top down, and by edge the keys of the places that it passes, in order."""

    layers: tuple[tuple[str, ...], ...]
    passed: Mapping[Edge, tuple[str, ...]]


def layered(nodes: Sequence[str], edges: Sequence[Edge]) -> Layers:
    """The layers of a graph whose nodes are in topological order; in each the order that crosses few edges."""
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node] = max((depth[source] + 1 for source, target in edges if target == node), default=0)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    inputs: dict[str, list[str]] = {node: [] for node in nodes}
    for node in nodes:
        layers[depth[node]].append(node)
    passed: dict[Edge, tuple[str, ...]] = {}
    for source, target in edges:
        between = range(depth[source] + 1, depth[target])
        places = [f"{source} to {target} over {layer}" for layer in between]
        passed[source, target] = tuple(places)
        for layer, place in zip(between, places, strict=True):
            if place not in inputs:
                inputs[place] = []
                layers[layer].append(place)
        for before, behind in pairwise([source, *places, target]):
            inputs[behind].append(before)
    for before_layer, layer_behind in pairwise(layers):
        order = {key: place for place, key in enumerate(before_layer)}
        layer_behind.sort(key=lambda key: sum(order[each] for each in inputs[key]) / max(len(inputs[key]), 1))
    return Layers(tuple(map(tuple, layers)), passed)
