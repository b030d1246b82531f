"""Measures the cost of observing a job: `python -m benchmarks.observability`.

A page shows the job and `/metrics` is scraped every second, by a process on the same machine, in every other run of one
process: of the stream of `benchmarks.streaming`, and of checkpoints of a job of 256 tasks without data. Each round has
a run alone and an observed one, and the median of the ratios of their times counts; 1 is no cost. Then answers about a
job of ten thousand subtasks are timed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.arguments import positive_int


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        stream = _measured("streaming", options.rows, options.files, options.rows_per_batch, options.repeat)
        control_plane = _measured("control_plane", options.tasks, options.checkpoints, options.repeat)
    except subprocess.CalledProcessError as failed:
        print(f"{failed.cmd[2]} has ended with {failed.returncode}", file=sys.stderr)
        return 1
    found = as_json(stream, control_plane)
    print(json.dumps(found, indent=2) if options.json else as_table(found, control_plane["answers"]))
    return 0


def as_json(stream: Mapping[str, Sequence[float]], control_plane: Mapping[str, Any]) -> dict[str, float]:
    """Return the ratio of observed to unobserved speed, for the stream and for checkpoints, and the overview's ms."""
    return {
        "streaming_ratio": _speed(stream),
        "checkpoint_ratio": _speed(control_plane),
        "overview_ms_at_10000_subtasks": round(median(control_plane["answers"]["/overview"]), 1),
    }


def _speed(times: Mapping[str, Sequence[float]]) -> float:
    """Return the median ratio of the rounds; the two runs of a round have the same load from other processes."""
    return round(median(alone / watched for alone, watched in zip(times["alone"], times["watched"], strict=True)), 3)


def as_table(found: Mapping[str, float], answers: Mapping[str, Sequence[float]]) -> str:
    ratios = found["streaming_ratio"], found["checkpoint_ratio"]
    lines = [
        f"Watched, the stream has {ratios[0]:.3f} of its speed, and checkpoints have {ratios[1]:.3f} of theirs.",
        "",
        "| path, at 10,000 subtasks | median | slowest |",
        "| --- | ---: | ---: |",
        *(f"| `{path}` | {median(times):,.0f} ms | {max(times):,.0f} ms |" for path, times in answers.items()),
    ]
    return "\n".join(lines)


def _measured(module: str, *arguments: int) -> Any:
    command = [sys.executable, "-m", f"benchmarks.observability.{module}", *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.observability",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number: dict[str, Any] = {"type": positive_int, "metavar": "N"}
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.add_argument("--rows", default=40_000_000, help="how many bids", **number)
    parser.add_argument("--files", default=80, help="in how many files", **number)
    parser.add_argument("--rows-per-batch", default=500_000, **number)
    parser.add_argument("--tasks", default=256, help="of the job whose checkpoints are timed", **number)
    parser.add_argument("--checkpoints", default=50, help="in a row", **number)
    parser.add_argument("--repeat", default=6, help="rounds, each alone and watched", **number)
    return parser


if __name__ == "__main__":
    sys.exit(main())
