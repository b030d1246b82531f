"""Matches slot sizes (Flink's ResourceProfile.isMatching), and accounts for the resources of a TaskManager.

A request needs nothing of a resource that it does not specify. A slot has enough of a resource that it does not specify
(Flink's UNKNOWN and ANY). So if no sizes are specified, every slot matches every request.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.messages.graph.job_graph import ResourceSpec

MIB = 1 << 20
UNSPECIFIED = ResourceSpec()
"""For a request: no required resources. For a slot: enough of every resource."""


def fits(required: ResourceSpec, slot: ResourceSpec) -> bool:
    return all(not there or needed <= there for needed, there in zip(figures(required), figures(slot), strict=True))


def merged(one: ResourceSpec, other: ResourceSpec) -> ResourceSpec:
    return total_of((one, other))


def total_of(specs: Iterable[ResourceSpec]) -> ResourceSpec:
    return of_figures(sum(each) for each in zip(*map(figures, (UNSPECIFIED, *specs)), strict=True))


def share_of(total: ResourceSpec, slots: int) -> ResourceSpec:
    """Return the size of each of `slots` equal slots: at least 1 of a declared resource, because 0 means undeclared."""
    return of_figures(max(each // slots, 1) if each else 0 for each in figures(total))


def cut_for(required: ResourceSpec, default: ResourceSpec) -> ResourceSpec:
    """Return the size of the slot that is created for a request. Resources without a size get the default size."""
    return of_figures(own or other for own, other in zip(figures(required), figures(default), strict=True))


def resources_text(spec: ResourceSpec) -> str:
    words = [
        f"{spec.cpu_millis / 1000:g} {'core' if spec.cpu_millis == 1000 else 'cores'}" if spec.cpu_millis else "",
        f"{spec.heap_mib} MiB of memory" if spec.heap_mib else "",
        f"{spec.managed_mib} MiB of managed memory" if spec.managed_mib else "",
    ]
    return ", ".join(filter(None, words)) or "no declared resources"


def figures(spec: ResourceSpec) -> tuple[int, int, int]:
    return spec.cpu_millis, spec.heap_mib, spec.managed_mib


def of_figures(numbers: Iterable[int]) -> ResourceSpec:
    cpu_millis, heap_mib, managed_mib = numbers
    return ResourceSpec(cpu_millis=cpu_millis, heap_mib=heap_mib, managed_mib=managed_mib)


def too_large(required: ResourceSpec, largest: Iterable[ResourceSpec]) -> str:
    there = sorted(largest, key=figures, reverse=True)
    offered = (
        f"the largest possible one has {' or '.join(map(resources_text, there))}" if there else "there are no slots"
    )
    return f"no slot is large enough: it must have {resources_text(required)}, and {offered}"


class ResourceBudget:
    """The total and the free resources of one TaskManager (Flink's ResourceBudgetManager).

    A resource that the TaskManager has not declared never runs out.
    """

    def __init__(self, total: ResourceSpec) -> None:
        self.total = total
        self._taken: tuple[int, ...] = figures(UNSPECIFIED)

    @property
    def remaining(self) -> ResourceSpec:
        """The free resources: 0 for a resource that is used up or was not declared."""
        return of_figures(max(there - used, 0) for there, used in zip(figures(self.total), self._taken, strict=True))

    @property
    def utilization(self) -> float:
        return max(used / there if there else 0.0 for there, used in zip(figures(self.total), self._taken, strict=True))

    def has_room_for(self, size: ResourceSpec) -> bool:
        needed = zip(figures(size), figures(self.total), self._taken, strict=True)
        return all(not there or used + own <= there for own, there, used in needed)

    def slots_left(self, size: ResourceSpec, at_most: int) -> int:
        needed = zip(figures(size), figures(self.total), self._taken, strict=True)
        return min([at_most, *(max(there - used, 0) // own for own, there, used in needed if own and there)])

    def take(self, size: ResourceSpec) -> None:
        """Count a slot of this size. The total may be exceeded, because a reported slot exists in any case."""
        self._taken = tuple(used + own for used, own in zip(self._taken, figures(size), strict=True))

    def give_back(self, size: ResourceSpec) -> None:
        self._taken = tuple(used - own for used, own in zip(self._taken, figures(size), strict=True))
        assert min(self._taken) >= 0, "more resources were returned than were in use"


def task_managers_needed(sizes: Iterable[tuple[ResourceSpec, int]], total: ResourceSpec) -> int:
    """Pack slots of declared sizes into new TaskManagers (Flink's DefaultResourceAllocationStrategy). Returns how many
    are needed.

    Each slot goes to the most used TaskManager that has room for it, so that room for large slots remains elsewhere.
    """
    budgets: list[ResourceBudget] = []
    for size, number in sizes:
        if not ResourceBudget(total).has_room_for(size):
            continue
        for budget in sorted(budgets, key=lambda each: -each.utilization):
            number -= _fill(budget, size, number)
        while number:
            budgets.append(ResourceBudget(total))
            number -= _fill(budgets[-1], size, number)
    return len(budgets)


def _fill(budget: ResourceBudget, size: ResourceSpec, number: int) -> int:
    count = min(number, budget.slots_left(size, number))
    for _ in range(count):
        budget.take(size)
    return count
