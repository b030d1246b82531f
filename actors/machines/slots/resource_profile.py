"""Matches sizes of slots (Flink's ResourceProfile.isMatching).

What a request does not say it does not need; what a slot does not say it has as much of as anybody needs (Flink's
UNKNOWN and ANY). So where nobody says anything every slot serves everybody.
"""

from __future__ import annotations

from flykka.messages.graph.job_graph import ResourceSpec

UNSPECIFIED = ResourceSpec()
"""Of a request: nothing in particular. Of a slot: as much as anybody needs."""


def fits(required: ResourceSpec, slot: ResourceSpec) -> bool:
    """True if a slot of the size `slot` has what is required."""
    return _is_enough(required.cpu_millis, slot.cpu_millis) and _is_enough(required.heap_mib, slot.heap_mib)


def merged(one: ResourceSpec, other: ResourceSpec) -> ResourceSpec:
    """The sum of both needs."""
    return ResourceSpec(cpu_millis=one.cpu_millis + other.cpu_millis, heap_mib=one.heap_mib + other.heap_mib)


def _is_enough(required: int, there: int) -> bool:
    return there == 0 or required <= there
