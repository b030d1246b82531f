"""Draws the scenario of a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from flykka.messages.graph.job_graph import (
    CheckpointFailureReason,
    CheckpointingMode,
    CheckpointingSettings,
    ExternalizedCheckpointRetention,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    JobType,
    TolerableFailures,
)
from flykka.simulation.fault_injection import COMPLETED, MOMENTS, WRITTEN
from flykka.simulation.scenario import QUICK_MS, SLOW_MS, Fault, JobPlan, Scenario
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.topology import draw_topology, with_functions
from flykka.simulation.two_inputs import with_alignment, with_joins, with_two_inputs

SLOTS = 4
"""The minimum number of slots of all TaskManagers together: as many as the widest vertex may need."""
MAX_JOBS = 3
CHECKPOINTS = "checkpoints"
"""The folder of checkpoints, below the root of a simulation's files."""

_AFTER_MS = (0, 0, 5, 60, 200, 500, 1_000, 3_000)
_AT_ONCE = frozenset(FaultKind) - {FaultKind.CLOCK}
"""Faults that may be injected between two messages at one instant. Virtual time only advances after all messages."""
_WEIGHTS = {FaultKind.CRASH: 3, FaultKind.KILL: 3, FaultKind.STAGE: 3, FaultKind.STORAGE: 2}
"""The weights of faults. Faults after which attempts restart from a checkpoint are drawn more often."""
_TELLING = {
    FaultKind.CRASH: COMPLETED,
    FaultKind.KILL: COMPLETED,
    FaultKind.STAGE: COMPLETED,
    FaultKind.STORAGE: WRITTEN,
}
"""The messages before which these faults find most bugs. Half of the faults are injected before one of them."""
_FAULT_SEEDS = 1_000
_BATCH_SHARE, _FULL_SHARE, _FAST_SHARE = 0.2, 0.25, 0.75
_APPROXIMATE_SHARE = 0.2
_LONG_MS, _OFTEN_MS = 20_000, 500


def draw_scenario(seed: int, settings: SimulationSettings) -> Scenario:
    """Draw the scenario of a seed. It depends only on the seed and the set of faults."""
    chance = Random(f"jobs {seed}")
    stage_ms = chance.choice((QUICK_MS, SLOW_MS))
    # Each of these decisions has its own random numbers, so that changes do not affect the other draws.
    is_batch = Random(f"batch {seed}").random() < _BATCH_SHARE
    is_full = Random(f"failover {seed}").random() < _FULL_SHARE
    # These fast paths must not change any result.
    coalesces_batches = Random(f"coalescing {seed}").random() < _FAST_SHARE
    local_recovery = Random(f"local recovery {seed}").random() < _FAST_SHARE
    topology = with_functions(draw_topology(Random(f"topology {seed}")), Random(f"functions {seed}"))
    topology = with_joins(topology, Random(f"joins {seed}"))
    topology = with_alignment(topology, Random(f"alignment {seed}"))
    varying = Random(f"checkpoints {seed}")
    return Scenario(
        seed=seed,
        topology=with_two_inputs(topology, Random(f"two inputs {seed}")),
        task_managers=chance.randint(1, 3),
        stage_ms=stage_ms,
        restart_strategy=draw_restart_strategy(chance),
        jobs=tuple(
            replace(plan, checkpointing=vary_checkpointing(varying, plan.checkpointing))
            for plan in _jobs(chance, Random(f"faults {seed}"), settings, is_slow=stage_ms is SLOW_MS)
        )[: 1 if is_batch else MAX_JOBS],
        job_type=JobType.BATCH if is_batch else JobType.STREAMING,
        failover_strategy=FailoverStrategyKind.FULL if is_full else FailoverStrategyKind.REGION,
        coalesces_batches=coalesces_batches,
        local_recovery=local_recovery,
        approximate=not is_batch and not is_full and Random(f"approximate {seed}").random() < _APPROXIMATE_SHARE,
    )


