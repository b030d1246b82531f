"""The options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.engines import EngineName

WARM_UP_ROUNDS = 2
"""Whole rounds that do not count, while the JVM's compilers are busy; a stream needs more of them than a single job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The runs, their number, and the minimum number of checkpoints of a flykka run."""

    rows: int
    files: int
    sizes: tuple[int, ...]
    engines: tuple[EngineName, ...]
    repeat: int
    checkpoints_at_least: int
    heap: str

    @property
    def rows_per_file(self) -> int:
        """Rows of the largest file."""
        return -(-self.rows // self.files)
