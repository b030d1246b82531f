"""Where the boxes of a graph stand on a page: in layers from left to right, each behind all that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def layers(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The nodes, given in topological order, by layer; in a layer in the order that crosses few edges."""
    depth: dict[str, int] = {}
    inputs = {node: [source for source, target in edges if target == node] for node in nodes}
    for node in nodes:
        depth[node] = max((depth[source] + 1 for source in inputs[node]), default=0)
    made: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        made[depth[node]].append(node)
    for before, layer in pairwise(made):
        places = {node: place for place, node in enumerate(before)}
        layer.sort(key=lambda node: _barycentre(inputs[node], places))
    return made


def _barycentre(sources: Sequence[str], places: Mapping[str, int]) -> float:
    """The mean place of what a node reads in the layer before; what reads from further back stands first."""
    near = [places[source] for source in sources if source in places]
    return sum(near) / len(near) if near else -1.0
