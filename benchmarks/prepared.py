"""Input files of benchmarks: generated once, and reused by later runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Made = Callable[[int, int, int], pa.Table]
"""Generates rows, given the number of the first row, the number of rows, and a seed."""


def prepared(name: str, made: Made, rows: int, files: int, seed: int) -> Path:
    """Return a folder with `rows` rows in `files` files of similar size, which is written unless it exists."""
    folder = Path(tempfile.gettempdir()) / "flykka-benchmark" / f"{name}-{rows}-{files}-{seed}"
    if not folder.exists():
        unfinished = folder.with_name(f".{folder.name}-{os.getpid()}")
        write(unfinished, name, made, rows, files, seed)
        unfinished.rename(folder)
    return folder


def write(folder: Path, name: str, made: Made, rows: int, files: int, seed: int) -> None:
    """Write the rows into a new folder. The order of the files, by name and by age, is that of the rows."""
    folder.mkdir(parents=True)
    for number in range(files):
        first, behind = (rows * n // files for n in (number, number + 1))
        path = folder / f"{name}-{number:05}.parquet"
        pq.write_table(made(first, behind - first, seed), path)
        # Structured Streaming reads files by modification time, in milliseconds.
        os.utime(path, (number, number))
