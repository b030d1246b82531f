"""Makes a failing scenario smaller, by delta debugging: part after part is taken away, as long as the same law breaks.

What is left is small enough to be read, and to stay in the tests. The order of turns is drawn again by everything that
changes; so a smaller scenario is tried with several seeds before it is given up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    CheckpointingSettings,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
)
from flykka.monitors.monitor import Violation
from flykka.simulation.scenario import QUICK_MS, Fault, JobPlan, Scenario
from flykka.simulation.shrink_topology import smaller_topologies
from flykka.simulation.simulation import run

DEFAULT_RUNS = 600
_SEEDS = 4
"""So many orders of turns are tried of each smaller scenario: the one at hand, and some others."""
_SIMPLE_CHECKPOINTING = (
    "min_pause_ms",
    "max_concurrent",
    "tolerable_failures",
    "retained",
    "retention",
    "timeout_ms",
    "initial_delay_ms",
    "has_random_initial_delay",
    "tolerable_by_reason",
    "max_concurrent_deletions",
)
"""Settings of checkpoints that are each as good as unset."""

Run = Callable[[Scenario], tuple[Violation, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The rest of a failing scenario. `violation` is how it fails, `runs` how many it took to find it."""

    scenario: Scenario
    violation: Violation
    runs: int
    is_smallest: bool
    """True if nothing more could be removed; else there were no runs left."""


def violations_of(scenario: Scenario) -> tuple[Violation, ...]:
    return run(scenario).violations


def law_of(violation: Violation) -> tuple[str, str]:
    """The law that a violation breaks: its monitor, and its words without names, as far as they tell laws apart."""
    _, arrow, behind = violation.text.partition(" <- ")
    text = behind.partition(": ")[2] if arrow else violation.text
    words = re.sub(r"\S*\d\S*", "#", text).split()
    return violation.monitor, " ".join(words[:4])


def shrink(
    scenario: Scenario,
    *,
    runs: int = DEFAULT_RUNS,
    violations_of: Run = violations_of,
    told: Callable[[Scenario, int], None] = lambda _scenario, _runs: None,
) -> Shrunk | None:
    """The smallest scenario that breaks the same law; None where this one breaks none.

    After so many `runs`, or a Ctrl-C, what is found by then is returned. Before each run `told` hears what the smallest
    is so far, and how many runs that took.
    """
    found = violations_of(scenario)
    return None if not found else _Search(scenario, found[0], runs, violations_of, told).search()


class _Search:
    def __init__(
        self,
        scenario: Scenario,
        violation: Violation,
        runs: int,
        violations_of: Run,
        told: Callable[[Scenario, int], None],
    ) -> None:
        self._scenario = scenario
        self._violation = violation
        self._law = law_of(violation)
        self._limit = runs
        self._runs = 1
        self._violations_of = violations_of
        self._told = told

    def search(self) -> Shrunk:
        """Take away what can be taken away, until nothing can."""
        is_done = False
        try:
            while not is_done and self._has_runs:
                # Every step is taken, also behind one that has helped.
                is_done = not sum(map(self._exhaust, _STEPS))
        except KeyboardInterrupt:
            is_done = False
        return Shrunk(
            scenario=self._scenario,
            violation=self._violation,
            runs=self._runs,
            is_smallest=is_done and self._has_runs,
        )

    @property
    def _has_runs(self) -> bool:
        return self._runs < self._limit

    def _exhaust(self, step: Callable[[Scenario], Iterator[Scenario]]) -> bool:
        """Take the same step as often as it leads anywhere; whether it did."""
        has_helped = False
        while self._has_runs and any(self._fails(smaller) for smaller in step(self._scenario)):
            has_helped = True
        return has_helped

    def _fails(self, smaller: Scenario) -> bool:
        """True if the smaller scenario breaks the same law with some seed; then it replaces the larger one."""
        for seed in dict.fromkeys((self._scenario.seed, *range(_SEEDS - 1))):
            if not self._has_runs:
                return False
            self._told(self._scenario, self._runs)
            self._runs += 1
            tried = replace(smaller, seed=seed)
            for violation in self._violations_of(tried):
                if law_of(violation) == self._law:
                    self._scenario, self._violation = tried, violation
                    return True
        return False


