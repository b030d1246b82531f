"""Runs many simulations, one per seed, in any number of processes. The results do not depend on that number."""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from flykka.simulation.outcome import CheckpointTally, SimulationOutcome
from flykka.simulation.settings import SimulationSettings
from flykka.simulation.simulation import simulate

_CHUNK = 8


@dataclass(slots=True)
class CampaignSummary:
    seeds: int = 0
    turns: int = 0
    checkpoints: CheckpointTally = field(default_factory=CheckpointTally)
    restarts: int = 0
    rows: int = 0
    late_rows: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    failed: list[SimulationOutcome] = field(default_factory=list)

    def add(self, outcome: SimulationOutcome) -> None:
        self.seeds += 1
        self.turns += outcome.turns
        self.checkpoints += outcome.checkpoints
        self.restarts += outcome.restarts
        self.rows += outcome.rows
        self.late_rows += outcome.late_rows
        self.faults.update(outcome.faults)
        self.jobs.update(outcome.jobs)
        if not outcome.passed:
            self.failed.append(outcome)


def run_seeds(
    seeds: Iterable[int], settings: SimulationSettings, *, processes: int = 1, record: Path | None = None
) -> Iterator[SimulationOutcome]:
    """Yield the outcome of each seed, in order. The traces of failing seeds are stored below `record`."""
    run = partial(_run, settings=settings, record=record)
    if processes == 1:
        yield from map(run, seeds)
        return
    # A forked process would inherit locks that threads of this process hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(run, seeds, chunksize=_CHUNK)


def trace_of(seed: int, record: Path) -> Path:
    return record / f"seed-{seed}.trace"


def _run(seed: int, settings: SimulationSettings, record: Path | None) -> SimulationOutcome:
    with quietly():
        if record is None:
            return simulate(seed, settings)
        trace = trace_of(seed, record)
        outcome = simulate(seed, replace(settings, trace_path=trace))
    if outcome.passed:
        trace.unlink()
        return replace(outcome, trace_path=None)
    return outcome


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the actors' warnings, because faults are injected on purpose."""
    logger = logging.getLogger("flykka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
