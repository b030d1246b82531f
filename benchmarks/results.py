"""Formats measured figures as JSON for programs and as a table for people."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.contestant import Run
from benchmarks.engines import EngineName
from benchmarks.rules import Rules

Runs = Mapping[tuple[EngineName, int], Sequence[Run]]
"""The timed runs of each engine for each number of rows per batch."""

_TITLES = {
    EngineName.FLYKKA: "flykka, exactly once, a checkpoint per second",
    EngineName.STRUCTURED_STREAMING: "Structured Streaming, a checkpoint per batch",
    EngineName.SPARK_BATCH: "plain Spark batch",
}


def as_json(runs: Runs, rows: int) -> dict[str, dict[str, Any]]:
    """Return, by the number of rows per batch: rows per second, ratios, peak memory, and checkpoints of each run."""
    sizes = sorted({size for _, size in runs})
    return {str(size): _size_as_json({name: runs[name, at] for name, at in runs if at == size}, rows) for size in sizes}


def _size_as_json(runs: Mapping[EngineName, Sequence[Run]], rows: int) -> dict[str, Any]:
    speeds = {name: median(rows / run.seconds for run in several) for name, several in runs.items()}
    found: dict[str, Any] = {str(name): round(speed) for name, speed in speeds.items()}
    for other in (EngineName.STRUCTURED_STREAMING, EngineName.SPARK_BATCH):
        if EngineName.FLYKKA in speeds and other in speeds:
            found[f"{EngineName.FLYKKA}_over_{other}"] = round(speeds[EngineName.FLYKKA] / speeds[other], 2)
    peaks = {name: [run.peak_bytes for run in several if run.peak_bytes is not None] for name, several in runs.items()}
    found["peak_memory_bytes"] = {str(name): max(bytes_, default=None) for name, bytes_ in peaks.items()}
    found["checkpoints_completed"] = {
        str(name): [run.checkpoints for run in several]
        for name, several in runs.items()
        if name is not EngineName.SPARK_BATCH
    }
    return found


def as_table(results: Mapping[str, Mapping[str, Any]], rules: Rules) -> str:
    lines = [
        f"{rules.rows:,} bids in {rules.files} files, medians of {rules.repeat}, {os.cpu_count()} cores, "
        f"{rules.heap} of heap:",
        "",
        "| rows per batch | engine | rows/s | flykka is faster by | peak memory | checkpoints |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for size, found in results.items():
        lines += [_line(int(size), name, found) for name in _TITLES if name in found]
    return "\n".join(lines)


def _line(size: int, name: EngineName, found: Mapping[str, Any]) -> str:
    ratio = found.get(f"{EngineName.FLYKKA}_over_{name}")
    peak = found["peak_memory_bytes"][name]
    checkpoints = found["checkpoints_completed"].get(name)
    cells = (
        f"{size:,}",
        _TITLES[name],
        f"{found[name]:,}",
        "" if ratio is None else f"{ratio:.2f}",
        "" if peak is None else f"{peak / 2**20:,.0f} MiB",
        "" if checkpoints is None else str(min(checkpoints)),
    )
    return f"| {' | '.join(cells)} |"
