"""The options of a benchmark run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.engines import EngineName

WARM_UP_ROUNDS = 2
"""The number of complete rounds that do not count, while the JVM compiles; a stream needs more than a single job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The number and sizes of the runs, and the minimum number of checkpoints in a run of flykka."""

    rows: int
    files: int
    sizes: tuple[int, ...]
    engines: tuple[EngineName, ...]
    repeat: int
    checkpoints_at_least: int
    heap: str

    @property
    def rows_per_file(self) -> int:
        """The number of rows in the largest file."""
        return -(-self.rows // self.files)
