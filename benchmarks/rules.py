"""The options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.engines import EngineName

WARM_UP_ROUNDS = 2
"""Whole rounds that do not count: so long the JVM's compilers are at work, for a stream longer than for one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The runs, their number, and the checkpoints that a run of flykka's must have to count."""

    rows: int
    files: int
    sizes: tuple[int, ...]
    engines: tuple[EngineName, ...]
    repeat: int
    checkpoints_at_least: int
    heap: str

    @property
    def rows_per_file(self) -> int:
        """Of the largest file."""
        return -(-self.rows // self.files)
