"""The outcome of one simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from flykka.monitors.monitor import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTally:
    """Counts of checkpoints by their ends, with the savepoints among them; `reasons` are those of the aborted ones."""

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
    """A run in figures, and what was wrong with it.

    `faults` counts what was injected, by kind. `jobs` are how the jobs of the run ended, one behind the other: by their
    status, or STOPPED. `digest` is of all turns, where it was wanted.
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
        """True if no law was violated."""
        return not self.violations