def _jobs(chance: Random, faults: Random, settings: SimulationSettings, *, is_slow: bool) -> Iterator[JobPlan]:
    mode: CheckpointingMode | None = None
    for number in range(MAX_JOBS):
        checkpointing = draw_checkpointing(chance, CHECKPOINTS, mode)
        mode = checkpointing.mode
        if is_slow:
            # A checkpoint that exceeds its timeout, and must not fail, would be retried forever. If a snapshot took
            # longer than the interval, the job would do nothing else.
            interval_ms = max(_OFTEN_MS, checkpointing.interval_ms or 0)
            checkpointing = replace(checkpointing, timeout_ms=_LONG_MS, interval_ms=interval_ms)
        yield JobPlan(
            checkpointing=checkpointing,
            faults=tuple(_fault(faults, kind) for kind in _kinds(faults, settings)),
            parallelism=tuple(chance.randint(1, SLOTS) for _ in range(SLOTS)) if number else (),
            goes_on=chance.random() < 0.7,
        )


def _kinds(chance: Random, settings: SimulationSettings) -> list[FaultKind]:
    faults = sorted(settings.faults - {FaultKind.REQUEST})
    count = chance.randint(0, settings.max_faults)
    kinds = chance.choices(faults, [_WEIGHTS.get(kind, 1) for kind in faults], k=count) if faults else []
    if FaultKind.REQUEST in settings.faults:
        kinds += [FaultKind.REQUEST] * chance.choice((0, 0, 1, 1, 2))
    return kinds


def _fault(chance: Random, kind: FaultKind) -> Fault:
    seed = chance.randrange(_FAULT_SEEDS)
    if kind in _AT_ONCE and chance.random() < 0.5:
        moments = _TELLING[kind] if kind in _TELLING and chance.random() < 0.5 else MOMENTS
        before, count = chance.choice(moments), chance.choice((1, 1, 2, 3, 5, 9))
        return Fault(kind=kind, before=before, count=count, seed=seed)
    return Fault(kind=kind, at_ms=chance.choice(_AFTER_MS) + chance.randint(0, 200), seed=seed)


def draw_checkpointing(chance: Random, directory: str, mode: CheckpointingMode | None = None) -> CheckpointingSettings:
    """Draw the checkpoint settings of a job. If it follows another job, `mode` is that job's mode."""
    is_at_least_once = chance.random() < 0.15 if mode is None else mode is CheckpointingMode.AT_LEAST_ONCE
    is_unaligned = not is_at_least_once and chance.random() < 0.5
    return CheckpointingSettings(
        directory=directory,
        interval_ms=chance.choice((100, 100, 300, 1_000)),
        timeout_ms=chance.choice((200, 2_000, 20_000)),
        min_pause_ms=chance.choice((0, 0, 150)),
        # As in the API, barriers that overtake rows must not overtake each other.
        max_concurrent=1 if is_unaligned else chance.choice((1, 1, 2)),
        tolerable_failures=chance.choice((0, 3, 1_000)),
        retained=chance.choice((1, 1, 3)),
        retention=chance.choice(tuple(ExternalizedCheckpointRetention)),
        mode=CheckpointingMode.AT_LEAST_ONCE if is_at_least_once else CheckpointingMode.EXACTLY_ONCE,
        unaligned=is_unaligned,
        aligned_timeout_ms=chance.choice((0, 20)) if is_unaligned else 0,
    )


def vary_checkpointing(chance: Random, checkpointing: CheckpointingSettings) -> CheckpointingSettings:
    reasons = (CheckpointFailureReason.CHECKPOINT_EXPIRED, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE)
    tolerable = tuple(TolerableFailures(reason=reason, number=chance.choice((0, 2, 1_000))) for reason in reasons)
    return replace(
        checkpointing,
        initial_delay_ms=chance.choice((None, None, 0, 150)),
        has_random_initial_delay=chance.random() < 0.25,
        tolerable_by_reason=tolerable[: chance.choice((0, 0, 1, 2))],
        max_concurrent_deletions=chance.choice((1, 1, 2, 4)),
    )


def draw_restart_strategy(chance: Random) -> FixedDelayRestartStrategyConfiguration:
    attempts = chance.choice((None, None, None, None, 0, 2))
    return FixedDelayRestartStrategyConfiguration(attempts=attempts, delay_ms=chance.choice((50, 100, 500)))
