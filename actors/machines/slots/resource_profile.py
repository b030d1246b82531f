"""Matches sizes of slots (Flink's ResourceProfile.isMatching).

What a request does not say it does not need; what a slot does not say it has as much of as anybody needs (Flink's
UNKNOWN and ANY). So where nobody says anything every slot serves everybody.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.graph.job_graph import ResourceSpec

MIB = 1 << 20
UNSPECIFIED = ResourceSpec()
"""Of a request: nothing in particular. Of a slot: as much as anybody needs."""


def fits(required: ResourceSpec, slot: ResourceSpec) -> bool:
    """True if a slot of the size `slot` has what is required."""
    return all(not there or needed <= there for needed, there in zip(figures(required), figures(slot), strict=True))


def merged(one: ResourceSpec, other: ResourceSpec) -> ResourceSpec:
    return total_of((one, other))


def total_of(specs: Iterable[ResourceSpec]) -> ResourceSpec:
    return of_figures(sum(each) for each in zip(*map(figures, (UNSPECIFIED, *specs)), strict=True))


def share_of(total: ResourceSpec, slots: int) -> ResourceSpec:
    """The size of each of so many slots of equal share: of what is declared at least 1, for 0 is not said."""
    return of_figures(max(each // slots, 1) if each else 0 for each in figures(total))


def cut_for(required: ResourceSpec, default: ResourceSpec) -> ResourceSpec:
    """The size of the slot that is cut for a request: what it does not say it has as a slot of the default size."""
    return of_figures(own or other for own, other in zip(figures(required), figures(default), strict=True))


def shown(spec: ResourceSpec) -> str:
    words = [
        f"{spec.cpu_millis / 1000:g} {'core' if spec.cpu_millis == 1000 else 'cores'}" if spec.cpu_millis else "",
        f"{spec.heap_mib} MiB of memory" if spec.heap_mib else "",
        f"{spec.managed_mib} MiB of managed memory" if spec.managed_mib else "",
    ]
    return ", ".join(filter(None, words)) or "nothing in particular"


def figures(spec: ResourceSpec) -> tuple[int, int, int]:
    return spec.cpu_millis, spec.heap_mib, spec.managed_mib


def of_figures(numbers: Iterable[int]) -> ResourceSpec:
    cpu_millis, heap_mib, managed_mib = numbers
    return ResourceSpec(cpu_millis=cpu_millis, heap_mib=heap_mib, managed_mib=managed_mib)


def too_large(required: ResourceSpec, largest: Iterable[ResourceSpec]) -> str:
    """The reason for which a request is refused, where these are the largest slots that there can be."""
    there = sorted(largest, key=figures, reverse=True)
    offered = f"the largest that there can be has {' or '.join(map(shown, there))}" if there else "there will be none"
    return f"no slot is large enough: {shown(required)} is needed, and {offered}"
