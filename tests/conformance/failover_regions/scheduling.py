"""Words of area 04 for scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.actors.machines.scheduling.scheduling_strategy import (
    EagerSchedulingStrategy,
    Groups,
    LazyFromSourcesSchedulingStrategy,
    PipelinedRegionSchedulingStrategy,
    SchedulingStrategy,
)
from flykka.messages.graph.job_graph import InputDependencyConstraint
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.failover_regions.topologies import topology_of


class SchedulingCase:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self._topology = topology_of(given)
        constraint = InputDependencyConstraint(given.get("input_constraint", "ANY"))
        self._lazy = LazyFromSourcesSchedulingStrategy(self._topology, constraint)
        self._strategy = self._strategy_of(given.get("mode", "lazy"))
        self._groups: Groups[str] = []
        self._last: Groups[str] = []

    def _strategy_of(self, mode: str) -> SchedulingStrategy[str]:
        match mode:
            case "by region":
                return PipelinedRegionSchedulingStrategy(self._topology)
            case "lazy":
                return self._lazy
            case "eager":
                return EagerSchedulingStrategy(self._topology)
            case unknown:
                raise UnknownWordError(f"mode {unknown!r}")

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, {"do", "task", "tasks", "want"})
        self._last = self._happen(step)
        self._groups += self._last

    def _happen(self, step: Mapping[str, Any]) -> Groups[str]:
        match step["do"]:
            case "start":
                return self._strategy.start()
            case "finish":
                return self._strategy.finished(step["task"])
            case "data_produced":
                return self._strategy.data_produced(step["task"])
            case "restart":
                return self._strategy.restart(step["tasks"])
            case "fail_and_restart_all":
                return self._strategy.restart(self._topology.tasks)
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        match word:
            case "all_wants_hold":
                return True
            case "scheduled_regions":
                return len(self._groups) == int(wanted)
            case "last_scheduled" | "scheduled_by_last_step":
                return sorted(_tasks(self._last)) == sorted(wanted)
            case "last_scheduled_count":
                return len(_tasks(self._last)) == int(wanted)
            case "scheduled":
                return sorted(set(_tasks(self._groups))) == sorted(wanted)
            case "consumable":
                return all(list(self._lazy.consumable(task)) == inputs for task, inputs in wanted.items())
            case "satisfied":
                return all(self._lazy.is_satisfied(task) is is_so for task, is_so in wanted.items())
            case unknown:
                raise UnknownWordError(unknown)


def _tasks(groups: Groups[str]) -> list[str]:
    return [task for group in groups for task in group]
