"""Formats measured figures as JSON for programs and as a table for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.checkpoints.measuring import Measured
from benchmarks.checkpoints.topologies import Topology
from flykka.messages.graph.job_graph import ShipStrategy


def as_json(measured: Mapping[Topology, Measured]) -> dict[str, dict[str, Any]]:
    """Return for each topology, by name: median and 99th percentile, CPU and collector time, submission time."""
    return {topology.name: _figures(found) for topology, found in measured.items()}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the lowest value that at least this fraction of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _figures(found: Measured) -> dict[str, Any]:
    wall = [times.wall_ms for times in found.checkpoints]
    return {
        "median_ms": round(median(wall), 2),
        "p99_ms": round(percentile(wall, 0.99), 2),
        "cpu_median_ms": round(median(times.cpu_ms for times in found.checkpoints), 2),
        "gc_ms_per_checkpoint": round(found.gc_ms / len(wall), 2),
        "submit_s": round(found.submit_s, 3),
        "checkpoints": len(wall),
    }


def as_table(results: Mapping[str, Mapping[str, Any]], topologies: Sequence[Topology]) -> str:
    lines = [
        f"From the trigger until every task has heard that the checkpoint is complete; {os.cpu_count()} cores,"
        f" Python {platform.python_version()}, flight recorder on:",
        "",
        "| tasks | wiring | channels | median | p99 | wanted | Flink 2.3 | processor | gc | submitted in | wanted |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [_line(topology, results[topology.name]) for topology in topologies if topology.name in results]
    return "\n".join(lines)


def _line(topology: Topology, found: Mapping[str, Any]) -> str:
    cells = (
        f"{topology.tasks:,}",
        "point-wise" if topology.wiring is ShipStrategy.FORWARD else "all to all",
        f"{topology.channels:,}",
        f"{found['median_ms']:,.1f} ms",
        f"{found['p99_ms']:,.1f} ms",
        "" if topology.target_ms is None else f"{topology.target_ms:,.0f} ms",
        "" if topology.flink_ms is None else f"{topology.flink_ms:,.0f} ms",
        f"{found['cpu_median_ms']:,.1f} ms",
        f"{found['gc_ms_per_checkpoint']:,.1f} ms",
        f"{found['submit_s']:.2f} s",
        "" if topology.submit_target_s is None else f"{topology.submit_target_s:.1f} s",
    )
    return f"| {' | '.join(cells)} |"
