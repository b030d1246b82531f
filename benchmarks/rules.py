"""What is measured: the options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.engines import EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is run, how often, and how many checkpoints a run of flykka's must have to count."""

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

    @property
    def warm_up_files(self) -> int:
        """A quarter of the bids."""
        return max(1, self.files // 4)
