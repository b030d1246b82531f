"""The outcome of one simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from flykka.monitors.monitor import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTally:
    """The numbers of checkpoints by result, including savepoints. `reasons` counts the reasons of aborts."""

    completed: int = 0
    aborted: int = 0
    savepoints: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: CheckpointTally) -> CheckpointTally:
        return CheckpointTally(
            completed=self.completed + other.completed,
            aborted=self.aborted + other.aborted,
            savepoints=self.savepoints + other.savepoints,
            reasons=self.reasons + other.reasons,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOutcome:
    """The outcome of a run: its figures, and the violations found in it.

    `faults` counts the injected faults by kind. `jobs` are the final statuses of the run's jobs in order, or STOPPED.
    `digest` is the digest of all turns, if requested.
    """

    seed: int
    topology: str
    faults: Counter[str]
    turns: int
    checkpoints: CheckpointTally
    restarts: int
    jobs: tuple[str, ...]
    rows: int
    late_rows: int
    virtual_ms: int
    violations: tuple[Violation, ...]
    trace_path: Path | None = None
    digest: str | None = None

    @property
    def passed(self) -> bool:
        """True if there are no violations."""
        return not self.violations
