"""FileSink: parquet files that appear exactly once, when the checkpoint that holds them is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """Where to write. Readers of the folder see committed rows only, at every moment; what lies there is left alone.

    Made by `parquet`.
    """

    format: ClassVar[str] = "parquet"
    publishes_per_checkpoint: ClassVar[bool] = True

    path: str

    @classmethod
    def parquet(cls, path: str) -> FileSink:
        """Parquet files in a folder, which is made when the first are published."""
        return cls(path=str(path))

    def __str__(self) -> str:
        return f"{self.format} {self.path}"
