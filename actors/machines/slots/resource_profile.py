"""Matches sizes of slots (Flink's ResourceProfile.isMatching), and keeps account of what slots have of a TaskManager.

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


class ResourceBudget:
    """The resources of one TaskManager, and what is left of them (Flink's ResourceBudgetManager).

    A resource that the TaskManager has not declared never runs out.
    """

    def __init__(self, total: ResourceSpec) -> None:
        self.total = total
        self._taken: tuple[int, ...] = figures(UNSPECIFIED)

    @property
    def remaining(self) -> ResourceSpec:
        """The resources that no slot has; 0 where nothing is left, and where nothing was declared."""
        return of_figures(max(there - taken, 0) for there, taken in zip(figures(self.total), self._taken, strict=True))

    @property
    def utilization(self) -> float:
        """The used part of the resource that is used most, from 0 to 1."""
        return max(
            taken / there if there else 0.0 for there, taken in zip(figures(self.total), self._taken, strict=True)
        )

    def has_room_for(self, size: ResourceSpec) -> bool:
        """True if a slot of this size can be had of what is left."""
        needed = zip(figures(size), figures(self.total), self._taken, strict=True)
        return all(not there or taken + own <= there for own, there, taken in needed)

    def slots_left(self, size: ResourceSpec, at_most: int) -> int:
        """The number of slots of this size that can be had of what is left, `at_most` of them."""
        needed = zip(figures(size), figures(self.total), self._taken, strict=True)
        return min([at_most, *(max(there - taken, 0) // own for own, there, taken in needed if own and there)])

    def take(self, size: ResourceSpec) -> None:
        """A slot of this size is there. More than there is may be taken: a slot that is reported is there."""
        self._taken = tuple(taken + own for taken, own in zip(self._taken, figures(size), strict=True))

    def give_back(self, size: ResourceSpec) -> None:
        self._taken = tuple(taken - own for taken, own in zip(self._taken, figures(size), strict=True))
        assert min(self._taken) >= 0, "more was given back than was taken"


def task_managers_needed(sizes: Iterable[tuple[ResourceSpec, int]], total: ResourceSpec) -> int:
    """Packs slots of declared sizes into TaskManagers that are still to come (Flink's
    DefaultResourceAllocationStrategy).

    Each goes to the TaskManager that is used most of those that have room for it, so that large ones find room
    beside.
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
    """Take up to so many slots; how many were taken."""
    taken = min(number, budget.slots_left(size, number))
    for _ in range(taken):
        budget.take(size)
    return taken
