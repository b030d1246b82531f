"""Reduces a failing scenario by delta debugging: part after part is removed, as long as the same rule is violated.

The result is small enough to be read, and to be added to the tests. Every change leads to another order of turns, so a
smaller scenario is tried with several seeds before it is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from flykka.messages.graph.job_graph import (
    CheckpointingMode,
    CheckpointingSettings,
    FailoverStrategyKind,
    FiringMode,
    FixedDelayRestartStrategyConfiguration,
    JobEdge,
    JobVertex,
    Operator,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobVertexId, OperatorId
from flykka.monitors.monitor import Violation
from flykka.simulation.operators import Behaviour, Filter, Join, Map, Program, Sink, Source
from flykka.simulation.scenario import QUICK_MS, Fault, JobPlan, Scenario
from flykka.simulation.simulation import run
from flykka.simulation.topology import Topology

DEFAULT_RUNS = 600
_SEEDS = 4
"""The number of seeds, and so of turn orders, that are tried for each smaller scenario, including the current seed."""
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

Run = Callable[[Scenario], tuple[Violation, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """A reduced failing scenario with its `violation`. `runs` is the number of runs that the search needed."""

    scenario: Scenario
    violation: Violation
    runs: int
    is_smallest: bool
    """True if nothing more could be removed. False if the limit of runs was reached."""


def violations_of(scenario: Scenario) -> tuple[Violation, ...]:
    return run(scenario).violations


def law_of(violation: Violation) -> tuple[str, str]:
    """Return the identity of a rule: its monitor, and the first words of the violation without names."""
    _, arrow, behind = violation.text.partition(" <- ")
    text = behind.partition(": ")[2] if arrow else violation.text
    words = re.sub(r"\S*\d\S*", "#", text).split()
    return violation.monitor, " ".join(words[:4])


def shrink(
    scenario: Scenario,
    *,
    runs: int = DEFAULT_RUNS,
    violations_of: Run = violations_of,
    on_progress: Callable[[Scenario, int], None] = lambda _scenario, _runs: None,
) -> Shrunk | None:
    """Return the smallest scenario that violates the same rule, or None if `scenario` violates no rule.

    After this many `runs`, or a Ctrl-C, the smallest scenario found is returned. Before each run `on_progress` is
    called with that scenario and the number of runs.
    """
    violations = violations_of(scenario)
    return None if not violations else _Search(scenario, violations[0], runs, violations_of, on_progress).search()


class _Search:
    def __init__(
        self,
        scenario: Scenario,
        violation: Violation,
        runs: int,
        violations_of: Run,
        on_progress: Callable[[Scenario, int], None],
    ) -> None:
        self._scenario = scenario
        self._violation = violation
        self._law = law_of(violation)
        self._limit = runs
        self._runs = 1
        self._violations_of = violations_of
        self._on_progress = on_progress

    def search(self) -> Shrunk:
        is_done = False
        try:
            while not is_done and self._has_runs:
                # Every step is tried, even if an earlier step has reduced the scenario.
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
        """Repeat a step as long as it reduces the scenario. Returns whether it has reduced it."""
        has_helped = False
        while self._has_runs and any(self._fails(smaller) for smaller in step(self._scenario)):
            has_helped = True
        return has_helped

    def _fails(self, smaller: Scenario) -> bool:
        """Return whether the smaller scenario violates the same rule with some seed. If so, the search continues with
        it.
        """
        for seed in dict.fromkeys((self._scenario.seed, *range(_SEEDS - 1))):
            if not self._has_runs:
                return False
            self._on_progress(self._scenario, self._runs)
            self._runs += 1
            candidate = replace(smaller, seed=seed)
            for violation in self._violations_of(candidate):
                if law_of(violation) == self._law:
                    self._scenario, self._violation = candidate, violation
                    return True
        return False


# The following steps yield the possible reductions of a scenario, largest reduction first.


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
                faults = (*plan.faults[:begin], *plan.faults[begin + length :])
                yield _with_plan(scenario, place, replace(plan, faults=faults))
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


def smaller_topologies(topology: Topology) -> Iterator[Topology]:
    """Yield valid jobs that lack one part of this job, largest parts first."""
    yield from _without_a_vertex(topology)
    yield from _without_an_operator(topology)
    yield from _narrower(topology)
    yield from _with_fewer_rows(topology)
    yield from _plainer_topologies(topology)


def _without_a_vertex(topology: Topology) -> Iterator[Topology]:
    for removed in reversed(topology.vertices):
        smaller = _trimmed(topology, {removed.vertex_id})
        if smaller is not None:
            yield smaller
    for removed in topology.vertices:
        readers = [edge for vertex in topology.vertices for edge in vertex.inputs if edge.source == removed.vertex_id]
        is_sink = any(isinstance(topology.program[operator.ref.uid], Sink) for operator in removed.operators)
        if removed.inputs and len(readers) == 1 and not is_sink:
            instead = {edge: len(removed.inputs) for edge in readers}
            yield _with_program(
                _joining(topology, lambda edge, instead=instead: instead.get(edge, 1)),  # type: ignore[misc]
                tuple(_past(removed, vertex) for vertex in topology.vertices if vertex is not removed),
            )


def _joining(topology: Topology, count: Callable[[JobEdge], int]) -> Topology:
    """Update the number of left inputs of joins. `count` returns how many edges replace an edge."""
    behaviours = dict(topology.program.behaviours)
    for vertex in topology.vertices:
        uid = vertex.operators[0].ref.uid
        head = behaviours[uid]
        if isinstance(head, Join):
            left_inputs = sum(map(count, vertex.inputs[: head.left_inputs]))
            behaviours[uid] = replace(head, left_inputs=left_inputs)
    return replace(topology, program=Program(behaviours=behaviours))


def _past(removed: JobVertex, vertex: JobVertex) -> JobVertex:
    inputs: list[JobEdge] = []
    for edge in vertex.inputs:
        if edge.source == removed.vertex_id:
            # The vertices that are now connected may have different parallelisms.
            strategy = ShipStrategy.REBALANCE if edge.ship_strategy is ShipStrategy.FORWARD else edge.ship_strategy
            inputs += (replace(former, ship_strategy=strategy) for former in removed.inputs)
        else:
            inputs.append(edge)
    return replace(vertex, inputs=tuple(inputs))


def _trimmed(topology: Topology, removed: set[JobVertexId]) -> Topology | None:
    """Remove these vertices, and those that then have no inputs or no readers. Returns None if no vertex remains."""
    vertices = topology.vertices
    while True:
        vertices = tuple(
            replace(vertex, inputs=tuple(edge for edge in vertex.inputs if edge.source not in removed))
            for vertex in vertices
            if vertex.vertex_id not in removed
        )
        read = {(edge.source, edge.source_output) for vertex in vertices for edge in vertex.inputs}
        removed = {vertex.vertex_id for vertex in vertices if not _is_of_use(vertex, topology.program, read)}
        if not removed:
            break
    if not vertices:
        return None
    remaining = {vertex.vertex_id for vertex in vertices}
    return _with_program(_joining(topology, lambda edge: edge.source in remaining), _renumbered(vertices, read))


def _is_of_use(vertex: JobVertex, program: Program, read: set[tuple[JobVertexId, int]]) -> bool:
    behaviours = [program[operator.ref.uid] for operator in vertex.operators]
    reads = bool(vertex.inputs) or isinstance(behaviours[0], Source)
    is_read = any((vertex.vertex_id, number) in read for number in range(len(vertex.outputs)))
    return reads and (is_read or any(isinstance(behaviour, Sink) for behaviour in behaviours))


def _renumbered(vertices: tuple[JobVertex, ...], read: set[tuple[JobVertexId, int]]) -> tuple[JobVertex, ...]:
    numbers: dict[tuple[JobVertexId, int], int] = {}
    for vertex in vertices:
        read_outputs = [number for number in range(len(vertex.outputs)) if (vertex.vertex_id, number) in read]
        numbers.update({(vertex.vertex_id, number): place for place, number in enumerate(read_outputs)})

    def edge(old: JobEdge) -> JobEdge:
        return replace(old, source_output=numbers[old.source, old.source_output])

    return tuple(
        replace(
            vertex,
            inputs=tuple(map(edge, vertex.inputs)),
            outputs=tuple(name for number, name in enumerate(vertex.outputs) if (vertex.vertex_id, number) in numbers),
        )
        for vertex in vertices
    )


def _without_an_operator(topology: Topology) -> Iterator[Topology]:
    for vertex in topology.vertices:
        for place, operator in enumerate(vertex.operators):
            if place and isinstance(topology.program[operator.ref.uid], Map | Filter):
                yield _with_program(topology, _with_vertex(topology, _bypassed(vertex, place)))


def _bypassed(vertex: JobVertex, place: int) -> JobVertex:
    """Remove the operator at index `place`. Its readers then read its input."""
    removed = vertex.operators[place]
    before = removed.input_operator
    assert before is not None, "the first operator of a chain cannot be removed"

    def moved(operator: Operator) -> Operator:
        reads = before if operator.input_operator == place else operator.input_operator
        return replace(operator, input_operator=reads - 1 if reads is not None and reads > place else reads)

    operators = (*vertex.operators[:place], *vertex.operators[place + 1 :])
    instead: dict[OperatorId, OperatorId] = {removed.operator_id: vertex.operators[before].operator_id}
    outputs = tuple(instead.get(name, name) for name in vertex.outputs)
    return replace(vertex, operators=tuple(map(moved, operators)), outputs=outputs)


def _narrower(topology: Topology) -> Iterator[Topology]:
    if topology.parallelism > 1:
        yield topology.rescaled(lambda _: 1)
    widths = sorted({vertex.parallelism for vertex in topology.vertices} - {1})
    for width in widths:
        # All vertices with the same parallelism are changed together, so that forward edges stay possible.
        yield topology.rescaled(lambda n, width=width: n - 1 if n == width else n)  # type: ignore[misc]


def _with_fewer_rows(topology: Topology) -> Iterator[Topology]:
    for uid, behaviour in topology.program.behaviours.items():
        if isinstance(behaviour, Source) and behaviour.rows > 1:
            for rows in dict.fromkeys((1, behaviour.rows // 2, behaviour.rows - 1)):
                yield _behaving(topology, uid, replace(behaviour, rows=rows))


def _plainer_topologies(topology: Topology) -> Iterator[Topology]:
    for uid, behaviour in topology.program.behaviours.items():
        if isinstance(behaviour, Source):
            plain = {"keys": 1, "disorder_ms": 0, "rows_per_split": 1, "splits_per_look": 100, "step_ms": 1}
            for field, value in plain.items():
                if getattr(behaviour, field) != value:
                    yield _behaving(topology, uid, replace(behaviour, **{field: value}))
        if isinstance(behaviour, Join) and behaviour.outer:
            yield _behaving(topology, uid, replace(behaviour, outer=()))
    for vertex in topology.vertices:
        if vertex.watermark_alignment is not None:
            yield replace(topology, vertices=_with_vertex(topology, replace(vertex, watermark_alignment=None)))
        if vertex.firing_mode is not FiringMode.ON_WATERMARK:
            yield replace(
                topology, vertices=_with_vertex(topology, replace(vertex, firing_mode=FiringMode.ON_WATERMARK))
            )
        for place, edge in enumerate(vertex.inputs):
            if edge.ship_strategy not in (ShipStrategy.HASH, ShipStrategy.REBALANCE):
                plainer = replace(edge, ship_strategy=ShipStrategy.REBALANCE)
                inputs = (*vertex.inputs[:place], plainer, *vertex.inputs[place + 1 :])
                yield replace(topology, vertices=_with_vertex(topology, replace(vertex, inputs=inputs)))


def _behaving(topology: Topology, uid: str, behaviour: Behaviour) -> Topology:
    behaviours = {**topology.program.behaviours, uid: behaviour}
    return replace(topology, program=Program(behaviours=behaviours))


def _with_vertex(topology: Topology, changed: JobVertex) -> tuple[JobVertex, ...]:
    return tuple(changed if each.vertex_id == changed.vertex_id else each for each in topology.vertices)


def _with_program(topology: Topology, vertices: tuple[JobVertex, ...]) -> Topology:
    uids = {operator.ref.uid for vertex in vertices for operator in vertex.operators}
    behaviours = {uid: each for uid, each in topology.program.behaviours.items() if uid in uids}
    return Topology(vertices=vertices, program=Program(behaviours=behaviours))
