"""The resources of one TaskManager, and what is left of them (Flink's ResourceBudgetManager).

A resource that the TaskManager has not declared never runs out.
"""

from __future__ import annotations

from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, figures, of_figures
from flykka.messages.graph.job_graph import ResourceSpec


class ResourceBudget:
    """`total`, of which slots take their sizes."""

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
        """A slot of this size is gone."""
        self._taken = tuple(taken - own for taken, own in zip(self._taken, figures(size), strict=True))
        assert min(self._taken) >= 0, "more was given back than was taken"
