"""Formats findings as JSON for programs and as text for people."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.checkpoints.results import percentile
from benchmarks.recovery.kills import Kill
from benchmarks.recovery.times import Times


def as_json(kills: Sequence[Kill], times: Times) -> dict[str, Any]:
    """Return the kills by kind, and times in seconds; None if nothing was measured."""
    return {
        "exactly_once_kills": {
            "tried": len(kills),
            "lost": sum(kill.found.lost for kill in kills),
            "duplicated": sum(kill.found.duplicated for kill in kills),
            "ended_badly": sum(bool(kill.end) for kill in kills),
            "by_kind": dict(sorted(Counter(str(kill.kind) for kill in kills).items())),
        },
        "recovery_s": {
            "median": _rounded(median(times.recoveries)) if times.recoveries else None,
            "p95": _rounded(percentile(times.recoveries, 0.95)) if times.recoveries else None,
        },
        "structured_streaming_restart_s": _rounded(median(times.restarts)) if times.restarts else None,
        "driver_takeover_s": _rounded(median(times.takeovers)) if times.takeovers else None,
    }


def as_text(found: dict[str, Any], seed: int) -> str:
    kills, recovery = found["exactly_once_kills"], found["recovery_s"]
    lines = [f"{os.cpu_count()} cores"]
    if kills["tried"]:
        lines.append(
            f"{kills['tried']} kills (seed {seed}): {kills['lost']} rows lost, {kills['duplicated']} duplicated,"
            f" {kills['ended_badly']} jobs that did not come to their end"
        )
        lines.append("  " + ", ".join(f"{kind} {number}" for kind, number in kills["by_kind"].items()))
    if recovery["median"] is not None:
        lines.append(
            f"from the death of a TaskManager to the first batch: {recovery['median']:.2f} s at the median,"
            f" {recovery['p95']:.2f} s at the 95th percentile"
        )
        lines.append(f"Structured Streaming, stopped and started: {found['structured_streaming_restart_s']:.2f} s")
    if found["driver_takeover_s"] is not None:
        lines.append(f"from the death of a driver to the first batch of the next: {found['driver_takeover_s']:.2f} s")
    return "\n".join(lines)


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
