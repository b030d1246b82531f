"""Packs slots of declared sizes into TaskManagers that are still to come (Flink's DefaultResourceAllocationStrategy).

Each goes to the TaskManager that is used most of those that have room for it, so that large ones find room beside.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.slots.resource_budget import ResourceBudget
from flykka.messages.graph.job_graph import ResourceSpec


def task_managers_needed(sizes: Iterable[tuple[ResourceSpec, int]], total: ResourceSpec) -> int:
    """The number of TaskManagers with these resources for so many slots of each size. Larger slots do not count."""
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