# Steps: each says what could be taken away next, the most first.


def _fewer_jobs(scenario: Scenario) -> Iterator[Scenario]:
    for count in range(1, len(scenario.jobs)):
        yield replace(scenario, jobs=scenario.jobs[:count])
    for place in range(len(scenario.jobs) - 1):
        yield replace(scenario, jobs=(*scenario.jobs[:place], *scenario.jobs[place + 1 :]))


def _fewer_faults(scenario: Scenario) -> Iterator[Scenario]:
    for place, plan in enumerate(scenario.jobs):
        count = len(plan.faults)
        length = count
        while length:
            for begin in range(0, count, length):
                kept = (*plan.faults[:begin], *plan.faults[begin + length :])
                yield _with_plan(scenario, place, replace(plan, faults=kept))
            length //= 2


def _smaller_jobs(scenario: Scenario) -> Iterator[Scenario]:
    return (replace(scenario, topology=topology) for topology in smaller_topologies(scenario.topology))


def _smaller_cluster(scenario: Scenario) -> Iterator[Scenario]:
    if scenario.task_managers > 1:
        yield replace(scenario, task_managers=1)
    if scenario.restart_strategy != FixedDelayRestartStrategyConfiguration():
        yield replace(scenario, restart_strategy=FixedDelayRestartStrategyConfiguration())
    if scenario.failover_strategy is not FailoverStrategyKind.REGION:
        yield replace(scenario, failover_strategy=FailoverStrategyKind.REGION)
    if scenario.coalesces_batches:
        yield replace(scenario, coalesces_batches=False)
    if scenario.local_recovery:
        yield replace(scenario, local_recovery=False)
    if scenario.approximate:
        yield replace(scenario, approximate=False)
    if scenario.stage_ms != QUICK_MS:
        yield replace(scenario, stage_ms=QUICK_MS)


def _plainer_jobs(scenario: Scenario) -> Iterator[Scenario]:
    for place, plan in enumerate(scenario.jobs):
        for plainer in _plainer_plans(plan, is_last=place == len(scenario.jobs) - 1):
            yield _with_plan(scenario, place, plainer)


def _plainer_plans(plan: JobPlan, *, is_last: bool) -> Iterator[JobPlan]:
    if plan.parallelism:
        yield replace(plan, parallelism=())
    if plan.goes_on and is_last:
        yield replace(plan, goes_on=False)
    settings = plan.checkpointing
    plain = CheckpointingSettings(directory=settings.directory, interval_ms=settings.interval_ms)
    for name in _SIMPLE_CHECKPOINTING:
        if getattr(settings, name) != getattr(plain, name):
            yield replace(plan, checkpointing=replace(settings, **{name: getattr(plain, name)}))
    if settings.mode is not CheckpointingMode.EXACTLY_ONCE:
        yield replace(plan, checkpointing=replace(settings, mode=CheckpointingMode.EXACTLY_ONCE))
    if settings.unaligned:
        yield replace(plan, checkpointing=replace(settings, unaligned=False, aligned_timeout_ms=0))


def _plainer_faults(scenario: Scenario) -> Iterator[Scenario]:
    for place, plan in enumerate(scenario.jobs):
        for number, fault in enumerate(plan.faults):
            for plainer in _plainer(fault):
                faults = (*plan.faults[:number], plainer, *plan.faults[number + 1 :])
                yield _with_plan(scenario, place, replace(plan, faults=faults))


def _plainer(fault: Fault) -> Iterator[Fault]:
    if fault.count > 1:
        yield replace(fault, count=1)
    if fault.at_ms:
        yield replace(fault, at_ms=0)
        if fault.at_ms > 10:
            yield replace(fault, at_ms=fault.at_ms // 2)
    if fault.seed:
        yield replace(fault, seed=0)


def _with_plan(scenario: Scenario, place: int, plan: JobPlan) -> Scenario:
    return replace(scenario, jobs=(*scenario.jobs[:place], plan, *scenario.jobs[place + 1 :]))


_STEPS = (_fewer_jobs, _fewer_faults, _smaller_jobs, _smaller_cluster, _plainer_jobs, _plainer_faults)
